"""A run as a small picture without words: the board over all steps. Each recorded run of the gallery has one beside it,
and where its player begins with a drawing, that drawing.

    python -m explorer.export.thumbs           makes all of them anew, the drawings in a browser
    python -m explorer.export.thumbs ID ...    only those
"""

import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from engines import Trace, UserError
from explorer.arguments import BAD_INPUT, Parser, of_module
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
    levels = run.levels(t)
    for fill, cells in groupby(run.board(t), key=lambda cell: small_fill(cell, levels)):
        places = [cell.position - run.start for cell in cells]
        yield places[0], places[-1] + 1, fill


def of_recording(path: Path, trace: Trace) -> str:
    """The picture that stands beside a recorded run, the board over its steps where none does."""
    file = beside(path)
    return file.read_text("utf-8") if file.is_file() else picture(trace)


def _options(parser: Parser) -> None:
    parser.add_argument("ids", nargs="*", metavar="ID", help="recorded runs; without one, all")


def main(argv: Sequence[str] | None = None) -> int:
    """Write the pictures of recorded runs that ship."""
    from explorer.export.ideas import browser, digest, idea
    from explorer.papers.lessons import lessons
    from explorer.runs.gallery import gallery

    asked, recordings = of_module("explorer.export.thumbs", __doc__, argv, _options), gallery()
    stops = {lesson.trace: lesson.stops[-1].step for lesson in reversed(lessons())}  # the first of two
    try:
        with browser() as page:
            for name in asked.ids or [card.id for card in recordings.cards]:
                path, trace = recordings.path(name), recordings.get(name)
                step = stops.get(name, -(-len(trace.steps) // 2))
                text = idea(page, trace, step, digest(path))
                if text is None or len(text.encode()) > LARGEST:
                    text = picture(trace)
                beside(path).write_text(text, encoding="utf-8")
    except UserError as error:
        print(error, file=sys.stderr)
        return BAD_INPUT
    return 0


if __name__ == "__main__":
    sys.exit(main())
