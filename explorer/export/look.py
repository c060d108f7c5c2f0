"""Colours of `assets/theme.json` for pictures: states, heat, spans and lines, in the light palette (paper is white)."""

import math
from functools import lru_cache
from typing import Any

from explorer.own_files import own_json

LEVELS = 32
PALER = 0.28  # of the heat
DASHES: tuple[tuple[float, ...], ...] = ((), (5, 2), (1.2, 1.6), (5, 1.6, 1.2, 1.6))
MARKS = ("circle", "square", "diamond", "triangle")
# span colours, in an order whose neighbours can be told apart
SERIES = ("block", "fed", "neighbourhood", "window", "unit", "late", "cache", "other")


@lru_cache(maxsize=1)
def theme() -> dict[str, Any]:
    """The whole theme."""
    data: dict[str, Any] = own_json("theme.json")
    return data


def surface(name: str) -> str:
    """A surface colour such as text, muted, line, accent."""
    return str(theme()["surface"]["light"][name])


def declared(mode: str, prefix: str = "--") -> str:
    """The surface colours of a mode as custom properties."""
    return ";".join(f"{prefix}{name}:{value}" for name, value in theme()["surface"][mode].items())


def state(name: str, part: str) -> str:
    """fill, text or line of a state."""
    return str(theme()["states"][name]["light"][part])


def glyph(name: str) -> str:
    """The sign of a state."""
    return str(theme()["states"][name]["glyph"])


def border(name: str) -> tuple[float, ...]:
    """The dash of a state's border; None means that it has none."""
    return {"dashed": (2.0, 1.4), "dotted": (0.7, 1.0)}.get(theme()["states"][name]["border"], ())


def bordered(name: str) -> bool:
    """Whether a state's cell has a border."""
    return bool(theme()["states"][name]["border"] != "none")


def series(number: int) -> tuple[str, tuple[float, ...], str]:
    """Colour, dash and marker of the n-th line of a figure; they differ in all three."""
    again = number + number // len(SERIES)  # a colour that comes again has another dash and marker
    return span(SERIES[number % len(SERIES)]), DASHES[again % len(DASHES)], MARKS[again % len(MARKS)]


def span(kind: str) -> str:
    """The colour of a kind of span."""
    colours = theme()["spans"]["light"]
    return str(colours.get(kind, colours["other"]))


def mix(a: str, b: str, part: float) -> str:
    """`part` of b in a."""
    pairs = zip(_rgb(a), _rgb(b), strict=True)
    return "#" + "".join(f"{round(x + (y - x) * part):02x}" for x, y in pairs)


def distance(a: str, b: str) -> int:
    """How far apart two colours are: the sum over the three channels, 0 to 765."""
    return sum(abs(x - y) for x, y in zip(_rgb(a), _rgb(b), strict=True))


@lru_cache(maxsize=64)
def heat(part: float) -> tuple[str, str]:
    """Fill and text colour for a level of 0..1, in 32 steps, lighter than on a screen so that written tokens stand out
    of it on paper.

    The text is black or white, whichever can be read better.
    """
    stops = theme()["heat"]["light"]
    place = round(part * (LEVELS - 1)) / (LEVELS - 1) * (len(stops) - 1)
    i = min(math.floor(place), len(stops) - 2)
    fill = mix(mix(stops[i], stops[i + 1], place - i), "#ffffff", PALER)
    return fill, "#000000" if _luminance(fill) > 0.179 else "#ffffff"


def _rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _luminance(colour: str) -> float:
    r, g, b = (c / 255 / 12.92 if c / 255 <= 0.04045 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in _rgb(colour))
    return 0.2126 * r + 0.7152 * g + 0.0722 * b
