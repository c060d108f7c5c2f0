"""Work between two times, and memory between two addresses."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from engines.core.trace.base import Record

Place = Annotated[float, Meta(ge=0, le=1e18)]


class Interval(Record):
    """What a lane (a device, a worker, an allocation) holds from `start` to `end`, measured or modelled.

    unit: seconds since the run began, bytes from the beginning of an arena, or tiles of a kernel since its launch, of
    which each counts as 1 (modelled), or positions of the text.
    """

    lane: str
    start: Place
    end: Place
    label: str = ""
    measured: bool = True
    unit: Literal["seconds", "bytes", "tiles", "tokens"] = "seconds"
