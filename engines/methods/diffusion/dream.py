"""Dream 7B: diffusion large language models (Ye et al., arXiv:2508.15487; code DreamLM/Dream, Apache-2.0).

A time runs from 1 to 0.001 in S equal steps; from t to s a masked position is freed with probability 1 - s / t, so the
grid says how many go and the order says which: at random (`origin`), or the best by probability, margin or entropy.
There are no blocks: all masks of the answer compete.

Scores are taken from the distribution that tokens are drawn from, after temperature, top-p and top-k (LLaDA does the
opposite). The quota is cut to whole tokens in float32, so the first steps often commit one token fewer than S divides.
Dream never stops early: S forwards, whatever is left. A model that came from an autoregressive one predicts token i in
row i - 1; the loaded model moves its rows, so nothing of that shows here.

Fast-dLLM adds blocks and caches (arXiv:2505.22618, `generation_utils_block.py`, see `_forward`): each block has its
share of the steps and a time grid of its own. With one block, the whole answer, this is Dream. Its threshold is a
method of its own, `dream_threshold`.

Without a cache every step commits what the official loops commit, in all orders. We depart in these points: the mask
token is never proposed; a drawn position is always a mask; with a cache every order may be used (the official cached
loop knows the threshold and entropy) and holds from the first forward of a block on."""

from engines.kit import (
    Choice,
    Int,
    MaskedLM,
    Params,
    Recorder,
    Span,
    Steps,
    Tensor,
    many,
    mask_positions,
    on_board,
    require_divisor,
    token_probability,
    torch,
)
from engines.methods.diffusion import _orders as orders
from engines.methods.diffusion._forward import CACHE, Distributions, Forward, unmasking

LANE_OF = {
    "maskgit_plus": "confidence",
    "topk_margin": "margin",
    "entropy": "neg_entropy",
    "origin": "draw",
}  # order -> what it goes by
BLOCK = Int("block_length", 0, 0, 1024, symbol="b", source="off; 32 in Fast-dLLM's cached loop")


def check(p: Params) -> None:
    """b | G and (G / b) | S where the answer is cut into blocks, as Fast-dLLM demands."""
    if p.block_length:
        require_divisor("block_length", p.block_length, "max_new_tokens", p.max_new_tokens)
        require_divisor("the number of blocks", p.max_new_tokens // p.block_length, "steps", p.steps)


@unmasking(
    "dream",
    title="Dream",
    paper="arXiv:2508.15487",
    code="https://github.com/DreamLM/Dream",
    summary="A time schedule says how many masks are freed at each step, an order says which: random, most probable, "
    "largest margin or lowest entropy.",
    params=[
        orders.STEPS,
        BLOCK,
        Choice(
            "alg",
            "entropy",
            ["entropy", "maskgit_plus", "topk_margin", "origin"],
            source="origin; entropy in the README",
        ),
        orders.ALG_TEMP,
        orders.TEMPERATURE,
        orders.TOP_P,
        orders.TOP_K,
        CACHE,
    ],
    signature="bars",
    emits={"facts"},
    lanes={
        "confidence": "probability",
        "margin": orders.MARGIN,
        "neg_entropy": orders.NEG_ENTROPY,
        "draw": "probability",
    },
    check=check,
)
def decode(model: MaskedLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """`_sample` of DreamLM/Dream, with Fast-dLLM's caches: step i of a block goes from t_i to t_(i+1), and its last one
    fills what is left."""
    P, G, b = len(prompt), p.max_new_tokens, p.block_length or p.max_new_tokens
    x = run.canvas(G, model.record.device)  # [L]
    forward = Forward(model)
    for a in range(P, P + G, b):
        end, i = a + b, 0
        while i < (S := run.remaining_steps(share_of(p, b), a, end)) or len(
            mask_positions(x[:end], model.mask_id)
        ):  # the second half only after an edit hid something again
            t = orders.time_grid(S)
            freed = 1 - t[i + 1] / t[i] if i < S - 1 else torch.tensor(1.0)  # 1 - s / t
            every = mask_positions(x, model.mask_id)
            distributions = forward(x, every, (a, end), p.cache)
            masks = every[every < end]  # [m]
            z_masks = distributions.z[masks - distributions.start]
            q = orders.narrowed(z_masks, p.temperature, p.top_p, p.top_k)  # [m, V]
            if p.alg == "origin":
                order = torch.rand(len(masks), generator=run.rng)  # [m]
                best = (order < freed).nonzero()[:, 0].to(x.device)
                x0 = q.argmax(-1)  # [m]
                x0[best] = orders.propose(q[best], p.temperature, run.rng)
            else:
                x0 = orders.propose(q, p.temperature, run.rng)
                order = orders.score(q, x0, p.alg)
                chosen = orders.pick(on_board(order, masks, len(x)), int(len(masks) * freed), p.alg_temp, run.rng)
                best = torch.searchsorted(masks, chosen)
            x[masks[best]] = x0[best]
            conf = token_probability(q, x0, torch.float32)
            edit = yield run.step(
                commits=(masks[best], x0[best], "random" if p.alg == "origin" else "quota", conf[best]),
                scores=lambda: {"confidence": (masks, conf), LANE_OF[p.alg]: (masks, order)},
                thresholds={"draw": float(freed)},
                candidates=lambda: fed(distributions, every),
                spans=[Span("block", a, end), *distributions.spans],
                facts={"ratio_masked": len(every) / G, "grid_time": float(t[min(i, S)]), "freed": float(freed)},
                note=note(p.alg, len(best), len(masks), float(freed)) + distributions.note,
            )
            x = run.apply_edit(edit, x)
            i += 1


NOTHING = "No mask is left; the loop runs the rest of its steps."


def share_of(p: Params, b: int) -> int:
    """Steps of each block of b positions."""
    return max(1, p.steps * b // p.max_new_tokens)


def fed(distributions: Distributions, masks: Tensor) -> tuple[Tensor, Tensor]:
    """The masks [m] that were fed, with their logits [m, V]."""
    shown = masks[masks < distributions.end]
    return shown, distributions.z[shown - distributions.start]


def note(alg: str, filled: int, masks: int, freed: float) -> str:
    """A sentence on what the grid asked for and what was done."""
    if not masks:
        return NOTHING
    if alg == "origin":
        return f"Each of {many(masks, 'mask')} is filled with probability {freed:.2f}: {filled} this time."
    return (
        f"The time schedule frees {freed:.1%} of {many(masks, 'mask')}, "
        f"{f'that is {filled}: {orders.BEST[alg]}' if filled else 'less than one'}."
    )
