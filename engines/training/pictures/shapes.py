"""Two shapes beside or above each other, 16 x 16 pixels in six colours, asked for in words: `tiny-shapes`.

"red circle left of blue square" is five tokens: colour, shape, place, colour, shape. The pictures are drawn here, anew
for every step; sizes and places vary within their half."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

import torch
from torch import Tensor

from engines.training.core.commands import Command, usual
from engines.training.pictures.pixels import Pixels, PixelTraining, drawn, nats, train

COLOURS = {"red": "#d62728", "green": "#2ca02c", "blue": "#1f5fb4", "yellow": "#e7b416", "purple": "#8e44ad"}
SHAPES = ("circle", "square", "triangle")
PLACES = ("left of", "above")
SIZE = 16
KIND = Pixels(
    name="tiny-shapes",
    title="Tiny shapes (draws a caption, pixel by pixel)",
    rows=SIZE,
    columns=SIZE,
    words=(*COLOURS, *SHAPES, *PLACES),
    length=5,
    colours=("#f4f1ea", *COLOURS.values()),
    signs="·rgbyp",
    prompt="red circle left of blue square",
    refusal="it draws two shapes, so write a colour and a shape, left of or above, and a colour and a shape, such as "
    "red circle left of blue square (red, green, blue, yellow, purple; circle, square, triangle)",
    steps=2500,
    batch=24,
    task="shapes",
)
DRAWN = 60


def shape(name: str, size: int) -> Tensor:
    """The cells [size, size] that a shape fills, as booleans."""
    at = torch.arange(size)
    if name == "square":
        return torch.ones(size, size, dtype=torch.bool)
    if name == "triangle":
        half = torch.div(at, 2, rounding_mode="floor")[:, None]
        return (at[None] >= (size - 1) // 2 - half) & (at[None] <= size // 2 + half)
    middle = (size - 1) / 2
    return (at[:, None] - middle) ** 2 + (at[None] - middle) ** 2 <= (size / 2) ** 2


def picture(words: list[str], generator: torch.Generator) -> Tensor:
    """Codes [16, 16] of a caption's five words."""
    grid = torch.zeros(SIZE, SIZE, dtype=torch.long)
    half = SIZE // 2
    for i, (colour, form) in enumerate((words[:2], words[3:])):
        size = int(torch.randint(5, 8, (), generator=generator))
        near, across = (int(torch.randint(0, n, (), generator=generator)) for n in (half - size + 1, SIZE - size - 3))
        near, across = near + half * i, across + 2
        row, column = (across, near) if words[2] == PLACES[0] else (near, across)
        grid[row : row + size, column : column + size][shape(form, size)] = 1 + list(COLOURS).index(colour)
    return grid


def captions(generator: torch.Generator, count: int) -> list[list[str]]:
    """Captions of two unlike colours."""
    made = []
    for _ in range(count):
        one, other = torch.randperm(len(COLOURS), generator=generator)[:2].tolist()
        forms = torch.randint(len(SHAPES), (2,), generator=generator).tolist()
        place = int(torch.randint(len(PLACES), (), generator=generator))
        names = list(COLOURS)
        made.append([names[one], SHAPES[forms[0]], PLACES[place], names[other], SHAPES[forms[1]]])
    return made


class Shapes(PixelTraining):
    """Pictures that are drawn for the step."""

    def rows(self, drawn: torch.Generator, count: int) -> tuple[Tensor, Tensor]:
        """See `PixelTraining`."""
        words = captions(drawn, count)
        return torch.tensor([KIND.ids(one) for one in words]), torch.stack(
            [picture(one, drawn).flatten() for one in words]
        )


def apart(words: list[str], grid: Tensor) -> bool:
    """Whether the second shape of a picture [16, 16] lies where the caption says; both colours must be there."""
    first, second = (
        (grid == 1 + list(COLOURS).index(colour)).nonzero().float().mean(0) for colour in (words[0], words[3])
    )
    return bool((second - first)[1 if words[2] == PLACES[0] else 0] >= SIZE / 4)


def marks(network: Any) -> dict[str, Any]:
    """Nats per picture on new ones; of drawn ones how many have at least ten pixels of each colour named, none of
    another, and the middle of the second shape at least four cells to the right of the first's, or below it."""
    seen = torch.Generator().manual_seed(10**9)
    words = captions(seen, DRAWN)
    rows = torch.tensor([KIND.ids(one) for one in words])
    codes = torch.stack([picture(one, seen).flatten() for one in words])
    with torch.no_grad():
        loss = nats(network, KIND, torch.cat([rows, codes + KIND.first], 1))
    made = drawn(network, KIND, rows, torch.Generator().manual_seed(0))
    right = pure = placed = 0
    for one, grid in zip(words, made, strict=True):
        counts = torch.bincount(grid, minlength=6).tolist()
        named = {1 + list(COLOURS).index(one[0]), 1 + list(COLOURS).index(one[3])}
        right += all(counts[code] >= 10 for code in named)
        pure += all(counts[code] == 0 for code in range(1, 6) if code not in named)
        placed += all(counts[code] for code in named) and apart(one, grid.reshape(SIZE, SIZE))
    return {
        "held_out_pictures": DRAWN,
        "nats_per_picture": round(float(loss) * KIND.cells, 2),
        "drawn": {
            "both_colours": round(right / DRAWN, 3),
            "no_other_colour": round(pure / DRAWN, 3),
            "in_place": round(placed / DRAWN, 3),
        },
    }


def _options(parser: ArgumentParser) -> None:
    usual(parser, "seed", "steps", "resume", "out")


def _run(a: Namespace) -> None:
    made = Shapes(KIND, a.seed, a.steps or KIND.steps)
    note = "draws 16 x 16 pixels in six colours; asked with a caption such as red circle left of blue square"
    data = "pictures drawn by engines/training/pictures/shapes.py"
    print(train(made, resume=a.resume, out=a.out, marks=marks, data=data, note=note))


def commands() -> dict[str, Command]:
    """See `engines.training.core.commands`."""
    return {KIND.name: Command(KIND.title, str(__doc__), _options, _run)}
