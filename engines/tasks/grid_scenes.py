"""Scenes: two or three coloured shapes in a 3 x 3 grid of cells, drawn from their description, and what can truly be
said of them. One function draws what a model is trained on and what a person asks for.

A scene is written as `small red circle top left, large blue square middle right`. An image is a uint8 array [24, 24, 3]
of red, green and blue. Needs numpy where something is drawn."""

import hashlib
import random
import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

from engines.tasks.base import split_of

SIDE, CELL = 24, 8  # pixels of a scene and of a cell
SIZES = ("small", "large")
COLOURS = {
    "red": (214, 40, 40),
    "green": (40, 160, 70),
    "blue": (40, 90, 205),
    "yellow": (242, 204, 40),
    "purple": (140, 60, 170),
    "orange": (240, 128, 30),
}
SHAPES = {  # rows of a small and of a large one, a bit for each pixel
    "circle": ((0b01110, 0b11111, 0b11111, 0b11111, 0b01110), (0x1C, 0x3E, 0x7F, 0x7F, 0x7F, 0x3E, 0x1C)),
    "square": ((0b11111,) * 5, (0x7F,) * 7),
    "triangle": ((0b00100, 0b01110, 0b01110, 0b11111, 0b11111), (0x08, 0x1C, 0x1C, 0x3E, 0x3E, 0x7F, 0x7F)),
    "cross": ((0b00100, 0b00100, 0b11111, 0b00100, 0b00100), (0x1C, 0x1C, 0x7F, 0x7F, 0x7F, 0x1C, 0x1C)),
}
ROWS, COLUMNS = ("top", "middle", "bottom"), ("left", "center", "right")
PAPER, GRAIN = 228, 30  # the grey behind, and how far a pixel of it may be off
FEWEST, MOST = 2, 3  # objects of a scene
FORM = re.compile(
    rf"({'|'.join(SIZES)}) ({'|'.join(COLOURS)}) ({'|'.join(SHAPES)}) (?:at )?(?:the )?"
    rf"({'|'.join(ROWS)}) ({'|'.join(COLUMNS)})"
)
FILLED = re.compile(
    rf"size : ({'|'.join(SIZES)}) colour : ({'|'.join(COLOURS)}) shape : ({'|'.join(SHAPES)}) place : "
    rf"({'|'.join(ROWS)}) ({'|'.join(COLUMNS)})"
)
LATER = ("then we see", "next comes")  # how a sentence behind the first begins; three times in four the first way


class Thing(NamedTuple):
    """One object of a scene, in the words that are said of it."""

    size: str
    colour: str
    shape: str
    row: str
    column: str

    @property
    def cell(self) -> tuple[int, int]:
        """Row and column of its cell."""
        return ROWS.index(self.row), COLUMNS.index(self.column)


Scene = tuple[Thing, ...]  # in reading order, one in a cell


def in_order(things: Sequence[Thing]) -> Scene:
    """The scene of these objects, in reading order."""
    return tuple(sorted(things, key=lambda thing: thing.cell))


def described(scene: Scene) -> str:
    """A scene as it is written."""
    return ", ".join(" ".join(thing) for thing in scene)


def scene_of(text: str) -> Scene | None:
    """The scene that a text describes; None where it describes none: another form, two objects in a cell, too few or
    too many."""
    matches = [FORM.fullmatch(" ".join(part.lower().split())) for part in text.split(",")]
    things = [Thing(*match.groups()) for match in matches if match]
    cells = {thing.cell for thing in things}
    return in_order(things) if len(things) == len(matches) == len(cells) and FEWEST <= len(cells) <= MOST else None


def scenes(split: str, seed: int = 0, objects: int | None = None) -> Iterator[Scene]:
    """Endless scenes of a split (see `split_of`), with so many objects or with two or three."""
    rng = random.Random(f"scene/{split}/{seed}")
    cells = [(row, column) for row in ROWS for column in COLUMNS]
    while True:
        scene = in_order(
            [
                Thing(rng.choice(SIZES), rng.choice(list(COLOURS)), rng.choice(list(SHAPES)), *cell)
                for cell in rng.sample(cells, objects or rng.randint(FEWEST, MOST))
            ]
        )
        if split_of(f"scene: {described(scene)}") == split:
            yield scene


@cache
def held_out(number: int) -> Scene:
    """The held-out scene with a number from 1 on: scenes of three objects that no training saw."""
    stream = scenes("held-out", seed=7, objects=MOST)
    return next(scene for i, scene in enumerate(stream, 1) if i == number)


def caption(scene: Scene, rng: random.Random | None = None) -> str:
    """What is said of a scene, a sentence for each object in reading order. rng: of how the sentences begin; without
    one always the usual way."""
    sentences = []
    for i, (size, colour, shape, row, column) in enumerate(scene):
        begin = LATER[rng is not None and rng.random() < 0.25] if i else "there is"
        sentences.append(f"{begin} a {size} {colour} {shape} at the {row} {column} .")
    return " ".join(sentences)


def form(scene: Scene) -> str:
    """The same as a form that is filled in."""
    return " ".join(
        f"size : {size} colour : {colour} shape : {shape} place : {row} {column} ;"
        for size, colour, shape, row, column in scene
    )


def shuffled(scene: Scene, rng: random.Random) -> str:
    """The words of a scene, objects and the words of each in any order: a task without a picture."""
    things = [rng.sample(thing, len(thing)) for thing in scene]
    return " , ".join(" ".join(thing) for thing in rng.sample(things, len(things)))


def named(text: str) -> set[Thing]:
    """The objects that a caption, or a filled form, names in full."""
    words = " ".join(re.findall(r"[a-z]+|[:;,.]", text.lower()))
    return {Thing(*fields) for form in (FORM, FILLED) for fields in form.findall(words)}


def word_class(word: str) -> str:
    """What kind of word of a caption it is: attribute (size, colour or shape), place, or function for all others."""
    if word in SIZES or word in COLOURS or word in SHAPES:
        return "attribute"
    return "place" if word in ROWS or word in COLUMNS else "function"


def right(scene: Scene, text: str) -> int:
    """How many objects of a scene a text names with size, colour, shape and place."""
    return len(set(scene) & named(text))


@cache
def _stamp(shape: str, size: str) -> Any:
    import numpy as np

    rows = SHAPES[shape][SIZES.index(size)]
    return np.array([[bit == "1" for bit in f"{row:0{len(rows)}b}"] for row in rows])


def drawn(scene: Scene, salt: str = "") -> Any:
    """The picture, uint8 [24, 24, 3]. Where in its cell an object stands, within a pixel, and the grain of the picture
    come from a hash of the description and the salt, so that a description always draws the same picture."""
    import numpy as np

    count = SIDE * SIDE * 3
    chance = hashlib.shake_256(f"{described(scene)}/{salt}".encode()).digest(2 * count + 2 * MOST)
    image = np.full((SIDE, SIDE, 3), PAPER, dtype=np.float32)
    for thing, down, along in zip(scene, chance[2 * count :: 2], chance[2 * count + 1 :: 2], strict=False):
        stamp, (row, column) = _stamp(thing.shape, thing.size), thing.cell
        n = len(stamp)
        y, x = CELL * row + (CELL - n) // 2 + down % 2, CELL * column + (CELL - n) // 2 + along % 2
        image[y : y + n, x : x + n][stamp] = COLOURS[thing.colour]
    grain = np.frombuffer(chance[: 2 * count], dtype=np.uint8).astype(np.float32).reshape(2, SIDE, SIDE, 3)
    image += GRAIN * (grain.sum(0) - 255) / 255
    return image.clip(0, 255).round().astype(np.uint8)
