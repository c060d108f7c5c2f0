"""LocalLeap: accelerating diffusion LLM inference via local determinism propagation (arXiv:2510.07081; code
friedrichor/LocalLeap).

Where one token is very certain, its neighbours are usually right before they are certain. A strict threshold holds
everywhere and makes anchors of the masks that pass it; within a few positions of an anchor a relaxed one is enough.
Without an anchor the best mask alone is committed.

Written from a description of the released loop, which derives from Fast-dLLM's, and checked against recorded runs of a
mirror of it. Anchors are found
anew in every forward among the masks: a committed token is no anchor any more. Confidences in float64.
We depart in three points: the mask token is never proposed, the last block may be shorter, and a relaxed threshold
above the strict one relaxes nothing. Where the official loop leaves both thresholds out it runs the fixed schedule:
that is the method `llada`."""

from collections.abc import Sequence
from itertools import groupby

from engines.kit import (
    Alternatives,
    Bool,
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
    TokenId,
    block_of,
    entropy,
    gumbel_argmax,
    many,
    mask_positions,
    slider,
    token_probability,
    torch,
)
from engines.methods.diffusion._forward import unmasking


class Leaps(Record):
    """The open positions of a block with their confidences, and the rule around its anchors."""

    start: Position  # of the block
    end: int  # the position after it
    at: list[Position]
    tokens: list[TokenId]
    confidence: list[Probability]
    strict: float
    relaxed: float
    radius: int

    def alternatives(self, _: Alternatives) -> dict[str, Stops]:
        """With another radius the anchor of each position, None where none is near, and the highest of the lower
        thresholds, up to the strict one, that write it, -1 where none does."""
        anchors = [q for q, c in zip(self.at, self.confidence, strict=True) if c >= self.strict]
        lines = slider(0, self.strict, 0.01, self.relaxed)

        def reached(radius: float) -> tuple[list[int | None], list[float]]:
            near, most = nearest(self.at, anchors, int(radius)), [-1.0] * len(self.at)
            for line in lines:
                for i in select(self.confidence, thresholds(near, self.strict, line), self.strict)[0]:
                    most[i] = line
            return near, most

        return {"radius": Stops.over(slider(0, 16, 1, self.radius), reached)} if self.at else {}


