"""Keys and values of llama.cpp behind `KVCache`: text and draft trees in one context.

llama.cpp knows sequences, not trees: a row sees the cells of one sequence at its own position and before. So each leaf
of a tree is a sequence, a row belongs to those of all leaves below it, and what stands before it is shared by joining
the cells of its path to a new sequence, which copies nothing.

Cells stay in the order in which rows were fed: attention adds them up in that order, and where a path's rows stand in
the order of its text, a row gets the same bits in a tree as alone. Rows that are dropped from the middle therefore keep
their cells, in a sequence that nobody reads, until there is no more room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from engines.core.errors import UserError
from engines.models.gguf.llama_cpp import GUARD, Context
from engines.models.layers.slots import check_crop, check_kept, check_room

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

GRAVE = GUARD - 1  # the sequence of dropped rows
SLACK = 512  # cells beside those that were asked for, for dropped rows
BLOCK = 256  # llama.cpp rounds the cells up to a multiple of it


class SequenceCache:
    """See `KVCache`. length: rows in use. capacity: positions; cells: the context, which has SLACK more of them."""

    def __init__(self, cells: Context, capacity: int, position_bytes: int = 0) -> None:
        self.cells, self.capacity, self.bytes = cells, capacity, cells.cells * position_bytes
        self.length = 0
        self.positions, self.parents = list[int](), list[int]()  # of every row; a parent is a row, -1 for none
        self._tips: dict[int, int] = {}  # sequence -> its last row: it holds this row's path and nothing else
        self._free = list(range(GRAVE - 1, -1, -1))
        self._graves = 0

    def feed(
        self, tokens: Sequence[int], parents: Sequence[int], positions: Sequence[int], last_only: bool = False
    ) -> npt.NDArray[np.float32]:
        """Logits [n, V] of n new rows, or [1, V] of the last one. parents: rows of the cache, counted with the new
        ones; -1: none. Raises UserError where they do not fit, or have more leaves than there are sequences."""
        held, n = self.length, len(tokens)
        check_room(held, n, self.capacity)
        if held + self._graves + n > self.cells.cells:
            self._make_room()
        own: list[list[int]] = [[] for _ in tokens]
        before = dict(self._tips)
        opened: list[int] = []
        try:
            inner = set(parents)
            for leaf in [row for row in range(held, held + n) if row not in inner]:
                path, row = [], leaf
                while row >= held:
                    path.append(row)
                    row = parents[row - held]
                sequence = self._sequence(row, before)
                opened.append(sequence)
                self._tips[sequence] = leaf
                for row in path:
                    own[row - held].append(sequence)
            logits = self.cells.feed(tokens, positions, own, last_only)
        except BaseException:
            self._undo(opened, held, parents)
            raise
        self.positions += positions
        self.parents += parents
        self.length += n
        return logits

    def _sequence(self, row: int, before: Mapping[int, int]) -> int:
        """A sequence that holds the path to a row and no more: one that ends there, or a new one. before: sequence ->
        its last row, when the call began."""
        ending = next((s for s, tip in self._tips.items() if tip == row >= 0), None)
        if ending is not None:
            return ending
        if not self._free:
            raise UserError(
                f"a draft tree or paths with more than {GRAVE} ends were fed, and llama.cpp has so many sequences; "
                "take a smaller tree or fewer paths."
            )
        new = self._free.pop()
        if row >= 0:
            source = next(s for s, tip in before.items() if self._reaches(tip, row))
            self.cells.join(source, new, 0, self.positions[row] + 1)
        return new

    def _reaches(self, tip: int, row: int) -> bool:
        """Whether a row stands on the path to a tip."""
        while tip > row:
            tip = self.parents[tip]
        return tip == row

    def _make_room(self) -> None:
        """Free the cells of dropped rows. A single path moves together, in its order; of several the cells are used
        again as they come, and a row's last bits may change."""
        self.cells.leave(GRAVE, -1)
        if len(self._tips) == 1:
            self.cells.gather(next(iter(self._tips)))
        self._graves = 0

    def _undo(self, opened: Sequence[int], held: int, parents: Sequence[int]) -> None:
        """Take back what a refused call has opened."""
        for sequence in opened:
            row = self._tips.pop(sequence)
            while row >= held:
                row = parents[row - held]
            self._end(sequence, row)
        self._merge()

    def _end(self, sequence: int, row: int) -> None:
        """Let a sequence end with a row that it holds."""
        self.cells.leave(sequence, self.positions[row] + 1 if row >= 0 else -1)
        if row >= 0:
            self._tips[sequence] = row
        else:
            self._free.append(sequence)

    def crop(self, length: int) -> None:
        """Forget the rows from `length` on. Raises ValueError if there are fewer."""
        check_crop(self.length, length)
        self.keep(length, [])

    def keep(self, base: int, rows: Sequence[int]) -> None:
        """Keep the first `base` rows and, behind them, the rows base + r for r in `rows` (ascending). Raises ValueError
        for rows that the cache lacks, or whose parents are dropped."""
        check_kept(self.length, base, rows)
        place = {base + row: base + i for i, row in enumerate(rows)}

        def stays(row: int) -> bool:
            return row < base or row in place

        lost = next((row for row in place if not stays(self.parents[row])), None)
        if lost is not None:
            raise ValueError(f"row {lost} was kept and its parent {self.parents[lost]} was not")
        last = base + rows[-1] if rows else base - 1
        for sequence, tip in list(self._tips.items()):
            row = tip
            dropped = list[int]()
            while not stays(row):
                dropped.append(row)
                row = self.parents[row]
            if not dropped:
                continue
            del self._tips[sequence]
            if dropped[-1] < last:  # cells in the middle, from here up to the first that stands behind all that stay
                end = next((self.positions[row] for row in reversed(dropped) if row > last), -1)
                self.cells.join(sequence, GRAVE, self.positions[dropped[-1]], end)
            self._end(sequence, row)
        self._graves += last + 1 - base - len(rows)
        self.positions = self.positions[:base] + [self.positions[row] for row in place]
        moved = [place.get(self.parents[row], self.parents[row]) for row in place]
        self.parents = self.parents[:base] + moved
        self._tips = {sequence: place.get(row, row) for sequence, row in self._tips.items()}
        self.length = len(self.positions)
        self._merge()

    def _merge(self) -> None:
        """Free the sequences whose paths others hold, too."""
        covered, lowest = set[int](), min(self._tips.values(), default=0)
        for sequence, tip in sorted(self._tips.items(), key=lambda entry: -entry[1]):
            if tip in covered:
                del self._tips[sequence]
                self._end(sequence, -1)
            row = tip
            while row >= lowest and row not in covered:
                covered.add(row)
                row = self.parents[row]
