"""AdaBlock-dLLM: semantic-aware diffusion LLM inference via adaptive block size (arXiv:2509.26432; code
lgxi24/AdaBlock-dLLM, Apache-2.0).

Fixed blocks cut sentences in the wrong place: sure tokens behind the border wait, unsure ones inside are forced. The
first forward of each block is searched for a delimiter that the model already proposes with decent confidence, and the
block ends there.

The window is a quarter of the budget and the delimiter the newline, as in the released code (the paper describes a
wider set).
We depart in two points: the mask token is never proposed, and delimiters are recognised by their text, not by one
tokenizer's ids."""

from collections.abc import Callable, Sequence

from engines.kit import (
    Alternatives,
    Float,
    Int,
    MaskedLM,
    Params,
    Position,
    Probability,
    Record,
    Recorder,
    Span,
    Steps,
    Stops,
    Tensor,
    Text,
    TokenId,
    Tokenizer,
    UserError,
    block_of,
    entropy,
    gumbel_argmax,
    many,
    mask_positions,
    slider,
    token_probability,
)
from engines.methods.diffusion._forward import unmasking


def check(p: Params) -> None:
    """The ids must be numbers."""
    _ids(p)


class Boundary(Record):
    """Where a block ends and why, and what is open from its start on, with confidences."""

    start: Position
    end: int  # the position after the block
    default: int  # tokens of a block where no delimiter decides
    why: str
    seen: list[Position]  # delimiters in the window
    seen_confidence: list[Probability]
    delimiter_threshold: float
    threshold: float
    at: list[Position]
    tokens: list[TokenId]
    confidence: list[Probability]

    def alternatives(self, run: Alternatives) -> dict[str, Stops]:
        """With another threshold of a delimiter the end of the block and which positions it writes; and which a block
        of fixed length does."""
        first, last = len(run.header.prompt_ids), run.header.canvas or 0
        seen = list(zip(self.seen, self.seen_confidence, strict=True))

        def select(end: int) -> list[int]:
            inside = [c for q, c in zip(self.at, self.confidence, strict=True) if q < end]
            return [self.at[i] for i in ready(inside, self.threshold)]

        def block(tau: float) -> tuple[int, list[int]]:
            end = ending(seen, self.start, min(self.default, last - self.start), tau)[0]
            return end, select(end)

        fixed = block_of(self.at[0], first, self.default, last)[1]
        return {
            "tau": Stops.over(slider(0, 1, 0.01, self.delimiter_threshold), block),
            "fixed": Stops([0], [select(fixed)]),
        }


