"""Tables that people sort and search, and measured numbers with where they are from."""

import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

WIDTH = 120
Cell = str | int | float | list[float] | None  # a list: a value with the two ends of its interval


class Measured(msgspec.Struct, forbid_unknown_fields=True):
    """A table with where it is from. command: empty where it was not recorded, or is no more: then made_by says what
    it was. sample: on what it was measured. notes: what limits it."""

    title: str
    command: str
    machine: str
    date: str
    columns: list[str]
    rows: list[list[Cell]]
    sample: str = ""
    notes: list[str] = []
    made_by: str = ""

    @property
    def name(self) -> str:
        """By which it is asked for."""
        return anchor(self.title)

    @property
    def origin(self) -> str:
        """The command, the machine and the date, as Markdown; those of each row where these have their own."""
        command = f"`{self.command}`" if self.command else self.made_by or "command not recorded"
        source = self.machine if "command" in self.columns else f"{command}; {self.machine}; {self.date}"
        return f"{source[:1].upper()}{source[1:]}."


class Link(NamedTuple):
    """A cell that leads to an https address, or to another table by its name."""

    text: str
    to: str


class Table(msgspec.Struct, frozen=True):
    """What is shown. about: paragraphs and lists of Markdown above it. filters: the columns that get a choice."""

    title: str
    about: list[str]
    columns: list[str]
    rows: list[list[str | Link]]
    filters: list[int] = []


def shown(measured: Measured) -> Table:
    """A measured table as it is shown, each column with as many digits as it needs."""
    places = [_places(column) for column in zip(*measured.rows, strict=True)]
    rows: list[list[str | Link]] = [
        [_text(cell, *at) for cell, at in zip(row, places, strict=True)] for row in measured.rows
    ]
    sample = [f"{measured.sample[:1].upper()}{measured.sample[1:]}."] if measured.sample else []
    notes = "\n".join(f"- {note}" for note in measured.notes)
    return Table(measured.title, [*sample, measured.origin, notes], measured.columns, rows)


def of_lines(lines: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The columns and rows of lines that all have the same keys."""
    every = list(lines)
    return {"columns": list(every[0]), "rows": [list(line.values()) for line in every]}


def anchor(head: str) -> str:
    """The place of a heading, as GitHub names it."""
    return re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-")


def wrapped(text: str) -> str:
    """A paragraph at the width of the documents."""
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)


def _places(column: Sequence[Cell]) -> tuple[int, int]:
    """Digits behind the point that a column needs, for its values and for the ends of its intervals."""
    values = [cell[0] if isinstance(cell, list) else cell for cell in column]
    ends = [end for cell in column if isinstance(cell, list) for end in cell[1:]]
    return max(map(_digits, values), default=0), max(map(_digits, ends), default=0)


def _digits(value: Any) -> int:
    return len(f"{value!r}".partition(".")[2].removesuffix("0")) if isinstance(value, float) else 0


def _text(cell: Cell, places: int, ends: int) -> str:
    if isinstance(cell, list):
        value, low, high = cell
        return f"{value:,.{places}f} ({low:,.{ends}f} to {high:,.{ends}f})"
    if isinstance(cell, str):
        return cell.replace("`", "")
    return "–" if cell is None else f"{cell:,.{places}f}"
