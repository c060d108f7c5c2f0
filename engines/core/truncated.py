"""Truncated sampling: the most likely tokens stay, the others are cut off, and one of those that stay is drawn. The
known rules (top-k, top-p, min-p) as functions of the ranked probabilities, and what a step records of any rule.

Letters: V vocabulary, n tokens with a probability above 0, p [n] their probabilities, falling."""

from engines.core.lazy import Tensor, torch
from engines.core.sampling import distribution
from engines.core.trace import Count, Position, Probability, Record, TokenId, Unit

LISTED, REFUSED = 48, 3  # tokens recorded of those let through, and of those behind them


class Truncation(Record):
    """What a sampler lets through: the tokens at a position that may be drawn, from the most likely one on, and what is
    counted along them against a threshold.

    `tokens`, `probabilities`, `counted` (each [m]): the first of those let through, then `refused` that were not;
    `counted` is the quantity with all tokens up to this one. `kept`: how many are let through, which may be more than
    are listed; `mass`: their probability together. `whole`: the quantity of the whole distribution, where it has one.
    `others`: how many tokens other samplers would let through here, by name; `others_mass`: their probability."""

    position: Position
    tokens: list[TokenId]
    probabilities: list[Probability]
    counted: list[float]
    kept: Count
    refused: Count
    mass: float
    quantity: str
    unit: Unit
    line: float
    whole: float | None = None
    others: dict[str, Count] = {}
    others_mass: dict[str, float] = {}

    def __post_init__(self) -> None:
        m = len(self.tokens)
        if len(self.probabilities) != m or len(self.counted) != m:
            raise ValueError(
                f"truncation: {len(self.probabilities)} probabilities and {len(self.counted)} counted values for {m} "
                "tokens"
            )
        if not 0 <= m - self.refused <= self.kept:
            raise ValueError(
                f"truncation: of {m} tokens {self.refused} are refused, which does not fit {self.kept} let through"
            )


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
