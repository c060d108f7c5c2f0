"""The matrices with which a decoder's layers weigh queries and keys, where a network makes them of the text."""

from __future__ import annotations

from engines.core.trace.base import Index, Record
from engines.core.trace.packed import Packed

LEVELS = 31  # steps of a map between 0 and its largest entry


class Operators(Record):
    """The operators G of one decoder in a step. role: the model role of its forwards; the decoder of the run comes
    first.

    maps [layers, heads, d, d]: all of them; moved, of the same shape: what to add to the last `maps` of that role.
    Neither: they are those of the step before. held: from a cache, nothing was computed. source: whose they are.
    change: for each layer RMS(G - G before) / RMS(G before). logdet: for each layer the mean of log |det G| of its
    heads. tokens: what a decoder that is not the run's own wrote, on a text of its own, from position `at` on.
    difference: the largest one between its logits and those of the run's decoder, None once their texts differ."""

    role: str
    source: str = ""
    held: bool = False
    maps: Packed | None = None
    moved: Packed | None = None
    change: list[float] = []
    logdet: list[float] = []
    tokens: list[Index] = []
    at: Index = 0
    difference: float | None = None

    def __post_init__(self) -> None:
        for packed in (self.maps, self.moved):
            if packed is not None and (len(packed.shape) != 4 or packed.dtype != "u1"):
                raise ValueError(
                    f"operators: maps have four axes of fractions, not {packed.dtype} of shape {packed.shape}"
                )
