"""A picture of a scene, what is read in it, and how its readings fit what is seen."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from engines.core.trace.base import Record
from engines.core.trace.groups.media import Box
from engines.core.trace.packed import Packed

Share = Annotated[float, Meta(ge=0, le=1)]


class Reading(Record):
    """What was read where. source: "picture" for the whole of it, "box 1" and so on, or "heavy". confidence: of the
    text as a whole. S, L, C: how well meaning and spelling fit the caption, and both together, where that was asked;
    run: the words of the caption that the spelling was held against. chosen: whether it is the best of its kind."""

    source: str
    text: str
    confidence: Share
    S: Share | None = None
    L: Share | None = None
    C: Share | None = None
    run: str = ""
    chosen: bool = False


class Scene(Record):
    """A stage of reading a scene. picture [rows, 3 columns], red, green and blue of each pixel, and mask [rows,
    columns], both from 0 to 1 and only where they are new, as boxes on the picture in pixels are. caption: as far as it
    is written. readings: those of this stage. tau: the line that C is held against; bypass: whether the heavy reader is
    left out. answer: the text that is taken, from the reading named by `source`."""

    stage: Literal["segment", "caption", "read", "score", "heavy"]
    picture: Packed | None = None
    mask: Packed | None = None
    boxes: list[Box] = []
    caption: str = ""
    readings: list[Reading] = []
    tau: float | None = None
    bypass: bool | None = None
    answer: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        for name, packed in (("picture", self.picture), ("mask", self.mask)):
            if packed is not None and (len(packed.shape) != 2 or packed.dtype not in ("u1", "f4")):
                raise ValueError(f"scene: a {name} is rows of fractions, not {packed.dtype} of shape {packed.shape}")
        if self.picture and self.mask and self.picture.shape[1] != 3 * self.mask.shape[1]:
            raise ValueError(f"scene: a mask of shape {self.mask.shape} lies on no picture of {self.picture.shape}")
