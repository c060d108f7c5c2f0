"""Fast-dLLM: confidence-aware parallel decoding (Wu et al., arXiv:2505.22618; code NVlabs/Fast-dLLM, Apache-2.0).

Instead of a fixed number, every forward commits all masks of the block that are confident enough: above a threshold, or
as many as the factor rule allows (greedy parallel equals greedy sequential while (n + 1)(1 - c_n) stays small). At
least one is always committed. The paper's other half is a cache of keys and values that are allowed to be a little old;
its two forms are explained in `_forward`.

The rules follow commit d1266802 (July 2025); the main branch later lost the "at least one" guarantee. Confidences in
float64.
We depart in three points: the mask token is never proposed, the last block may be shorter than the others, and with a
cache a model that predicts the next token is also fed the position before the block (the official loop for Dream
commits the block's first token without a rule instead)."""

from collections.abc import Callable

from engines.kit import (
    Float,
    Int,
    MaskedLM,
    Params,
    Recorder,
    Span,
    Steps,
    Tensor,
    block_of,
    entropy,
    gumbel_argmax,
    mask_positions,
    token_probability,
    torch,
)
from engines.methods.diffusion._forward import CACHE, Forward, some, unmasking

LANES = {"confidence": "probability", "entropy": "nats"}
BLOCK = Int("block_length", 16, 1, 1024, symbol="b", source="32 in the paper's scripts")
TEMPERATURE = Float("temperature", 0.0, 0.0, 2.0, step=0.05, symbol="τ")


@unmasking(
    "threshold",
    title="Fast-dLLM threshold",
    paper="arXiv:2505.22618",
    code="https://github.com/NVlabs/Fast-dLLM",
    summary="Every forward writes all masks of the block whose confidence reaches the threshold, and always the best "
    "one.",
    params=[
        BLOCK,
        Float("threshold", 0.9, 0.0, 1.01, symbol="θ", neutral=1.01),
        TEMPERATURE,
        CACHE,
    ],
    signature="bars",
    lanes=LANES,
    baseline="llada",
    curve=("threshold", (0.99, 0.95, 0.9, 0.8, 0.7, 0.5)),
)
def decode_threshold(model: MaskedLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """The paper's threshold; `generate`, `generate_with_prefix_cache` and `generate_with_dual_cache` of the code."""
    return parallel(model, prompt, p, run, lambda conf: above_threshold(conf, p.threshold), lambda: p.threshold)


@unmasking(
    "factor",
    title="Fast-dLLM factor",
    paper="arXiv:2505.22618",
    code="https://github.com/NVlabs/Fast-dLLM",
    summary="The more masks are confident together, the more are written: the n-th best needs a confidence of 1 - f "
    "/ (n + 1).",
    params=[
        BLOCK,
        Float("factor", 1.0, 0.0, 4.0, step=0.05, symbol="f"),
        TEMPERATURE,
        CACHE,
    ],
    signature="bars",
    lanes=LANES,
    baseline="llada",
)
def decode_factor(model: MaskedLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """The paper's factor, the practical form of its bound for greedy decoding; the same three loops."""
    return parallel(model, prompt, p, run, lambda conf: within_factor(conf, p.factor), lambda: None)


def parallel(
    model: MaskedLM,
    prompt: list[int],
    p: Params,
    run: Recorder,
    select: Callable[[Tensor], tuple[Tensor, list[str]]],
    line: Callable[[], float | None],
) -> Steps:
    """The loop both rules share. `select` maps confidences [m] to the chosen indices, best first, with their causes."""
    end = len(prompt) + p.max_new_tokens
    x = run.canvas(p.max_new_tokens, model.record.device)  # [L]
    forward = Forward(model)
    while len(masks := mask_positions(x, model.mask_id)):
        a, b = block_of(int(masks[0]), len(prompt), p.block_length, end)
        distributions = forward(x, masks, (a, b), p.cache)
        masks = masks[masks < distributions.end]  # the others were not fed
        inside = masks[masks < b]  # [m], the block's masks come first
        rows = masks - distributions.start
        z_masks = distributions.z[rows]  # [masks, V]
        x0 = gumbel_argmax(z_masks, p.temperature, run.rng, rows, len(distributions.z))  # [masks]
        conf = token_probability(z_masks[: len(inside)], x0[: len(inside)])  # [m], float64
        best, causes = select(conf)
        chosen = inside[best]
        x[chosen] = x0[best]
        threshold = line()
        edit = yield run.step(
            commits=(chosen, x0[best], causes, conf[best]),
            scores=lambda: {
                "confidence": (masks, token_probability(z_masks, x0, torch.float32)),
                "entropy": (masks, entropy(z_masks)),
            },
            thresholds={"confidence": threshold} if threshold is not None else {},
            candidates=lambda: (masks, z_masks),
            spans=[Span("block", a, b), *distributions.spans],
            note=(
                f"{some(len(chosen), len(inside))} in the block "
                f"{'was' if len(chosen) == 1 else 'were'} confident enough."
                if causes != ["top1"]
                else "None was confident enough, so only the best one is written."
            )
            + distributions.note,
        )
        x = run.apply_edit(edit, x)


def above_threshold(conf: Tensor, theta: float) -> tuple[Tensor, list[str]]:
    """Rank 1, and every other one with c >= theta. conf [m] -> indices by falling confidence, causes."""
    order = conf.argsort(descending=True, stable=True)
    n = max(1, int((conf >= theta).sum()))
    return order[:n], ["threshold" if c >= theta else "top1" for c in conf[order[:n]].tolist()]


def within_factor(conf: Tensor, f: float) -> tuple[Tensor, list[str]]:
    """Scan the sorted confidences up to the first c_n < 1 - f / (n + 1) (t_1 = -1); keep the n - 1 before it.

    Two quirks of the official scan are kept: a failure at the very last place still commits it, and so does no failure.
    """
    order = conf.argsort(descending=True, stable=True)
    c, m = conf[order].tolist(), len(conf)
    n = next((i for i in range(1, m) if c[i] < 1 - f / (i + 2)), m - 1)  # 0-based place of the first failure
    kept = m if n == m - 1 else n
    return order[:kept], ["top1"] + ["factor"] * (kept - 1)
