"""A picture that is read, and what the reader makes of it."""

from __future__ import annotations

from engines.core.trace.base import Count, Record
from engines.core.trace.packed import Packed


class Sight(Record):
    """pixels [rows, columns], greys from 0 to 1; none where they are those of an earlier step. attention [n, columns of
    features]: for each token that the step wrote, in their order, where along the picture it was looked up. counts: how
    often each sign stands there as the reader counts, those that do not left out. filled: for each place the
    probability that a sign or the end mark stands there."""

    pixels: Packed | None = None
    attention: Packed | None = None
    counts: dict[str, Count] = {}
    filled: list[float] = []

    def __post_init__(self) -> None:
        for name, packed in (("pixels", self.pixels), ("attention", self.attention)):
            if packed is not None and (len(packed.shape) != 2 or packed.dtype not in ("u1", "f4")):
                raise ValueError(f"sight: {name} are rows of fractions, not {packed.dtype} of shape {packed.shape}")
