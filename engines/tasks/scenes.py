"""Scenes with a word in them: a road sign, a shop front, a bus ..., in colours and places by chance, drawn with the
fonts that ship. One function draws what the parts are trained on and what a person asks for.

Needs Pillow. A scene is a uint8 array [128, 256, 3]; beside it lies where the word is, and a caption that names what is
seen and never copies the word: half of the kinds have captions with a word that is typical of them, whatever is written
there, the others have none."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engines.tasks.scene_painters import HEIGHT, PAINTERS, WIDTH, Colour, shade
from engines.tasks.word_images import FONTS, LETTERS, font_of

COLOURS = {
    "red": (190, 40, 45),
    "blue": (45, 80, 165),
    "green": (45, 120, 65),
    "yellow": (230, 195, 60),
    "white": (238, 236, 228),
    "black": (42, 42, 48),
    "orange": (225, 125, 45),
    "grey": (135, 138, 142),
}
FOREIGN, ALIKE = 0.1, 0.1  # shares of scenes with a word of another kind, and with one that looks like a typical one


@dataclass(frozen=True)
class SceneKind:
    """A kind of scene. words: what is usually written there; colours: of its main part; caption: with {colour} and
    {side}; named: the typical words that its caption names."""

    words: tuple[str, ...]
    colours: tuple[str, ...]
    caption: str
    named: tuple[str, ...] = ()


KINDS: dict[str, SceneKind] = {
    "road sign": SceneKind(
        ("stop", "yield", "slow", "school"),
        ("red", "blue", "yellow"),
        "a {colour} stop sign stands on the {side} of the road",
        ("stop",),
    ),
    "shop front": SceneKind(
        ("cafe", "coffee", "bakery", "open", "tea"),
        ("red", "green", "blue", "orange"),
        "the front of a cafe with a {colour} awning that serves coffee",
        ("cafe", "coffee"),
    ),
    "bus": SceneKind(
        ("city", "centre", "airport", "station", "express"),
        ("red", "blue", "green", "yellow"),
        "a {colour} bus drives through the street to the city centre",
        ("city", "centre"),
    ),
    "bottle": SceneKind(
        ("juice", "water", "milk", "oil", "honey"),
        ("green", "blue", "orange", "white"),
        "a bottle with a {colour} label of juice or water on the {side}",
        ("juice", "water"),
    ),
    "parcel": SceneKind(
        ("fragile", "heavy", "glass", "dry", "books"),
        ("white", "red", "yellow"),
        "a parcel with a {colour} label that is fragile and must stay dry",
        ("fragile", "dry"),
    ),
    "market stall": SceneKind(
        ("fruit", "fresh", "apples", "eggs", "bread"),
        ("green", "red", "blue", "orange"),
        "a market stall under a {colour} roof with apples and fresh fruit",
        ("apples", "fresh", "fruit"),
    ),
    "door": SceneKind(
        ("exit", "push", "pull", "private", "office", "staff"),
        ("blue", "green", "red", "grey"),
        "a closed {colour} door with a small plate on the {side} of a house",
    ),
    "book": SceneKind(
        ("poems", "history", "stories", "garden", "music"),
        ("red", "blue", "green", "orange"),
        "a book with a {colour} cover lies on a wooden table",
    ),
    "street plate": SceneKind(
        ("mill", "church", "park", "king", "bridge", "river"),
        ("blue", "green", "white"),
        "a {colour} plate with the name of a street on bricks",
    ),
    "poster": SceneKind(
        ("jazz", "festival", "tonight", "dance", "live"),
        ("yellow", "orange", "black", "white"),
        "a {colour} poster for a concert hangs on the {side} of a wall",
    ),
    "building": SceneKind(
        ("hotel", "bank", "museum", "cinema", "library"),
        ("black", "blue", "red", "white"),
        "a tall building with many windows and a {colour} sign above the entrance",
    ),
    "wall": SceneKind(
        ("hello", "here", "peace", "love", "free"),
        ("grey", "white", "orange"),
        "a plain {colour} wall with a short word painted on the {side}",
    ),
}
SIDES = ("left", "middle", "right")
TYPICAL = tuple(word for kind in KINDS.values() for word in kind.words)


@dataclass(frozen=True)
class SceneLook:
    """How a scene is drawn: chance chooses colours, place, font and size. rotation: of the word, degrees against the
    clock; blur: standard deviation in pixels; noise: standard deviation as a share of the range; contrast: of the
    word's colour against what it is written on."""

    kind: str = "shop front"
    chance: int = 0
    rotation: float = 0.0
    blur: float = 0.0
    noise: float = 0.0
    contrast: float = 1.0


