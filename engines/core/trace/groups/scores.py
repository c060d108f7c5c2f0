"""Named scores over positions."""

from engines.core.trace.base import Index, Record, Unit
from engines.core.trace.packed import Packed


class Lane(Record):
    """One named score over the positions [start, start + len(values)). `threshold`: the line it was compared with, if
    any."""

    name: str
    unit: Unit
    start: Index
    values: Packed
    threshold: float | None = None
