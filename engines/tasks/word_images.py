"""Pictures of words: a word of small letters in one of the project's fonts, turned, blurred, noisy, pale. One function
draws what a reader is trained on and what a person types.

Needs Pillow. An image is a uint8 array [32, 128] of greys, 0 black."""

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from engines.core.places import assets

HEIGHT, WIDTH = 32, 128
LETTERS = "abcdefghijklmnopqrstuvwxyz"
LONGEST = 10  # letters of a word
FONTS = {"sans": "DejaVuSans.ttf", "bold": "DejaVuSans-Bold.ttf", "mono": "DejaVuSansMono.ttf"}
SIZES = (8, 22)  # of a font, in pixels; the largest that fits is taken
MARGIN = 5  # pixels left and right, at least
PAPER = 235  # the grey behind the word
INK = 40.0  # greys between paper and ink, at least: what differs less stays pale
HELD_OUT = 8  # one word of so many is not trained on


@dataclass(frozen=True)
class Look:
    """How a word is drawn. rotation: degrees against the clock; blur: standard deviation in pixels; noise: standard
    deviation as a share of the range from black to white; contrast: of ink against paper, 1 for black on `PAPER`;
    stretch: width of a letter; slant: how far its top leans to the right, as a share of its height; shift: pixels right
    and down of its place."""

    font: str = "sans"
    size: int = SIZES[1]
    rotation: float = 0.0
    blur: float = 0.0
    noise: float = 0.0
    contrast: float = 1.0
    stretch: float = 1.0
    slant: float = 0.0
    shift: tuple[int, int] = (0, 0)


@cache
def words() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The words of 2 to `LONGEST` letters in Python's own documentation, in alphabetical order: those that are trained
    on, and those held out."""
    from pydoc_data.topics import topics

    vocabulary = sorted(set(re.findall(rf"\b[a-z]{{2,{LONGEST}}}\b", " ".join(topics.values()).lower())))
    out = [word for word in vocabulary if hashlib.sha256(word.encode()).digest()[0] % HELD_OUT == 0]
    return tuple(word for word in vocabulary if word not in set(out)), tuple(out)


@cache
def font_of(name: str, size: int) -> Any:
    """One of the project's fonts."""
    from PIL import ImageFont

    return ImageFont.truetype(str(assets() / "fonts" / FONTS[name]), size, layout_engine=ImageFont.Layout.BASIC)


def fitting(word: str, look: Look) -> Any:
    """The font of a look in the largest size up to the look's in which the word fits the image."""
    room = (WIDTH - 2 * MARGIN) / look.stretch
    sizes = range(look.size, SIZES[0], -1)
    fits = (f for f in (font_of(look.font, s) for s in sizes) if f.getlength(word) <= room)
    return next(fits, None) or font_of(look.font, SIZES[0])


def drawn(word: str, look: Look, noise: Any = None) -> Any:
    """The image, uint8 [32, 128]: the word begins at the left, as in a picture that was cut out and filled up. noise
    [32, 128]: standard normal numbers; none are needed where look.noise is 0."""
    from PIL import Image, ImageDraw, ImageFilter

    ink, font = Image.new("L", (WIDTH, HEIGHT), 0), fitting(word, look)
    middle = (MARGIN + font.getlength(word) * look.stretch / 2, HEIGHT / 2)  # of the word, about which it turns
    ImageDraw.Draw(ink).text((MARGIN, HEIGHT / 2), word, fill=255, font=font, anchor="lm")
    upright = MARGIN + font.getlength(word) / 2
    angle, (right, down) = np.deg2rad(look.rotation), look.shift
    cosine, sine = float(np.cos(angle)), float(np.sin(angle))
    if (angle, look.stretch, look.slant, look.shift) != (0.0, 1.0, 0.0, (0, 0)):
        # from a pixel of the image back to one of the upright word
        x = (cosine / look.stretch + look.slant * sine, -sine / look.stretch + look.slant * cosine)
        y = (sine, cosine)
        at = (middle[0] + right, middle[1] + down)
        across = upright - x[0] * at[0] - x[1] * at[1]
        along = middle[1] - y[0] * at[0] - y[1] * at[1]
        ink = ink.transform((WIDTH, HEIGHT), Image.Transform.AFFINE, (*x, across, *y, along), Image.Resampling.BICUBIC)
    if look.blur > 0:
        ink = ink.filter(ImageFilter.GaussianBlur(look.blur))
    share = np.asarray(ink, dtype=np.float32) / 255
    greys = PAPER * (1 - look.contrast * share)
    if look.noise > 0:
        greys = greys + 255 * look.noise * np.asarray(noise, dtype=np.float32)
    return greys.clip(0, 255).round().astype(np.uint8)


def dark_on_light(greys: Any) -> Any:
    """Greys [h, w] on a sheet of uint8 [32, 128], its ground as light as paper and what differs most from it dark."""
    border = np.concatenate([greys[0], greys[-1], greys[:, 0], greys[:, -1]])
    away = greys - np.median(border)
    if np.percentile(away, 97) > -np.percentile(away, 3):
        away = -away  # light letters
    ink = max(INK, float(-np.percentile(away, 2)))
    sheet = np.full((HEIGHT, WIDTH), PAPER, dtype=np.float32)
    top = (HEIGHT - greys.shape[0]) // 2
    sheet[top : top + greys.shape[0], : greys.shape[1]] = PAPER * (1 + (away / ink).clip(-1, 0))
    return sheet.round().astype(np.uint8)
