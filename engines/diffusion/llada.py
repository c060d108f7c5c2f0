"""LLaDA: masked diffusion with a fixed schedule (Nie et al., arXiv:2502.09992; code ML-GSAI/LLaDA `generate.py`, weights MIT).

The answer starts as masks. Every forward proposes a token for every mask; the schedule says how many of them are kept: the most confident
ones, or random ones. Blocks are filled from left to right; nothing is ever hidden again. The number of forwards is `steps`, whatever happens.

We depart in one point: the mask token is never proposed (its logit is -inf), where the official loop could leave holes.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from engines.core.events import Edit, Span, Step
from engines.core.lazy import torch
from engines.core.masks import mask_positions, require_divisor, transfer_schedule
from engines.core.method import LaneInfo, method
from engines.core.models import MaskedLM
from engines.core.params import Choice, Float, Int, Params, max_new_tokens
from engines.core.recorder import Recorder
from engines.core.sampling import entropy, gumbel_argmax, token_probability

if TYPE_CHECKING:
    from torch import Tensor


def check(p: Params) -> None:
    """b | G and (G / b) | S, as the paper's code demands."""
    require_divisor("block_length", p.block_length, "max_new_tokens", p.max_new_tokens)
    require_divisor("the number of blocks", p.max_new_tokens // p.block_length, "steps", p.steps or p.max_new_tokens)


@method(
    "llada",
    title="LLaDA base",
    family="diffusion",
    paper="arXiv:2502.09992",
    code="https://github.com/ML-GSAI/LLaDA",
    summary="Masked diffusion with a fixed schedule: every forward keeps the planned number of most confident (or random) proposals.",
    needs="masked",
    params=[
        max_new_tokens(),
        Int(
            "block_length", 16, 1, 1024, symbol="b", sees="Small blocks write left to right, one large block in free order.", source="32 in the paper's scripts"
        ),
        Int("steps", 0, 0, 1024, symbol="S", sees="Forward passes in all; 0 means one token per forward. Fewer steps commit several tokens at once."),
        Choice("remasking", "low_confidence", ["low_confidence", "random"], sees="Which proposals are kept: the most confident, or random ones."),
        Float("temperature", 0.0, 0.0, 2.0, step=0.05, symbol="τ", sees="Above 0 the proposals are drawn instead of being the most likely."),
        Float("cfg_scale", 0.0, 0.0, 4.0, step=0.1, symbol="w", sees="Guidance towards the prompt; above 0 every forward computes two rows."),
    ],
    emits={"commits", "scores", "candidates", "spans", "note"},
    lanes={
        "confidence": LaneInfo("probability", "Probability of the proposal at each masked position, without noise or temperature."),
        "entropy": LaneInfo("nats", "Entropy of the law at each masked position."),
        "order": LaneInfo("score", "The random number that decides with random remasking; it says nothing about the model."),
    },
    departures="The mask token is never proposed.",
    check=check,
)
def decode(model: MaskedLM, prompt: list[int], p: Params, run: Recorder) -> Generator[Step, Edit | None, None]:
    """Card A: steps 1-6 of LLaDA's `generate`."""
    G, b, S = p.max_new_tokens, p.block_length, p.steps or p.max_new_tokens
    x = run.canvas(G, model.record.device)  # [L]
    for start in range(len(prompt), len(prompt) + G, b):
        end = start + b
        plan = transfer_schedule(int((x[start:end] == model.mask_id).sum()), S * b // G)  # n_i
        i = 0
        while i < len(plan) or len(mask_positions(x[:end], model.mask_id)):  # the second half only after an edit hid something again
            n = plan[i] if i < len(plan) else 1
            z = guided(model, x, len(prompt), p.cfg_scale)  # [L, V]
            x0 = gumbel_argmax(z, p.temperature, run.rng)  # [L]
            masks = mask_positions(x, model.mask_id)  # [m]
            z_masks = z[masks]  # [m, V]
            conf = token_probability(z_masks, x0[masks], torch.float32)  # [m]
            order = torch.rand(len(x), generator=run.rng).to(x.device)[masks] if p.remasking == "random" else conf
            ready = masks < end  # [m]
            best = torch.where(ready, order, -torch.inf).topk(min(n, int(ready.sum()))).indices
            chosen = masks[best]
            x[chosen] = x0[chosen]
            i += 1
            edit = yield run.step(
                commits=(chosen, x0[chosen], "quota" if p.remasking == "low_confidence" else "random", conf[best]),
                scores=lambda: {
                    "confidence": (masks, conf),
                    "entropy": (masks, entropy(z_masks)),
                    **({"order": (masks, order)} if p.remasking == "random" else {}),
                },
                candidates=lambda: (masks, z_masks),
                spans=[Span("block", start, end)],
                note=f"The schedule keeps {len(chosen)} of {int(ready.sum())} masks in this block.",
            )
            x = run.steer(edit, x)


def guided(model: MaskedLM, x: Tensor, prompt_length: int, w: float) -> Tensor:
    """Logits [L, V]; with guidance u + (w + 1)(c - u), where u sees a masked prompt. One forward either way (two rows with guidance)."""
    if w == 0:
        return model(x)
    blind = x.clone()
    blind[:prompt_length] = model.mask_id
    c, u = model(torch.stack([x, blind]))
    z = u + (w + 1) * (c - u)
    return z.masked_fill(z.isnan(), -torch.inf)  # a logit of -inf in both rows


if __name__ == "__main__":
    from engines.core.show import show

    show("llada", "tiny-dlm", "sort: Mia, Leo, Ada")
