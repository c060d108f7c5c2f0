"""Latin squares (any valid one is right) and 4x4 sudoku with one solution."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from functools import cache
from itertools import permutations

from engines.tasks.base import Task

Grid = tuple[tuple[int, ...], ...]


@cache
def latin_squares(n: int) -> tuple[Grid, ...]:
    """All Latin squares of n symbols 0..n-1, as tuples of rows: 12 for n = 3, 576 for n = 4."""
    rows = tuple(permutations(range(n)))

    def grow(done: Grid) -> Iterator[Grid]:
        if len(done) == n:
            yield done
            return
        for row in rows:
            if all(a != b for earlier in done for a, b in zip(earlier, row, strict=True)):
                yield from grow((*done, row))

    return tuple(grow(()))


@cache
def sudoku_grids() -> tuple[Grid, ...]:
    """The 288 full 4x4 grids: Latin squares whose four 2x2 boxes hold every digit."""
    return tuple(
        g
        for g in latin_squares(4)
        if all(len({g[r][c], g[r][c + 1], g[r + 1][c], g[r + 1][c + 1]}) == 4 for r in (0, 2) for c in (0, 2))
    )


def _latin(rng: random.Random, n: int) -> tuple[str, str]:
    symbols = rng.sample("ABCDEFGHIJKLMNOPQRSTUVWXYZ", n)
    return " ".join(symbols), "\n".join(" ".join(symbols[i] for i in row) for row in rng.choice(latin_squares(n)))


def _read_latin(text: str) -> str | None:
    symbols = text.split()
    if len(symbols) not in (3, 4) or len(set(symbols)) != len(symbols):
        return None
    return "\n".join(
        " ".join(symbols[(i + row) % len(symbols)] for i in range(len(symbols))) for row in range(len(symbols))
    )


def _wrong_latin(text: str, answer: str, output: str) -> int | None:
    symbols, got = text.split(), output.split()
    n = len(symbols)
    for i, symbol in enumerate(got):
        row, column = divmod(i, n)
        if i >= n * n or symbol not in symbols or symbol in got[row * n : i] or symbol in got[column:i:n]:
            return i
    return None if len(got) == n * n else len(got)


@cache
def _written_grids() -> tuple[str, ...]:
    return tuple(" ".join("".join(str(v + 1) for v in row) for row in grid) for grid in sudoku_grids())


def solutions(text: str) -> list[str]:
    """All full grids that agree with a puzzle such as "1034 3012 2143 4301" (0 is an empty cell)."""
    shape = re.compile(text.replace("0", "."))
    return [grid for grid in _written_grids() if shape.fullmatch(grid)]


def _sudoku(rng: random.Random, empty: int) -> tuple[str, str]:
    while True:
        cells = [str(v + 1) for row in rng.choice(sudoku_grids()) for v in row]
        for i in rng.sample(range(16), empty):
            cells[i] = "0"
        text = " ".join(re.findall("....", "".join(cells)))
        if len(solved := solutions(text)) == 1:
            return text, solved[0]


def _read_sudoku(text: str) -> str | None:
    cells = "".join(text.split())
    solved = solutions(" ".join(re.findall("....", cells))) if re.fullmatch("[0-4]{16}", cells) else []
    return solved[0] if len(solved) == 1 else None


PUZZLES = (
    Task(
        "latin",
        "Latin square (any valid one is right)",
        "puzzle",
        (3, 4),
        "symbols",
        _latin,
        _read_latin,
        dependent=True,
        many=True,
        asked=(3, 3),
        wrong=_wrong_latin,
    ),
    Task(
        "sudoku",
        "4x4 sudoku (0 is an empty cell)",
        "puzzle",
        (3, 8),
        "empty cells",
        _sudoku,
        _read_sudoku,
        dependent=True,
    ),
)
