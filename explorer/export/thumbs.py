"""A run as a small picture without words: the board over all steps."""

from __future__ import annotations

from collections.abc import Iterator

from explorer.export.drawing import Drawing
from explorer.export.playback import Playback
from explorer.export.views import small_fill

MOST_ROWS = 60


def thumbnail(run: Playback, w: float, h: float) -> Drawing:
    """Steps from top to bottom (of a long run every n-th), positions from left to right; w and h in points."""
    count = max(1, run.widest - run.start)
    stride = -(-max(1, run.length) // MOST_ROWS)
    rows = range(stride, run.length + 1, stride)
    cell, high = w / count, min(h / max(1, len(rows)), 8.0)
    d = Drawing(w, high * max(1, len(rows)), run.header.title, f"The token board of {run.header.title} over its steps.")
    fills: dict[str, list[tuple[float, float, float, float]]] = {}
    for row, t in enumerate(rows):
        for first, last, fill in _stretches(run, t):
            fills.setdefault(fill, []).append((first * cell, row * high, (last - first) * cell, high))
    for fill in sorted(fills):
        d.cells(fills[fill], fill)
    return d


def _stretches(run: Playback, t: int) -> Iterator[tuple[int, int, str]]:
    """(first, behind the last, colour) of equal neighbours."""
    levels, open_ = run.levels(t), None
    for cell in run.board(t)[run.start :]:
        at, fill = cell.position - run.start, small_fill(cell, levels)
        if open_ and open_[1] == fill:
            continue
        if open_:
            yield open_[0], at, open_[1]
        open_ = (at, fill)
    if open_:
        yield open_[0], run.widths[t] - run.start, open_[1]
