"""Lines and dots on two axes, for figures: colours, dashes and markers differ together, so that grey print and
colour-blind eyes tell them apart."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from explorer.export import fonts, look
from explorer.export.drawing import Dash, Drawing
from explorer.export.overview import nice
from explorer.export.views import SMALL

Point = tuple[float, float]


@dataclass(frozen=True)
class Series:
    """Points with a name. `joined`: a line through them ("line", "steps" or ""). `bars`: (low, high) of each. `look`:
    which colour, dash and marker."""

    name: str
    points: tuple[Point, ...]
    look: int
    joined: str = "line"
    bars: tuple[Point, ...] = ()
    markers: bool = True
    labels: tuple[str, ...] = ()
    quiet: bool = False  # grey: what the others are held against


@dataclass(frozen=True)
class Axes:
    """Titles and ends of both axes; log: the horizontal one is logarithmic, with ticks at `places`; names: what stands
    at these in the place of numbers. decades: vertical values are exponents of ten, and the axis says the powers."""

    x: str
    y: str
    right: float
    top: float
    left: float = 0.0
    bottom: float = 0.0
    log: bool = False
    places: tuple[float, ...] = ()
    percent: bool = False
    decades: bool = False  # the vertical one is logarithmic: its values are exponents of ten
    names: tuple[str, ...] = ()


@dataclass
class Frame:
    """Where values go inside a drawing."""

    axes: Axes
    x: float
    y: float
    w: float
    h: float
    ends: list[tuple[float, float, float, float]] = field(default_factory=list)

    def at(self, point: Point) -> Point:
        """Values to points of the page."""
        a = self.axes
        scale = math.log if a.log else float
        across = (scale(point[0]) - scale(a.left)) / ((scale(a.right) - scale(a.left)) or 1)
        return self.x + across * self.w, self.y + self.h - (point[1] - a.bottom) / ((a.top - a.bottom) or 1) * self.h


def plot(d: Drawing, axes: Axes, series: Sequence[Series], x: float, y: float, w: float, h: float) -> Frame:
    """Axes with grid and titles, then the series; the legend is drawn by `plot_legend`."""
    frame = Frame(axes, x + 34, y + 4, w - 40, h - 30)
    ink, grid = look.surface("muted"), look.mix(look.surface("line"), "#ffffff", 0.4)
    steps = max(2, int(frame.h / 28))
    for place in decades(axes.bottom, axes.top, steps) if axes.decades else nice(axes.bottom, axes.top, steps):
        _, at = frame.at((axes.right, place))
        d.line([(frame.x, at), (frame.x + frame.w, at)], grid, 0.5)
        label = f"{100 * place:g} %" if axes.percent else _power(place) if axes.decades else f"{place:,g}"
        d.text(frame.x - 4, at + 2.2, label, SMALL, ink, anchor="end")
    for i, place in enumerate(axes.places or nice(axes.left, axes.right, max(2, int(frame.w / 44)))):
        at, _ = frame.at((place, axes.bottom))
        d.line([(at, frame.y + frame.h), (at, frame.y + frame.h + 3)], ink, 0.6)
        label = axes.names[i] if axes.names else f"{place / 1e6:.3g} M" if place >= 1e6 else f"{place:,g}"
        d.text(at, frame.y + frame.h + 10, label, SMALL, ink, anchor="middle")
    d.line([(frame.x, frame.y), (frame.x, frame.y + frame.h), (frame.x + frame.w, frame.y + frame.h)], ink, 0.7)
    d.text(
        frame.x + frame.w / 2, frame.y + frame.h + 21, axes.x, 6.8, look.surface("text"), anchor="middle", room=frame.w
    )
    d.text(x + 6.5, frame.y + frame.h / 2, axes.y, 6.8, look.surface("text"), anchor="middle", upright=True)
    for curve in series:
        draw_series(d, frame, curve)
    return frame


def decades(bottom: float, top: float, most: int) -> list[float]:
    """Exponents between two ends: whole ones, about as many as there is room for; within a decade those of 1, 2, 5."""
    whole = range(math.ceil(bottom - 1e-9), math.floor(top + 1e-9) + 1)
    if len(whole) > 2:
        return [float(place) for place in whole[:: max(1, round(len(whole) / most))]]
    fine = [power + math.log10(digit) for power in range(math.floor(bottom), math.ceil(top) + 1) for digit in (1, 2, 5)]
    return [place for place in fine if bottom - 1e-9 <= place <= top + 1e-9]


def _power(exponent: float) -> str:
    """Ten to that power as an axis says it."""
    if exponent == round(exponent) and not -3 <= exponent <= 4:
        return f"10^{exponent:.0f}"
    value = 10**exponent
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _paint(series: Series) -> tuple[str, Dash, str]:
    colour, dash, marker = look.series(series.look)
    return (look.surface("muted"), (), "circle") if series.quiet else (colour, dash, marker)


def draw_series(d: Drawing, frame: Frame, series: Series) -> None:
    """Points, the line through them and their intervals, in a frame that stands already."""
    colour, dash, kind = _paint(series)
    places = [frame.at(point) for point in series.points]
    for (low, high), (across, _) in zip(series.bars, places, strict=False):
        top, bottom = frame.at((series.points[0][0], high))[1], frame.at((series.points[0][0], low))[1]
        d.line([(across, top), (across, bottom)], colour, 0.7)
        for end in (top, bottom):
            d.line([(across - 1.6, end), (across + 1.6, end)], colour, 0.7)
    if series.joined and len(places) > 1:
        corners = places[:1]
        for (x0, y0), (x1, y1) in pairwise(places):
            corners += [(x1, y0), (x1, y1)] if series.joined == "steps" and (x0, y0) != (x1, y1) else [(x1, y1)]
        d.line(corners, colour, 1.3, dash)
    for across, down in places if series.markers else places[-1:]:
        marker(d, kind, across, down, 2.3 if series.joined else 3.0, colour)
    for (across, down), text in zip(places, series.labels, strict=False):
        d.text(across, down - 4, text, 5.2, colour, anchor="middle")


def marker(d: Drawing, kind: str, x: float, y: float, r: float, colour: str) -> None:
    """A filled sign with a thin white edge, so that signs on top of each other can be told apart."""
    if kind in ("circle", "square"):
        d.box(x - r, y - r, 2 * r, 2 * r, colour, "#ffffff", 0.5, r if kind == "circle" else 0)
        return
    corners = [(0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)] if kind == "diamond" else [(0, -1.3), (1.25, 1), (-1.25, 1)]
    d.line([(x + r * a, y + r * b) for a, b in corners], "#ffffff", 0.5, (), colour)


def plot_legend(d: Drawing, series: Sequence[Series], x: float, y: float, w: float) -> float:
    """Names with their signs in columns; returns the height."""
    size = 6.6
    wide = max(fonts.width(fonts.legible(curve.name)[0], "sans", size) for curve in series) + 30
    columns = max(1, min(len(series), int(w // wide)))
    for i, curve in enumerate(series):
        row, column = divmod(i, columns)
        left, down = x + column * w / columns, y + 8 + row * 10.5
        colour, dash, kind = _paint(curve)
        if curve.joined:
            d.line([(left, down - 2.3), (left + 18, down - 2.3)], colour, 1.3, dash)
        marker(d, kind, left + 9, down - 2.3, 2.3, colour)
        d.text(left + 23, down, curve.name, size, look.surface("text"), room=w / columns - 26)
    return 10.5 * -(-len(series) // columns) + 4
