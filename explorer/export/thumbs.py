"""A run as a small picture without words: the board over all steps. Each recorded run of the gallery has one beside it.

python -m explorer.export.thumbs     makes all of them anew
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from engines import Trace
from explorer.export.drawing import Drawing, svg
from explorer.export.playback import Playback
from explorer.export.views import small_fill

MOST_ROWS = 60
W, H = 240, 82  # points
LARGEST = 12_000  # bytes of a picture


def picture(trace: Trace) -> str:
    """The picture of a recorded run as SVG text that fills what it is put into; the same run gives the same bytes. A
    long run gets fewer rows and columns, until it has at most LARGEST bytes."""
    rows = MOST_ROWS
    while True:
        text = svg(thumbnail(Playback(trace), W, H, rows), background="")
        if len(text.encode()) <= LARGEST or rows <= 4:
            return text.replace("<svg ", '<svg preserveAspectRatio="none" ', 1)
        rows = rows * 3 // 4


def beside(path: Path) -> Path:
    """The file of the picture of the recorded run in the file `path`."""
    return path.with_name(path.name.removesuffix(".gz").removesuffix(".json") + ".svg")


def thumbnail(run: Playback, w: float, h: float, most: int = MOST_ROWS) -> Drawing:
    """Steps from top to bottom (of a long run every n-th), positions from left to right; w and h in points. most: how
    many rows at most."""
    count = max(1, run.widest - run.start)
    stride = -(-max(1, run.length) // most)
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
    for cell in run.board(t):
        at, fill = cell.position - run.start, small_fill(cell, levels)
        if open_ and open_[1] == fill:
            continue
        if open_:
            yield open_[0], at, open_[1]
        open_ = (at, fill)
    if open_:
        yield open_[0], run.widths[t] - run.start, open_[1]


def main() -> None:
    """Write the picture of every recorded run that ships."""
    from explorer.arguments import of_module
    from explorer.runs.gallery import gallery

    of_module("explorer.export.thumbs", __doc__)
    found = gallery()
    for card in found.cards:
        beside(found.path(card.id)).write_text(picture(found.get(card.id)), encoding="utf-8")


if __name__ == "__main__":
    main()