@dataclass(frozen=True)
class Scene:
    """pixels uint8 [128, 256, 3]; region bool [128, 256], the rectangle around the word, turned with it; caption."""

    pixels: Any
    region: Any
    caption: str


def drawn(word: str, look: SceneLook, noise: Any = None) -> Scene:
    """A scene. noise [128, 256, 3]: standard normal numbers; none are needed where look.noise is 0."""
    from PIL import Image, ImageDraw, ImageFilter

    kind, pick = KINDS[look.kind], random.Random(f"{look.kind} {look.chance}")
    colour, side = pick.choice(kind.colours), pick.randrange(3)
    image = Image.new("RGB", (WIDTH, HEIGHT))
    pen = ImageDraw.Draw(image)
    surface, room = PAINTERS[look.kind](pen, pick, COLOURS[colour], side)
    ink = shade(COLOURS["white" if dark(surface) else "black"], pick.uniform(0.9, 1.05))
    ink = mixed(surface, ink, look.contrast)
    letters, region = lettering(word, look, pick, room)
    image.paste(ink, (0, 0), letters)
    if look.blur > 0:
        image = image.filter(ImageFilter.GaussianBlur(look.blur))
    pixels = np.asarray(image)
    if look.noise > 0:
        grain = pixels + 255 * look.noise * np.asarray(noise, dtype=np.float32)
        pixels = grain.clip(0, 255).round().astype(np.uint8)
    return Scene(pixels, np.asarray(region) > 127, caption(look.kind, colour, SIDES[side]))


def caption(kind: str, colour: str, side: str) -> str:
    """What is said of a scene."""
    sentence = KINDS[kind].caption.format(colour=colour, side=side)
    return sentence.replace("a orange", "an orange").replace("on the middle", "in the middle")


def lettering(word: str, look: SceneLook, pick: random.Random, room: tuple[float, float, float, float]) -> Any:
    """(letters, the rectangle around them) as images of greys: in the middle of the room, as large as fits it."""
    from PIL import Image, ImageDraw

    left, top, right, bottom = room
    name, most = pick.choice(list(FONTS)), pick.randint(17, 24)
    sizes = range(most, 8, -1)
    fits = (f for f in (font_of(name, s) for s in sizes) if f.getlength(word) <= right - left - 8)
    font, middle = next(fits, font_of(name, 9)), ((left + right) / 2, (top + bottom) / 2)
    both = [Image.new("L", (WIDTH, HEIGHT), 0) for _ in range(2)]
    ImageDraw.Draw(both[0]).text(middle, word, fill=255, font=font, anchor="mm")
    x0, y0, x1, y1 = both[0].getbbox() or (0, 0, 0, 0)
    ImageDraw.Draw(both[1]).rectangle((x0 - 1, y0 - 1, x1, y1), fill=255)
    options = {"center": middle, "resample": Image.Resampling.BILINEAR}
    return [image.rotate(look.rotation, **options) if look.rotation else image for image in both]


def mixed(a: Sequence[float], b: Sequence[float], share: float) -> Colour:
    """`share` of b in a."""
    r, g, b_ = (round(x + share * (y - x)) for x, y in zip(a, b, strict=True))
    return r, g, b_


def dark(colour: Sequence[float]) -> bool:
    """Whether one writes on it in white."""
    return 0.3 * colour[0] + 0.59 * colour[1] + 0.11 * colour[2] < 140


def word_for(kind: str, pick: random.Random) -> str:
    """A word for a scene: mostly the kind's, sometimes another kind's, sometimes one letter beside a typical word, so
    that context can mislead."""
    chance, own = pick.random(), KINDS[kind].words
    if chance < FOREIGN:
        return pick.choice([word for word in TYPICAL if word not in own])
    word = pick.choice(own)
    return alike(pick.choice(KINDS[kind].named or own), pick) if chance < FOREIGN + ALIKE else word


def alike(word: str, pick: random.Random) -> str:
    """The word with one letter changed."""
    at = pick.randrange(len(word))
    return word[:at] + pick.choice([letter for letter in LETTERS if letter != word[at]]) + word[at + 1 :]