@unmasking(
    "localleap",
    title="LocalLeap",
    paper="arXiv:2510.07081",
    code="https://github.com/friedrichor/LocalLeap",
    summary="Very confident tokens are anchors: within a few positions of one, a lower threshold is enough.",
    params=[
        Int("block_length", 16, 1, 1024, symbol="b", source="32 official"),
        Float("threshold", 0.9, 0.0, 1.01, symbol="θ_hi", source="official"),
        Float("relaxed_threshold", 0.75, 0.0, 1.01, symbol="θ_lo", neutral=1.01, source="official"),
        Int("radius", 4, 0, 1024, symbol="r", neutral=0, source="official"),
        Float("temperature", 0.0, 0.0, 2.0, step=0.05, symbol="τ"),
        Bool("early_stop", False, source="off in the official signature"),
    ],
    signature="leaps",
    emits={"facts"},
    records={"leaps": Leaps},
    lanes={"confidence": "probability", "threshold": "probability", "distance": "count", "entropy": "nats"},
    baseline="threshold",
)
def decode(model: MaskedLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """The official `llada/generate.py`; A are this forward's anchors."""
    end = len(prompt) + p.max_new_tokens
    x = run.canvas(p.max_new_tokens, model.record.device)  # [L]
    while len(masks := mask_positions(x, model.mask_id)):
        a, b = block_of(int(masks[0]), len(prompt), p.block_length, end)
        z = model(x)  # [L, V]
        x0 = gumbel_argmax(z, p.temperature, run.rng)  # [L]
        inside = masks[masks < b]  # [m]
        z_masks, x0_masks = z[masks], x0[masks]  # the block's masks come first
        chance = token_probability(z_masks[: len(inside)], x0_masks[: len(inside)])  # [m], float64
        conf, at = chance.tolist(), inside.tolist()
        A = [q for q, c in zip(at, conf, strict=True) if c >= p.threshold]
        theta = thresholds(nearest(at, A, p.radius), p.threshold, p.relaxed_threshold)
        best, causes = select(conf, theta, p.threshold)
        chosen = inside[best]
        x[chosen] = x0[chosen]
        rest, fill = ending(x, a, b, model) if p.early_stop else (masks[:0], 0)
        x[rest] = fill
        rule = (p.threshold, min(p.threshold, p.relaxed_threshold), p.radius)
        edit = yield run.step(
            records={"leaps": lambda: Leaps(a, b, at, x0_masks[: len(inside)].tolist(), conf, *rule)},
            commits=(
                torch.cat([chosen, rest]),
                torch.cat([x0[chosen], torch.full_like(rest, fill)]),
                causes + ["fill"] * len(rest),
                [conf[i] for i in best] + [None] * len(rest),
            ),
            scores=lambda: {
                "confidence": (masks, token_probability(z_masks, x0_masks, torch.float32)),
                "threshold": (inside, theta),
                **({"distance": (at, [min(abs(q - a) for a in A) for q in at])} if A else {}),
                "entropy": (masks, entropy(z_masks)),
            },
            candidates=lambda: (masks, z_masks),
            spans=[
                Span("block", a, b),
                *windows(A, p.radius, a, b),
                *(Span("anchor", q, q + 1) for q in A),
            ],
            facts={"anchors": len(A), "relaxed": causes.count("relaxed")},
            note=note(causes, len(inside), len(rest)),
        )
        x = run.apply_edit(edit, x)


def nearest(at: Sequence[int], anchors: Sequence[int], radius: int) -> list[int | None]:
    """Of each position the nearest anchor within `radius`, the first of equals; None where there is none."""
    around = ([a for a in anchors if abs(a - q) <= radius] for q in at)
    return [min(near, key=lambda a, q=q: abs(a - q), default=None) for q, near in zip(at, around, strict=True)]


def thresholds(near: Sequence[int | None], strict: float, relaxed: float) -> list[float]:
    """The threshold at each position: the relaxed one near an anchor."""
    return [strict if anchor is None else min(strict, relaxed) for anchor in near]


def select(conf: Sequence[float], theta: Sequence[float], strict: float) -> tuple[list[int], list[str]]:
    """Rank 1, and every other one with c >= its own threshold: indices by falling confidence, causes."""
    order = sorted(range(len(conf)), key=lambda i: -conf[i])
    best = [i for rank, i in enumerate(order) if not rank or conf[i] >= theta[i]]
    return best, ["anchor" if conf[i] >= strict else "relaxed" if conf[i] >= theta[i] else "top1" for i in best]


def ending(x: Tensor, a: int, b: int, model: MaskedLM) -> tuple[Tensor, int]:
    """The masks of x [L] behind the block [a, b) and the end mark to fill them with; none unless the block is finished
    and holds one."""
    ends = [token for token in x[a:b].tolist() if token in model.eos_ids]
    rest = mask_positions(x, model.mask_id)
    return (rest, ends[0]) if ends and not (rest < b).any() else (rest[:0], 0)


def windows(anchors: list[int], radius: int, a: int, b: int) -> list[Span]:
    """What the anchors reach of the block [a, b), neighbours taken together. It reaches beyond the block too, where
    nothing can be committed yet."""
    reached = [q for q in range(a, b) if any(abs(q - anchor) <= radius for anchor in anchors)]
    runs = [[q for _, q in run] for _, run in groupby(enumerate(reached), lambda pair: pair[1] - pair[0])]
    return [Span("window", run[0], run[-1] + 1) for run in runs]


def note(causes: list[str], masks: int, filled: int) -> str:
    """A sentence on what decided."""
    if causes == ["top1"]:
        return "No anchor, so nothing is relaxed: only the best one is written."
    anchors, relaxed = causes.count("anchor"), causes.count("relaxed")
    anchored = f"{anchors} of {many(masks, 'mask')} {'are anchors' if anchors > 1 else 'is an anchor'}"
    follow = (
        f"{relaxed} {'neighbours follow' if relaxed > 1 else 'neighbour follows'}"
        if relaxed
        else "no neighbour follows"
    )
    return f"{anchored}, {follow}." + (
        f" The block holds an end mark: {many(filled, 'mask')} after it filled." if filled else ""
    )
