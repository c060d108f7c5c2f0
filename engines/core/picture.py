"""What the tokens of a model draw: a raster of cells, one token each."""

import re
from dataclasses import dataclass
from typing import Any

from engines.core.errors import UserError
from engines.core.trace.groups import CELLS

COLOUR = re.compile(r"#[0-9a-f]{6}")


@dataclass(frozen=True)
class Pictured:
    """A picture on the board of a model that sees: it stands at the positions first ... last - 1, one for each patch of
    a grid (rows, columns). pixels: [height, width, 3], uint8. sentence: what was drawn."""

    first: int
    last: int
    grid: tuple[int, int]
    pixels: Any
    sentence: str


@dataclass(frozen=True)
class Picture:
    """A picture of `rows` x `columns` cells in raster order. first: the id of code 0, the codes follow; colours: of the
    codes, "#rrggbb"; blank: the id that stands for any word of a prompt (guidance), -1 for none; prompt: an example."""

    rows: int
    columns: int
    first: int
    colours: tuple[str, ...]
    blank: int = -1
    prompt: str = ""

    @property
    def cells(self) -> int:
        """Cells of a whole picture."""
        return self.rows * self.columns

    @property
    def end(self) -> int:
        """The id behind the last code."""
        return self.first + len(self.colours)


def picture_of(config: Any) -> Picture | None:
    """What `picture` in a model's config says; None where it says nothing. Raises UserError for what cannot be."""
    spec = getattr(config, "picture", None)
    if spec is None:
        return None
    try:
        rows, columns, first = (int(spec[name]) for name in ("rows", "columns", "first"))
        picture = Picture(
            rows,
            columns,
            first,
            tuple(map(str, spec["colours"])),
            int(spec.get("blank", -1)),
            str(spec.get("prompt", "")),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(
            f"the model's config says no whole picture ({error!r}); it needs rows, columns, first and colours."
        ) from None
    sizes = picture.rows >= 1 and picture.columns >= 1 and picture.cells <= CELLS and picture.first >= 0
    if (
        not sizes
        or not picture.colours
        or not all(map(COLOUR.fullmatch, picture.colours))
        or picture.end > config.vocab_size
    ):
        raise UserError(
            f"the model's config says a picture of {picture.rows} x {picture.columns} cells and {len(picture.colours)} "
            f"colours from id {picture.first}; it needs 1 to {CELLS:,} cells, colours such as #1f5fb4, and ids in its "
            "vocabulary."
        )
    return picture
