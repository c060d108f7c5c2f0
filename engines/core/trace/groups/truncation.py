"""What a sampler lets through."""

from __future__ import annotations

from engines.core.trace.base import Count, Index, Record, Unit


class Truncation(Record):
    """The tokens at a position that may be drawn, from the most likely one on, and what is counted along them against a
    line.

    `tokens`, `probabilities`, `counted` (each [m]): the first of those let through, then `refused` that were not;
    `counted` is the quantity with all tokens up to this one. `kept`: how many are let through, which may be more than
    are listed; `mass`: their probability together. `whole`: the quantity of the whole distribution, where it has one.
    `others`: how many tokens other samplers would let through here, by name; `others_mass`: their probability."""

    position: Index
    tokens: list[Index]
    probabilities: list[float]
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
