"""The fonts that ship (DejaVu, see assets/fonts/LICENSE.txt), and what a text looks like in them. Widths are the same
on every machine."""

import unicodedata
from bisect import bisect_right
from functools import lru_cache
from typing import Any

from engines import ASSETS

FILES = {"sans": "DejaVuSans.ttf", "bold": "DejaVuSans-Bold.ttf", "mono": "DejaVuSansMono.ttf"}
FAMILIES = {
    "sans": "'DejaVu Sans', Verdana, Arial, sans-serif",
    "bold": "'DejaVu Sans', Verdana, Arial, sans-serif",
    "mono": "'DejaVu Sans Mono', Menlo, Consolas, monospace",
}
PICTURES = {" ": "␣", "\n": "↵", "\t": "→"}
HIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs")
LONGEST = 400  # characters of one text that are looked at
THINNEST = 8  # letters in the width of one size
_MEASURED = 64.0  # size at which widths are measured


@lru_cache(maxsize=256)
def font(face: str, size: float) -> Any:
    """A font of Pillow; `size` in pixels."""
    from PIL import ImageFont

    return ImageFont.truetype(str(ASSETS / "fonts" / FILES[face]), size)


@lru_cache(maxsize=8)
def _measure(face: str) -> Any:
    from PIL import ImageFont

    return ImageFont.truetype(str(ASSETS / "fonts" / FILES[face]), _MEASURED, layout_engine=ImageFont.Layout.BASIC)


@lru_cache(maxsize=4096)
def has(char: str, face: str) -> bool:
    """Whether the font has a glyph of its own for a character."""
    return bytes(_measure(face).getmask(char)) != _missing(face)


@lru_cache(maxsize=8)
def _missing(face: str) -> bytes:
    return bytes(_measure(face).getmask("\U0010ffff"))


@lru_cache(maxsize=65536)
def width(text: str, face: str, size: float) -> float:
    """Advance of a text in the unit of `size`."""
    return float(_measure(face).getlength(text)) * size / _MEASURED


@lru_cache(maxsize=16384)
def legible(text: str, face: str = "sans", spaces: bool = True) -> tuple[str, str]:
    """The text as it can be drawn, and the face that has its glyphs: what is invisible, turns the reading direction or
    has no glyph becomes ‹code point›.

    spaces: leave them as they are (running text); otherwise they are shown (tokens).
    """
    shown = "".join(_shown(char, spaces) for char in text[:LONGEST]) + ("…" if len(text) > LONGEST else "")
    if face == "mono":
        face = min(("mono", "sans"), key=lambda candidate: sum(not has(char, candidate) for char in shown))
    return "".join(char if char == " " or has(char, face) else _code(char) for char in shown), face


def _shown(char: str, spaces: bool) -> str:
    if spaces and char in " \n\t":
        return " "
    return PICTURES.get(char) or (_code(char) if unicodedata.category(char) in HIDDEN else char)


def _code(char: str) -> str:
    return f"‹{ord(char):X}›"


def fit(text: str, face: str, size: float, room: float) -> str:
    """The text, cut with an ellipsis where it is wider than `room`; a legible text stays one."""
    if width(text, face, size) <= room:
        return text
    most = bisect_right(range(1, len(text) + 1), room, key=lambda n: width(text[:n].rstrip() + "…", face, size))
    return text[:most].rstrip() + "…"


def wrap(text: str, face: str, size: float, room: float, lines: int) -> list[str]:
    """At most `lines` lines of running text, the last one cut where more would be needed."""
    wrapped, current, text = [], "", text[: int(lines * room / size * THINNEST) + LONGEST]  # what can stand there
    for word in text.split():
        longer = f"{current} {word}".strip()
        if current and width(longer, face, size) > room:
            wrapped.append(current)
            current = word
        else:
            current = longer
    wrapped += [current] if current else []
    if len(wrapped) > lines:
        wrapped[lines - 1 :] = [" ".join(wrapped[lines - 1 :])]
    return [fit(line, face, size, room) for line in wrapped]
