"""What the tokens of a model draw: a raster of cells, one token each."""

import re
from dataclasses import dataclass
from typing import Any

from engines.core.errors import UserError
from engines.core.trace.groups.media import CELLS

COLOUR = re.compile(r"#[0-9a-f]{6}")


@dataclass(frozen=True)
class Pictured:
    """A picture on the board of a model that sees: it stands at the positions first ... last - 1, one for each patch of
    a grid (rows, columns). pixels: [height, width, 3], uint8. said: what was drawn, in words."""

    first: int
    last: int
    grid: tuple[int, int]
    pixels: Any
    said: str


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
    told = getattr(config, "picture", None)
    if told is None:
        return None
    try:
        rows, columns, first = (int(told[name]) for name in ("rows", "columns", "first"))
        found = Picture(
            rows,
            columns,
            first,
            tuple(map(str, told["colours"])),
            int(told.get("blank", -1)),
            str(told.get("prompt", "")),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(
            f"the model's config says no whole picture ({error!r}); it needs rows, columns, first and colours."
        ) from None
    sizes = found.rows >= 1 and found.columns >= 1 and found.cells <= CELLS and found.first >= 0
    if not sizes or not found.colours or not all(map(COLOUR.fullmatch, found.colours)) or found.end > config.vocab_size:
        raise UserError(
            f"the model's config says a picture of {found.rows} x {found.columns} cells and {len(found.colours)} "
            f"colours from id {found.first}; it needs 1 to {CELLS:,} cells, colours such as #1f5fb4, and ids in its "
            "vocabulary."
        )
    return found
