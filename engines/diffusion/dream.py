"""Dream 7B: diffusion large language models (Ye et al., arXiv:2508.15487; code DreamLM/Dream, Apache-2.0), and Fast-dLLM's threshold for it.

A time runs from 1 to 0.001 in S equal steps; from t to s a masked position is freed with probability 1 - s / t, so the grid says how many go
and the order says which: at random (`origin`), or the best by probability, margin or entropy. There are no blocks: all masks of the answer compete.

Scores are taken from the law that tokens are drawn from, after temperature, top-p and top-k (LLaDA does the opposite). The quota is cut to whole
tokens in float32, so the first steps often commit one token fewer than S divides. Dream never stops early: S forwards, whatever is left.
A model that came from an autoregressive one predicts token i in row i - 1; the loaded model moves its rows, so nothing of that shows here.

We depart in three points: the mask token is never proposed, a drawn position is always a mask, and the cached loops of Fast-dLLM are not here.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from engines.core.events import Edit, Span, Step
from engines.core.lazy import torch
from engines.core.masks import mask_positions, require_divisor
from engines.core.method import LaneInfo, method
from engines.core.models import MaskedLM
from engines.core.params import Choice, Float, Int, Params, max_new_tokens
from engines.core.recorder import Recorder
from engines.core.sampling import token_probability
from engines.diffusion._orders import (
    ALG_TEMP,
    BEST,
    MARGIN,
    NEG_ENTROPY,
    STEPS,
    TEMPERATURE,
    TOP_K,
    TOP_P,
    narrowed,
    pick,
    propose,
    score,
    time_grid,
)

if TYPE_CHECKING:
    from torch import Tensor

CONFIDENCE = LaneInfo("probability", "Probability of the proposal at each masked position, in the law after temperature, top-p and top-k.")
LANE_OF = {"maskgit_plus": "confidence", "topk_margin": "margin", "entropy": "neg_entropy", "origin": "draw"}  # order -> what it goes by
DEPARTURES = "The mask token is never proposed; with alg_temp only masks can be drawn; Fast-dLLM's caches for Dream are not offered."


@method(
    "dream",
    title="Dream",
    family="diffusion",
    paper="arXiv:2508.15487",
    code="https://github.com/DreamLM/Dream",
    summary="A time grid says how many masks are freed at each step, an order says which: random, most probable, largest margin or lowest entropy.",
    needs="masked",
    params=[
        max_new_tokens(),
        STEPS,
        Choice(
            "alg",
            "entropy",
            ["entropy", "maskgit_plus", "topk_margin", "origin"],
            sees="The order: lowest entropy, highest probability, largest lead over the second token, or at random.",
            source="origin; entropy in the README",
        ),
        ALG_TEMP,
        TEMPERATURE,
        TOP_P,
        TOP_K,
    ],
    emits={"commits", "scores", "candidates", "spans", "facts", "note"},
    lanes={
        "confidence": CONFIDENCE,
        "margin": MARGIN,
        "neg_entropy": NEG_ENTROPY,
        "draw": LaneInfo("probability", "With origin: the random number of each mask. Below the line it is filled; it says nothing about the model."),
    },
    departures=DEPARTURES,
)
def decode(model: MaskedLM, prompt: list[int], p: Params, run: Recorder) -> Generator[Step, Edit | None, None]:
    """Card F: step i goes from t_i to t_(i+1), and the last one fills what is left."""
    P, G = len(prompt), p.max_new_tokens
    x = run.canvas(G, model.record.device)  # [L]
    i = 0
    while i < p.steps or len(mask_positions(x, model.mask_id)):  # the second half only after an edit hid something again
        t = time_grid(p.steps)
        freed = 1 - t[i + 1] / t[i] if i < p.steps - 1 else torch.tensor(1.0)  # 1 - s / t
        z = model(x)  # [L, V]
        masks = mask_positions(x, model.mask_id)  # [m]
        z_masks = z[masks]
        q = narrowed(z_masks, p.temperature, p.top_p, p.top_k)  # [m, V]
        if p.alg == "origin":
            order = torch.rand(len(masks), generator=run.rng)  # [m]
            best = (order < freed).nonzero()[:, 0].to(x.device)
            x0 = q.argmax(-1)  # [m]
            x0[best] = propose(q[best], p.temperature, run.rng)
        else:
            x0 = propose(q, p.temperature, run.rng)
            order = score(q, x0, p.alg)
            chosen = pick(on_board(order, masks, len(x)), int(len(masks) * freed), p.alg_temp, run.rng)
            best = torch.searchsorted(masks, chosen)
        x[masks[best]] = x0[best]
        conf = token_probability(q, x0, torch.float32)
        edit = yield run.step(
            commits=(masks[best], x0[best], "random" if p.alg == "origin" else "quota", conf[best]),
            scores=lambda: {"confidence": (masks, conf), LANE_OF[p.alg]: (masks, order)},
            thresholds={"draw": float(freed)},
            candidates=lambda: (masks, z_masks),
            spans=[Span("block", P, P + G)],
            facts={"ratio_masked": len(masks) / G, "grid_time": float(t[min(i, p.steps)]), "freed": float(freed)},
            note=note(p.alg, len(best), len(masks), float(freed)),
        )
        x = run.steer(edit, x)
        i += 1


@method(
    "dream-threshold",
    title="Dream with Fast-dLLM threshold",
    family="diffusion",
    paper="arXiv:2505.22618",
    code="https://github.com/NVlabs/Fast-dLLM",
    summary="Dream with an equal share of tokens per step, of which only the confident ones and the best are kept; the others wait for the next step.",
    needs="masked",
    params=[
        max_new_tokens(),
        Int("steps", 12, 1, 1024, symbol="S", sees="Steps that the answer is shared over; more are appended while unsure tokens are left."),
        Float(
            "threshold", 0.9, 0.0, 1.01, symbol="θ", sees="Lower keeps more of each step's share; above 1 one token per forward.", source="0.9 in the scripts"
        ),
        TEMPERATURE,
        TOP_P,
        TOP_K,
    ],
    emits={"commits", "scores", "candidates", "spans", "facts", "note"},
    lanes={"confidence": CONFIDENCE},
    departures=DEPARTURES,
    check=lambda p: require_divisor("steps", p.steps, "max_new_tokens", p.max_new_tokens),
)
def decode_threshold(model: MaskedLM, prompt: list[int], p: Params, run: Recorder) -> Generator[Step, Edit | None, None]:
    """Card F, `confidence_threshold`: n = G / S tokens and those held back before; rank 1 and every c >= theta of them."""
    P, G = len(prompt), p.max_new_tokens
    x = run.canvas(G, model.record.device)  # [L]
    i = held = 0
    while i < p.steps or len(mask_positions(x, model.mask_id)):  # appended steps have only what was held back
        z = model(x)  # [L, V]
        masks = mask_positions(x, model.mask_id)  # [m]
        z_masks = z[masks]
        q = narrowed(z_masks, p.temperature, p.top_p, p.top_k)  # [m, V]
        x0 = propose(q, p.temperature, run.rng)  # [m]
        conf = token_probability(q, x0, torch.float32)  # [m]
        n = min(len(masks), G // p.steps + held) if i < p.steps else len(masks)
        ranked = pick(conf, n, 0, run.rng)
        ready = conf[ranked] >= p.threshold
        ready[:1] = True
        best = ranked[ready]
        held = n - len(best)
        x[masks[best]] = x0[best]
        edit = yield run.step(
            commits=(masks[best], x0[best], ["threshold" if c >= p.threshold else "top1" for c in conf[best].tolist()], conf[best]),
            scores=lambda: {"confidence": (masks, conf)},
            thresholds={"confidence": p.threshold},
            candidates=lambda: (masks, z_masks),
            spans=[Span("block", P, P + G)],
            facts={"ratio_masked": len(masks) / G, "share": n, "held_back": held},
            note=f"{len(best)} of this step's {n} tokens are kept{f', {held} wait for the next one' if held else ''}." if n else NOTHING,
        )
        x = run.steer(edit, x)
        i += 1


NOTHING = "Nothing is left to fill; the loop keeps its number of steps."


def on_board(values: Tensor, positions: Tensor, length: int) -> Tensor:
    """Values [m] at their positions of the board, -inf elsewhere, [L]: the official loops draw positions from the whole board."""
    board = torch.full((length,), -torch.inf, dtype=values.dtype, device=values.device)
    board[positions] = values
    return board


def note(alg: str, filled: int, masks: int, freed: float) -> str:
    """A sentence on what the grid asked for and what was done."""
    if not masks:
        return NOTHING
    if alg == "origin":
        return f"Each of the {masks} masks is filled with a chance of {freed:.2f}: {filled} this time."
    return f"The time grid frees {freed:.1%} of {masks} masks, {f'that is {filled}: {BEST[alg]}' if filled else 'which is not a whole one'}."


if __name__ == "__main__":
    from engines.core.show import show

    show("dream", "tiny-dlm", "sort: Mia, Leo, Ada", steps=12)
