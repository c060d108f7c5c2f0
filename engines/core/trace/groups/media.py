"""A picture made of tokens."""

import math
from typing import Annotated

import msgspec

from engines.core.trace.base import Count, Index, Record
from engines.core.trace.packed import Packed

CELLS, SIDE = 65_536, 4096  # of a picture, and of one of its sides, at most


class Box(Record):
    """A rectangle on the picture, in cells."""

    row: Index
    column: Index
    height: Count
    width: Count
    label: str = ""


Colour = Annotated[str, msgspec.Meta(pattern="^#[0-9a-f]{6}$")]


class Media(Record):
    """An image token grid (`codes` has shape [rows, columns], -1 unknown), with boxes on it. colours: of the codes,
    "#rrggbb"; without them a code's shade is its number. guesses: cells in raster order whose code is a draft."""

    codes: Packed
    boxes: list[Box] = []
    colours: list[Colour] = []
    guesses: list[Index] = []

    def __post_init__(self) -> None:
        if self.guesses and max(self.guesses) >= math.prod(self.codes.shape):
            raise ValueError(f"media: cell {max(self.guesses)} lies outside a picture of shape {self.codes.shape}")
        if self.codes.dtype not in ("u2", "i4") or len(self.codes.shape) != 2:
            raise ValueError(
                f"media: codes are whole numbers in rows and columns, not {self.codes.dtype} of shape "
                f"{self.codes.shape}"
            )
        if math.prod(self.codes.shape) > CELLS or max(self.codes.shape) > SIDE:
            raise ValueError(
                f"media: a picture of shape {str(self.codes.shape)[:60]} is too large; it may have {CELLS:,} cells, "
                f"{SIDE:,} in a row or column"
            )
