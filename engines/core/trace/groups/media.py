"""A picture made of tokens."""

from __future__ import annotations

from engines.core.trace.base import Count, Index, Record
from engines.core.trace.packed import Packed


class Box(Record):
    """A rectangle on the picture, in cells."""

    row: Index
    column: Index
    height: Count
    width: Count
    label: str = ""


class Media(Record):
    """An image token grid (`codes` has shape [rows, columns], -1 unknown), with boxes on it."""

    codes: Packed
    boxes: list[Box] = []

    def __post_init__(self) -> None:
        if self.codes.dtype not in ("u2", "i4") or len(self.codes.shape) != 2:
            raise ValueError(
                f"media: codes are whole numbers in rows and columns, not {self.codes.dtype} of shape "
                f"{self.codes.shape}"
            )
