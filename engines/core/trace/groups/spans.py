"""Stretches of the board."""

from engines.core.trace.base import Index, Record


class Span(Record):
    """A stretch [start, end) of the board: block, fed (positions really computed), window, late, neighbourhood, unit,
    cache ... label: for a person. about: what views read, by name, such as {"expert": "sums"}."""

    kind: str
    start: Index
    end: Index
    label: str = ""
    about: dict[str, bool | int | float | str] = {}
