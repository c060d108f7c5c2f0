"""Truncated sampling: the most likely tokens stay, the others are cut off, and one of those that stay is drawn. The
known rules (top-k, top-p, min-p) as functions of the ranked probabilities, and what a step records of any rule.

Letters: V vocabulary, n tokens with a probability above 0, p [n] their probabilities, falling."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engines.core.lazy import torch
from engines.core.sampling import distribution
from engines.core.trace import Truncation, Unit

if TYPE_CHECKING:
    from torch import Tensor

LISTED, REFUSED = 48, 3  # tokens recorded of those let through, and of those behind them


def ranked(z: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """softmax(z / T) of logits z [V], falling, equal ones by rising id: (p [n], ids [n]) without those of probability
    0. In float64: sums over a whole vocabulary are compared with a line."""
    p = (z.double() / temperature).softmax(-1) if temperature else distribution(z, 0).double()
    p, ids = p.sort(descending=True, stable=True)
    n = int((p > 0).sum())
    return p[:n], ids[:n]


def kept_by_rank(p: Tensor, top_k: int) -> int:
    """Top-k (Fan et al. 2018): how many of p [n] stay; 0 keeps all."""
    return min(top_k, len(p)) if top_k else len(p)


def kept_by_mass(p: Tensor, top_p: float) -> int:
    """Top-p (Holtzman et al. 2020): the fewest of p [n] whose sum reaches top_p; 1 keeps all."""
    return len(p) if top_p >= 1 else int((p.cumsum(-1) - p < top_p)[1:].sum()) + 1


def kept_by_ratio(p: Tensor, min_p: float) -> int:
    """Min-p (Nguyen et al. 2025): those of p [n] with at least min_p times the largest one; 0 keeps all."""
    return int((p >= min_p * p[0]).sum())


def common_samplers(p: Tensor) -> dict[str, int]:
    """What the three would let through of p [n] at usual settings, by name; the settings are in the names."""
    return {
        "top-k 50": kept_by_rank(p, 50),
        "top-p 0.9": kept_by_mass(p, 0.9),
        "min-p 0.1": kept_by_ratio(p, 0.1),
    }


def let_through(
    position: int,
    p: Tensor,
    ids: Tensor,
    kept: int,
    *,
    counted: Tensor,
    line: float,
    quantity: str,
    unit: Unit,
    whole: float | None = None,
    others: dict[str, int] | None = None,
) -> Truncation:
    """The record of a rule that lets the first `kept` of p [n] through. counted [m], m <= n: its quantity with the
    tokens up to this one; line: what it may not pass; whole: its value for all tokens."""
    listed = min(kept, LISTED)
    shown = [*range(listed), *range(kept, min(kept + REFUSED, len(counted)))]
    rows = torch.tensor(shown)
    return Truncation(
        position=position,
        tokens=ids[rows].tolist(),
        probabilities=[float(f"{value:.6g}") for value in p[rows].tolist()],
        counted=[float(f"{value:.6g}") for value in counted[rows].tolist()],
        kept=kept,
        refused=len(shown) - listed,
        mass=float(f"{float(p[:kept].sum()):.6g}"),
        quantity=quantity,
        unit=unit,
        line=float(f"{line:.6g}"),
        whole=None if whole is None else float(f"{whole:.6g}"),
        others=others or {},
        others_mass={name: float(f"{float(p[:n].sum()):.6g}") for name, n in (others or {}).items()},
    )
