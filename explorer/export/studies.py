"""A study's tables as CSV and its figures as SVG, the latter by the same writer as the figures of traces."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from explorer.export import look
from explorer.export.drawing import Drawing, svg
from explorer.export.events import csv_text, inert
from explorer.export.overview import nice
from explorer.export.plot import Axes, Frame, Series, decades, draw_series, plot, plot_legend
from explorer.export.views import SMALL

WIDTH, HEIGHT, TITLE = 504.0, 270.0, 16.0
TICKS = 8  # at most, on an axis whose places are not named


def table_csv(table: Any) -> str:
    """A table of a study; the heads say unit and provenance, no value is an empty cell."""
    heads = [inert(column.head) for column in table.columns]
    return csv_text(heads, ([inert(cell) if isinstance(cell, str) else cell for cell in row] for row in table.rows))


def figure_svg(figure: Any) -> str:
    """A figure of a study as one SVG text."""
    return svg(figure_drawing(figure))


def figure_drawing(figure: Any) -> Drawing:
    """The layout. A gap ends a line, bars are boxes from their base, a logarithmic vertical axis has its decades."""
    if any(series.style == "spans" for series in figure.series):
        return _lying(figure)
    scale = math.log10 if figure.y.log else float
    axes = _axes(figure, scale)
    about = figure.note or f"{figure.title}: {', '.join(series.name for series in figure.series)}"
    d = _titled(figure.title, about)
    frame = plot(d, axes, [], 4, 4 + TITLE, WIDTH - 8, HEIGHT)
    named = list[Series]()
    for i, series in enumerate(figure.series):
        if series.style == "bars":
            _bars(d, frame, series, i, scale)
    for i, series in enumerate(figure.series):
        pieces = [_drawn(series, i, scale, piece) for piece in _pieces(series)]
        named += pieces[:1]
        for piece in pieces if series.style != "bars" else ():
            draw_series(d, frame, piece)
    foot = TITLE + HEIGHT + 4
    d.height = foot + 6 + (plot_legend(d, named, 34, foot, WIDTH - 40) if named else 0)
    return d


def _titled(title: str, about: str) -> Drawing:
    d = Drawing(WIDTH, 0, title, about)
    d.text(8, 12, title, 8.2, look.surface("text"), "bold", room=WIDTH - 16)
    return d


def _lying(figure: Any) -> Drawing:
    """A schedule: a row for each name of the first axis, its spans along the second."""
    rows, left, high, head = figure.x.labels, 92.0, 26.0, 8 + TITLE
    end = max((y for series in figure.series for y in series.y if y is not None), default=1.0)
    foot = head + high * len(rows)
    d = _titled(figure.title, figure.note or figure.title)

    def at(time: float) -> float:
        return left + time / end * (WIDTH - left - 16)

    ink = look.surface("text")
    for row, name in enumerate(rows):
        d.text(left - 6, head + high * (row + 0.6), name, 6.8, ink, anchor="end")
        d.box(left, head + high * row, WIDTH - left - 16, high - 6, look.surface("line"))
    for i, series in enumerate(figure.series):
        for row, starts, stops in zip(series.x, series.base, series.y, strict=True):
            if stops is not None:
                d.box(at(starts), head + high * row, at(stops) - at(starts), high - 6, look.series(i)[0])
    for tick in nice(0.0, end, 6):
        d.text(at(tick), foot + 8, f"{tick:,g}", SMALL, look.surface("muted"), anchor="middle")
    d.text((left + WIDTH) / 2, foot + 20, figure.y.head, 6.8, ink, anchor="middle")
    named = [Series(f"{series.name} ({series.provenance})", (), i, "") for i, series in enumerate(figure.series)]
    d.height = foot + 28 + plot_legend(d, named, 34, foot + 26, WIDTH - 40)
    return d


def _axes(figure: Any, scale: Callable[[float], float]) -> Axes:
    """Ends that hold all points, intervals and bases; from 0 where no axis is logarithmic."""
    xs = [x for series in figure.series for x, y in zip(series.x, series.y, strict=True) if y is not None]
    ys = [y for series in figure.series for y in (*series.y, *series.low, *series.high, *series.base) if y is not None]
    ys = [scale(y) for y in ys if y > 0 or not figure.y.log] + ([] if figure.y.log else [0.0])
    low, high = (math.floor(min(ys)), max(ys)) if figure.y.log and ys else (min(ys, default=0.0), max(ys, default=1.0))
    left, right, ticks = _across(xs, figure)
    names = tuple(figure.x.labels[int(tick)] for tick in ticks) if figure.x.labels else ()
    x, y, top = figure.x, figure.y, high + 0.04 * ((high - low) or 1)
    return Axes(x.head, y.head, right, top, left, low, x.log, tuple(ticks), decades=y.log, names=names)


def _across(xs: Sequence[float], figure: Any) -> tuple[float, float, list[float]]:
    """(left end, right end, ticks): a logarithmic axis gets the places that stand there, if they are few and round,
    else powers of ten or what is 1, 2 and 5 in them; a named one its names; bars get room."""
    if figure.x.labels:
        return -0.5, len(figure.x.labels) - 0.5, [float(i) for i in range(len(figure.x.labels))]
    if not xs:
        return 0.0, 1.0, []
    if not figure.x.log:
        room = 0.5 if any(series.style == "bars" for series in figure.series) else 0.0
        return min(0.0, *xs) - room, (max(xs) or 1.0) + room, []
    own = sorted(set(xs))
    left, right = own[0] / 1.05, own[-1] * 1.05
    if len(own) <= TICKS and all(x == float(f"{x:.3g}") or x == round(x) for x in own):
        return left, right, own
    fine = decades(math.log10(left), math.log10(right), TICKS)
    return left, right, [10**power for power in fine[:: -(-len(fine) // TICKS)]]


def _pieces(series: Any) -> list[list[int]]:
    """The points between gaps."""
    pieces: list[list[int]] = [[]]
    for k, y in enumerate(series.y):
        if y is None:
            pieces.append([])
        else:
            pieces[-1].append(k)
    return [piece for piece in pieces if piece]


def _drawn(series: Any, i: int, scale: Callable[[float], float], at: Sequence[int]) -> Series:
    bars = tuple((scale(series.low[k]), scale(series.high[k])) for k in at) if series.low else ()
    joined = {"line": "line", "steps": "steps"}.get(series.style, "")
    points = tuple((series.x[k], scale(series.y[k])) for k in at)
    markers = series.style == "points" or len(series.x) <= 24
    return Series(f"{series.name} ({series.provenance})", points, i, joined, bars, markers)


def _bars(d: Drawing, frame: Frame, series: Any, i: int, scale: Callable[[float], float]) -> None:
    (left, _), (right, _) = frame.at((0, 0)), frame.at((1, 0))
    wide = min(0.7 * abs(right - left), frame.w / 3)
    for k, (x, y) in enumerate(zip(series.x, series.y, strict=True)):
        if y is None:
            continue
        across, top = frame.at((x, scale(y)))
        bottom = frame.at((x, scale(series.base[k]) if series.base else frame.axes.bottom))[1]
        d.box(across - wide / 2, min(top, bottom), wide, abs(bottom - top), look.series(i)[0])
