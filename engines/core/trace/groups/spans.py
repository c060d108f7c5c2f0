"""Stretches of the board."""

from __future__ import annotations

from engines.core.trace.base import Index, Record


class Span(Record):
    """A stretch [start, end) of the board: block, fed (positions really computed), window, late, neighbourhood, unit,
    cache ..."""

    kind: str
    start: Index
    end: Index
    label: str = ""
