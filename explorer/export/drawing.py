"""One layout for every kind of picture: a list of marks in points (1/72 inch), written as SVG here and painted by
`raster`.

    drawing = Drawing(504, 200, "A title", "What is to be seen")
    drawing.box(10, 10, 40, 20, fill="#f5b83d")
    drawing.text(12, 24, "token", face="mono", size=7)
    svg(drawing)

All texts go through `text`, which makes them legible; the writer escapes them.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Concatenate, ParamSpec

from explorer.export import fonts

Dash = tuple[float, ...]
Place = tuple[float, float]


@dataclass(frozen=True)
class Box:
    """A rectangle; `line` is the stroke's colour ("" for none)."""

    x: float
    y: float
    w: float
    h: float
    fill: str = ""
    line: str = ""
    thick: float = 0.6
    radius: float = 0.0
    dash: Dash = ()


@dataclass(frozen=True)
class Cells:
    """Many rectangles (x, y, w, h) of one colour."""

    places: tuple[tuple[float, float, float, float], ...]
    fill: str


@dataclass(frozen=True)
class Line:
    """A polyline, or a filled polygon where `fill` is set."""

    points: Sequence[Place]
    colour: str
    thick: float = 0.6
    dash: Dash = ()
    fill: str = ""


@dataclass(frozen=True)
class Curve:
    """A cubic Bézier curve."""

    points: Sequence[Place]  # four
    colour: str
    thick: float = 0.6
    dash: Dash = ()


@dataclass(frozen=True)
class Words:
    """A legible text with its baseline at y; `anchor`: start, middle or end; upright: turned to be read from below."""

    x: float
    y: float
    text: str
    size: float
    face: str
    colour: str
    anchor: str = "start"
    upright: bool = False

    @property
    def width(self) -> float:
        """In points."""
        return fonts.width(self.text, self.face, self.size)


Mark = Box | Cells | Line | Curve | Words
Made = ParamSpec("Made")


def _adds(kind: Callable[Made, Mark]) -> Callable[Concatenate[Drawing, Made], None]:
    """The method of a drawing that adds a mark of this kind."""

    def add(drawing: Drawing, *values: Made.args, **named: Made.kwargs) -> None:
        drawing.marks.append(kind(*values, **named))

    return add


@dataclass
class Drawing:
    """A picture of `width` x `height` points; title and about are for people who cannot see it."""

    width: float
    height: float
    title: str = ""
    about: str = ""
    marks: list[Mark] = field(default_factory=list)

    box, line, curve = _adds(Box), _adds(Line), _adds(Curve)

    def cells(self, places: Sequence[tuple[float, float, float, float]], fill: str) -> None:
        """Add rectangles of one colour."""
        if places:
            self.marks.append(Cells(tuple(places), fill))

    def hatch(self, x: float, y: float, w: float, h: float, colour: str, gap: float = 3.0, thick: float = 0.5) -> None:
        """Add diagonal lines inside a rectangle."""
        at = gap
        while at < w + h:
            (x0, y0), (x1, y1) = (min(at, w), max(0.0, at - w)), (max(0.0, at - h), min(at, h))
            self.line([(x + x0, y + y0), (x + x1, y + y1)], colour, thick)
            at += gap

    def text(
        self,
        x: float,
        y: float,
        text: str,
        size: float = 7.0,
        colour: str = "#000000",
        face: str = "sans",
        anchor: str = "start",
        room: float | None = None,
        spaces: bool = True,
        upright: bool = False,
    ) -> float:
        """Add a text, cut where it is longer than `room`; returns its width. spaces: running text; otherwise spaces are
        shown, as in a token."""
        shown, face = fonts.legible(text, face, spaces)
        fitted = shown if room is None else fonts.fit(shown, face, size, room)
        words = Words(x, y, fitted, size, face, colour, anchor, upright)
        if words.text.strip():
            self.marks.append(words)
        return words.width


def svg(drawing: Drawing, background: str = "#ffffff") -> str:
    """The drawing as one SVG text; the same drawing gives the same bytes."""
    w, h = _n(drawing.width), _n(drawing.height)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{w}pt" height="{h}pt" viewBox="0 0 {w} {h}" role="img" '
        'xml:space="preserve">'
        f"<title>{_escape(drawing.title)}</title><desc>{_escape(drawing.about)}</desc>"
    )
    ground = f'<rect width="{w}" height="{h}" fill="{background}"/>' if background else ""
    return "\n".join([head + ground, *(_mark(mark) for mark in drawing.marks), "</svg>\n"])


def _escape(text: str) -> str:
    return html.escape(fonts.legible(text)[0])


def _n(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if abs(value) >= 0.005 else "0"


def _stroke(colour: str, thick: float, dash: Dash) -> str:
    if not colour:
        return ""
    dashes = f' stroke-dasharray="{" ".join(_n(d) for d in dash)}"' if dash else ""
    return f' stroke="{colour}" stroke-width="{_n(thick)}"{dashes}'


def _mark(mark: Mark) -> str:
    if isinstance(mark, Box):
        radius = f' rx="{_n(mark.radius)}"' if mark.radius else ""
        place = f'x="{_n(mark.x)}" y="{_n(mark.y)}" width="{_n(mark.w)}" height="{_n(mark.h)}"{radius}'
        return f'<rect {place} fill="{mark.fill or "none"}"{_stroke(mark.line, mark.thick, mark.dash)}/>'
    if isinstance(mark, Cells):
        outlines = "".join(f"M{_n(x)} {_n(y)}h{_n(w)}v{_n(h)}h{_n(-w)}z" for x, y, w, h in mark.places)
        return f'<path fill="{mark.fill}" d="{outlines}"/>'
    if isinstance(mark, Line):
        points = " ".join(f"{_n(x)},{_n(y)}" for x, y in mark.points)
        kind, cap = "polygon" if mark.fill else "polyline", "butt" if mark.dash else "round"
        stroke = f'{_stroke(mark.colour, mark.thick, mark.dash)} stroke-linejoin="round" stroke-linecap="{cap}"'
        return f'<{kind} points="{points}" fill="{mark.fill or "none"}"{stroke}/>'
    if isinstance(mark, Curve):
        a, b, c, d = (f"{_n(x)} {_n(y)}" for x, y in mark.points)
        return f'<path d="M{a}C{b} {c} {d}" fill="none"{_stroke(mark.colour, mark.thick, mark.dash)}/>'
    return _words(mark)


def _words(mark: Words) -> str:
    turned = f' transform="rotate(-90 {_n(mark.x)} {_n(mark.y)})"' if mark.upright else ""
    anchor = f' text-anchor="{mark.anchor}"' if mark.anchor != "start" else ""
    weight = ' font-weight="bold"' if mark.face == "bold" else ""
    # The length keeps the layout where a viewer has another font.
    fixed = f' textLength="{_n(mark.width)}" lengthAdjust="spacingAndGlyphs"'
    family = f'font-family="{fonts.FAMILIES[mark.face]}" font-size="{_n(mark.size)}"'
    return (
        f'<text x="{_n(mark.x)}" y="{_n(mark.y)}" {family}{weight}{anchor}{turned}{fixed} '
        f'fill="{mark.colour}">{html.escape(mark.text)}</text>'
    )
