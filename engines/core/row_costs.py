"""The cost of a forward by its number of rows: a table in units of one row, and those that are known of the models in
memory (`engines.core.costs` measures them)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any
from weakref import WeakKeyDictionary

MOST = 32  # rows of a table that is made of a slope; beyond, it goes on in the same way


@dataclass(frozen=True)
class RowCosts:
    """Seconds of a forward of `rows` rows, both rising. turns: measurements behind each. warning: a sentence where the
    table is not the one that was kept, or may be off, for who reads the run."""

    rows: tuple[int, ...]
    seconds: tuple[float, ...]
    turns: int = 0
    warning: str = field(default="", compare=False)

    @classmethod
    def of(cls, seconds: Mapping[int, float], turns: int = 0) -> RowCosts:
        """A table that never falls: what more rows take less time for, fewer can take, too."""
        rows = tuple(sorted(seconds))
        least = list(accumulate((seconds[n] for n in reversed(rows)), min))
        return cls(rows, tuple(reversed(least)), turns)

    @classmethod
    def sloped(cls, slope: float) -> RowCosts:
        """A table in which each further row costs `slope` of the first."""
        return cls((1, MOST), (1.0, 1.0 + slope * (MOST - 1)))

    def __call__(self, n: int) -> float:
        """The cost of n rows, in forwards of one row; beyond the table it goes on as steeply as it ends."""
        rows, seconds = self.rows, self.seconds
        at = next((i for i in range(1, len(rows) - 1) if n <= rows[i]), len(rows) - 1)
        low, high = rows[at - 1], rows[at]
        slope = (seconds[at] - seconds[at - 1]) / (high - low)
        return (seconds[at - 1] + slope * (n - low)) / seconds[0]


KNOWN: WeakKeyDictionary[Any, RowCosts] = WeakKeyDictionary()  # model -> its table, as long as it lives
