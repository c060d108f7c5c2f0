"""Tables of the documents: measured numbers with where they are from, as Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

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


def wrapped(text: str, begin: str = "") -> str:
    """A paragraph, or an item of a list behind `begin`, at the width of the documents."""
    later = " " * len(begin)
    return textwrap.fill(
        text, WIDTH, initial_indent=begin, subsequent_indent=later, break_long_words=False, break_on_hyphens=False
    )


def markdown(found: Measured) -> str:
    """A table under its title, with its origin, rows and notes."""
    told = found.sample[:1].upper() + found.sample[1:]
    command = f"`{found.command}`" if found.command else found.made_by or "command not recorded"
    by_row = "command" in found.columns
    origin = found.machine if by_row else f"{command}; {found.machine}; {found.date}"
    from_where = f"{told}. {origin[:1].upper()}{origin[1:]}" if told else f"{origin[:1].upper()}{origin[1:]}"
    places = [_places(column) for column in zip(*found.rows, strict=True)]
    lines = [found.columns, ["---"] * len(found.columns)]
    lines += [[_shown(cell, *at) for cell, at in zip(row, places, strict=True)] for row in found.rows]
    rows = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    notes = "\n".join(wrapped(note, "- ") for note in found.notes)
    return "\n\n".join(part for part in (f"### {found.title}", wrapped(f"{from_where}."), rows, notes) if part)


def _places(column: Sequence[Cell]) -> tuple[int, int]:
    """Digits behind the point that a column needs, for its values and for the ends of its intervals."""
    values = [cell[0] if isinstance(cell, list) else cell for cell in column]
    ends = [end for cell in column if isinstance(cell, list) for end in cell[1:]]
    return max(map(_digits, values), default=0), max(map(_digits, ends), default=0)


def _digits(value: Any) -> int:
    return len(f"{value!r}".partition(".")[2].removesuffix("0")) if isinstance(value, float) else 0


def _shown(cell: Cell, places: int, ends: int) -> str:
    if isinstance(cell, list):
        value, low, high = cell
        return f"{value:,.{places}f} ({low:,.{ends}f} to {high:,.{ends}f})"
    if isinstance(cell, str):
        return cell
    return "–" if cell is None else f"{cell:,.{places}f}"
