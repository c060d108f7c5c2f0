"""Work between two times, and memory between two addresses."""

from typing import Annotated, Literal

from msgspec import Meta

from engines.core.trace.base import Record

Place = Annotated[float, Meta(ge=0, le=1e18)]


class Interval(Record):
    """What a track (a device, a worker, an allocation) holds from `start` to `end`, measured or modelled.

    unit: seconds since the run began, bytes from the beginning of an arena, or tiles of a kernel since its launch, of
    which each counts as 1 (modelled), or positions of the text. label: for a person. kind: what is done or held, such
    as "attention" or "bytes"; views are chosen and colours given by it. about: what views read, by name, such as
    {"layer": 3, "microbatch": 2}; `mark` stands in a bar, `part_of` names the track whose call it is a part of.
    """

    track: str
    start: Place
    end: Place
    label: str = ""
    measured: bool = True
    unit: Literal["seconds", "bytes", "tiles", "tokens"] = "seconds"
    about: dict[str, bool | int | float | str] = {}
    kind: str = ""


def bytes_held(group: str, name: str, start: int, end: int, measured: bool = True) -> Interval:
    """Bytes start ... end of an arena, or what travels between two places, by group and name."""
    about: dict[str, bool | int | float | str] = {"group": group, "name": name}
    return Interval(f"{group}: {name}", start, end, name, measured, "bytes", about, "bytes")
