"""A picture that a language model sees, and what of it reaches a draft."""

from __future__ import annotations

import math

from engines.core.trace.base import Count, Record
from engines.core.trace.packed import Packed

SIDE = 512  # pixels of a side of the picture, at most


class Vision(Record):
    """pixels [rows, columns, 3], red, green and blue from 0 to 1; none where they are those of an earlier step. grid:
    rows and columns of its patches. looks [n, patches]: how much each of n readers took from each patch, named by
    `readers`. entries: positions that the draft keeps, by what they stand for ("picture", "text"), and bytes of each.
    kinds: of the tokens that the step wrote, in their order, the class of each word."""

    pixels: Packed | None = None
    grid: list[Count] = []
    looks: Packed | None = None
    readers: list[str] = []
    entries: dict[str, Count] = {}
    entry_bytes: Count = 0
    kinds: list[str] = []

    def __post_init__(self) -> None:
        if self.pixels is not None and (
            len(self.pixels.shape) != 3
            or self.pixels.shape[2] != 3
            or max(self.pixels.shape) > SIDE
            or self.pixels.dtype not in ("u1", "f4")
        ):
            raise ValueError(f"vision: a picture of shape {str(self.pixels.shape)[:60]} is none in three colours")
        if len(self.grid) not in (0, 2):
            raise ValueError(f"vision: a grid has rows and columns, not {len(self.grid)} sides")
        wanted = [len(self.readers), math.prod(self.grid or [0])]
        if self.looks is not None and (self.looks.shape != wanted or self.looks.dtype not in ("u1", "f4")):
            raise ValueError(
                f"vision: {wanted[0]} readers of {wanted[1]} patches do not look in shape {self.looks.shape}"
            )