@unmasking(
    "adablock",
    title="AdaBlock-dLLM",
    paper="arXiv:2509.26432",
    code="https://github.com/lgxi24/AdaBlock-dLLM",
    summary="Blocks end where the model already sees the end of a line, instead of after a fixed number of tokens.",
    params=[
        Int("block_length", 16, 1, 1024, symbol="b0", source="32 official"),
        Float("threshold", 0.9, 0.0, 1.01, symbol="θ", source="official"),
        Float("delimiter_threshold", 0.3, 0.0, 1.01, symbol="τ_D", neutral=1.01, source="0.3 for LLaDA, 0.5 for Dream"),
        Text("delimiters", "\\n"),
        Text("delimiter_ids", ""),
        Float("temperature", 0.0, 0.0, 2.0, step=0.05, symbol="τ"),
    ],
    signature="boundary",
    emits={"facts"},
    records={"boundary": Boundary},
    lanes={"confidence": "probability", "entropy": "nats"},
    baseline="threshold",
    check=check,
)
def decode(model: MaskedLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """The official `llada/generate_adablock.py`, its loop without a cache."""
    G, P = p.max_new_tokens, len(prompt)
    is_delimiter = delimiter_test(model.tokenizer, p)
    x = run.canvas(G, model.record.device)  # [L]
    start = end = P
    why, seen = "", []
    while len(masks := mask_positions(x, model.mask_id)):
        z = model(x)  # [L, V]
        x0 = gumbel_argmax(z, p.temperature, run.rng)  # [L]
        opening = int(masks[0]) >= end
        if opening:
            start = int(masks[0])
            length, why, seen = block_length(z, x0, start, P + G, p, is_delimiter)
            end = start + length
        inside = masks[masks < end]
        z_masks, x0_masks = z[masks], x0[masks]  # those of the block come first
        chance = token_probability(z_masks, x0_masks)  # float64
        conf = chance[: len(inside)]  # [m]
        best = ready(conf.tolist(), p.threshold)
        chosen = inside[best]
        x[chosen] = x0[chosen]
        late = masks[len(inside) :][chance[len(inside) :] >= p.threshold].tolist()
        causes = ["threshold" if c >= p.threshold else "top1" for c in conf[best].tolist()]
        window = [Span("window", start, min(start + G // 4, P + G))] if opening else []
        edit = yield run.step(
            records={
                "boundary": lambda: Boundary(
                    start,
                    end,
                    p.block_length,
                    why,
                    [d for d, _ in seen],
                    [c for _, c in seen],
                    p.delimiter_threshold,
                    p.threshold,
                    masks.tolist(),
                    x0_masks.tolist(),
                    chance.tolist(),
                )
            },
            commits=(chosen, x0[chosen], causes, conf[best]),
            scores=lambda: {"confidence": (masks, chance), "entropy": (masks, entropy(z_masks))},
            thresholds={"confidence": p.threshold},
            candidates=lambda: (masks, z_masks),
            spans=[
                Span("block", start, end, why),
                *window,
                *(Span("delimiter", d, d + 1, f"{c:.2f}") for d, c in seen),
                *(Span("late", q, q + 1) for q in late),
            ],
            facts={"block_length": end - start, "late": len(late), "premature": causes.count("top1")},
            note=REASONS[why].format(length=many(end - start, "token"))
            if opening
            else f"{many(len(late), 'confident token')} beyond the block must wait."
            if late
            else "",
        )
        x = run.apply_edit(edit, x)


REASONS = {
    "delimiter": "A line end is predicted in the window: this block takes {length}.",
    "none": "No line end in the window: the default of {length}.",
    "low_conf": "A line end is predicted below the threshold: the default of {length}.",
    "tail": "The rest of the answer: {length}.",
}


def block_length(
    z: Tensor, x0: Tensor, start: int, end: int, p: Params, is_delimiter: Callable[[int], bool]
) -> tuple[int, str, list[tuple[int, float]]]:
    """Length of the block at `start`, why, and the delimiters seen as (position, confidence). z [L, V], x0 [L]; a pure
    function of the board."""
    left = end - start
    positions = [q for q in range(start, start + min(p.max_new_tokens // 4, left)) if is_delimiter(int(x0[q]))]
    default = min(p.block_length, left)
    if not positions:
        return default, "tail" if left < p.block_length else "none", []
    conf = token_probability(z[positions], x0[positions])
    seen = list(zip(positions, conf.tolist(), strict=True))
    end, why = ending(seen, start, default, p.delimiter_threshold)
    return end - start, why, seen


def ending(seen: Sequence[tuple[int, float]], start: int, default: int, tau: float) -> tuple[int, str]:
    """The end of a block with these delimiters (position, confidence), and why: behind the surest, the first of equals,
    if it is sure enough, else `default` behind the start."""
    best, c = max(seen, key=lambda pair: pair[1], default=(start, -1.0))
    return (best + 1, "delimiter") if c >= tau else (start + default, "low_conf")


def ready(conf: Sequence[float], theta: float) -> list[int]:
    """Which of these confidences are written: those at the threshold, and the best."""
    best = max(range(len(conf)), key=conf.__getitem__, default=-1)
    return [i for i, c in enumerate(conf) if c >= theta or i == best]


def delimiter_test(tokenizer: Tokenizer, p: Params) -> Callable[[int], bool]:
    """Whether a token ends a unit: by id if ids are given, else by its text."""
    if ids := _ids(p):
        return lambda token: token in ids
    marks = set(p.delimiters.replace("\\n", "\n"))

    def test(token: int) -> bool:
        piece = tokenizer.piece(token)
        return piece.kind == "text" and any(mark in piece.text for mark in marks)

    return test


def _ids(p: Params) -> set[int]:
    try:
        return {int(t) for t in p.delimiter_ids.split(",")} if p.delimiter_ids.strip() else set()
    except ValueError:
        raise UserError(
            f"delimiter_ids={p.delimiter_ids[:40]} is not a list of token ids; give numbers separated by commas, or "
            "nothing."
        ) from None
