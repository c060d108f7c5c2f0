"""What an acceptance head is worth on prompts that it has not seen: loss, order of its scores, calibration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from engines.models.parts.accept_head import AcceptHead


@dataclass(frozen=True)
class Records:
    """Drafted tokens: hidden states h [n, d] at them, labels y [n] (the chance to be kept), and the drafter's own q [n]
    for comparison."""

    h: Tensor
    y: Tensor
    q: Tensor

    def __len__(self) -> int:
        return len(self.y)


def loss_of(logits: Tensor, y: Tensor, weight: float) -> Tensor:
    """-[w (1 - y) log P(refuse) + y log P(accept)], summed and divided by the sum of w (1 - y) + y; logits [n, 2], y
    [n]."""
    log_p = logits.log_softmax(-1)
    refused = weight * (1 - y)
    return -(refused * log_p[:, 0] + y * log_p[:, 1]).sum() / (refused + y).sum()


def auc(score: Tensor, y: Tensor) -> float:
    """The chance that a kept token scores above a refused one, where y [n] is each token's chance to be kept; equal
    scores count half."""
    values, place = score.unique(return_inverse=True)
    kept, refused = (torch.zeros(len(values), dtype=torch.float64).index_add(0, place, w.double()) for w in (y, 1 - y))
    below = refused.cumsum(0) - refused
    return float((kept * (below + refused / 2)).sum() / (kept.sum() * refused.sum()))


def calibration(chance: Tensor, y: Tensor, bins: int = 10) -> tuple[list[list[float]], float]:
    """([predicted, observed, count] of every bin that is not empty, the mean gap between predicted and observed)."""
    found, gap = [], 0.0
    place = (chance * bins).long().clamp(max=bins - 1)
    for i in range(bins):
        if n := int((place == i).sum()):
            predicted, observed = float(chance[place == i].mean()), float(y[place == i].mean())
            found.append([round(predicted, 4), round(observed, 4), n])
            gap += abs(predicted - observed) * n / len(y)
    return found, round(gap, 4)


def marks(head: AcceptHead, test: Records, weight: float) -> dict[str, Any]:
    """What the head is worth on prompts that it has not seen, beside a constant and beside the drafter's own
    probability."""
    with torch.no_grad():
        logits = head.logits(test.h)
    chance, share = logits.softmax(-1)[:, 1], float(test.y.mean())
    constant = (
        torch.tensor([weight * (1 - share), share]).log().expand(len(test), 2)
    )  # the best that knows nothing of the token
    unweighted = (
        weight * chance / (weight * chance + 1 - chance)
    )  # odds times w: what the head would say, had refusals counted once
    (table, error), (plain, plain_error) = calibration(chance, test.y), calibration(unweighted, test.y)
    return {
        "tokens": len(test),
        "mean_chance_to_be_kept": round(share, 4),
        "auc": round(auc(chance, test.y), 4),
        "auc_of_the_drafters_own_probability": round(auc(test.q, test.y), 4),
        "loss": round(float(loss_of(logits, test.y, weight)), 4),
        "loss_of_the_best_constant": round(float(loss_of(constant, test.y, weight)), 4),
        "calibration_error": error,
        "calibration": table,
        "calibration_error_without_the_weight": plain_error,
        "calibration_without_the_weight": plain,
    }
