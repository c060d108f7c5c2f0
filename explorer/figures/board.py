"""The board of a trace after every step: what the commits so far have left standing. A negative token takes away its
position and all behind it; removed and inserted positions move what stands behind them. Where a token was drawn at
random, as noise that a model is to make a text of, nothing is written yet.

A *cell* is a place that keeps its number while others go and come in front of it. In a run that moves nothing, which is
nearly every one, a cell's number is its position."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush

from engines import Step, Trace

Board = list[int | None]
REMOVED = "removed"  # the cause of a write that takes a single cell away
RANDOM = frozenset({"noise", "renoised"})  # causes of tokens that were drawn at random
DRAWN = -2  # stands for such a token in `History.writes`


@dataclass
class History:
    """What was written where. writes: cell -> its writes (step, token, cause) in order; -1 is a write to each cell that
    is taken away, DRAWN one of noise. widths: of the board before the first step and after each one.
    orders: for each step that moved cells, (steps done, the cells from left to right since). inserted: cell -> the step
    that put it in, where nothing was before."""

    writes: dict[int, list[tuple[int, int, str]]] = field(default_factory=dict)
    widths: list[int] = field(default_factory=list)
    orders: list[tuple[int, list[int]]] = field(default_factory=list)
    inserted: dict[int, int] = field(default_factory=dict)
    _places: dict[int, dict[int, int]] = field(default_factory=dict)

    def _order(self, t: int) -> int:
        return bisect_right(self.orders, t, key=lambda order: order[0]) - 1

    def cell(self, position: int, t: int) -> int:
        """The cell at a position of the board after t steps, which may come there only later; -1 where none does."""
        at = self._order(t)
        if at < 0:
            return position
        cells = self.orders[at][1]
        return cells[position] if position < len(cells) else -1

    def place(self, cell: int, t: int) -> int | None:
        """Where a cell is on the board after t steps; None where it is not there."""
        at = self._order(t)
        if at < 0:
            return cell if cell < self.widths[t] else None
        if at not in self._places:
            self._places[at] = {cell: position for position, cell in enumerate(self.orders[at][1])}
        position = self._places[at].get(cell)
        return position if position is not None and position < self.widths[t] else None

    def last(self, position: int) -> tuple[int, int, str] | None:
        """The write that stands at a position in the end."""
        if not 0 <= position < self.widths[-1]:
            return None
        written = self.writes.get(self.cell(position, len(self.widths) - 1))
        return written[-1] if written else None


def history(trace: Trace) -> History:
    """All writes of a trace."""
    header, found = trace.header, History()
    width = header.canvas if header.canvas is not None else len(header.prompt_ids)
    fresh = most = width  # no cell that a board of the run had has this number, or a higher one
    found.widths.append(width)
    for number, step in enumerate(trace.steps):
        commits = step.commits
        if commits and commits.moves:
            order = found.orders[-1][1][:width] if found.orders else [*range(width)]
            fresh, before = max(fresh, most), order[:]
            numbers = iter(range(fresh, fresh + len(commits.inserted)))
            commits.shift(order, lambda: next(numbers))
            found.inserted.update(dict.fromkeys(range(fresh, fresh := fresh + len(commits.inserted)), number))
            for position in commits.removed:
                found.writes.setdefault(before[position], []).append((number, -1, REMOVED))
            found.orders.append((number + 1, order))
            width = len(order)
        cells = found.orders[-1][1] if found.orders else None
        written = zip(commits.positions, commits.tokens, commits.causes, strict=True) if commits else ()
        for position, token, cause in written:
            if cells is not None and position >= len(cells):
                grown = position + 1 - len(cells)
                cells.extend(range(fresh, fresh + grown))
                fresh += grown
            for place in range(position, width) if token < 0 else (position,):
                cell = place if cells is None else cells[place]
                found.writes.setdefault(cell, []).append((number, DRAWN if cause in RANDOM else token, cause))
            width = min(width, position) if token < 0 else max(width, position + 1)
        most = max(most, width)
        found.widths.append(width)
    return found


def moved(step: Step, position: int) -> int | None:
    """Where a position that a score or a candidate of a step names, which is one of the board that the step found, is
    on the board that it leaves; None where the step removed it."""
    return step.commits.moved(position) if step.commits and step.commits.moves else position


def boards(trace: Trace) -> Iterator[Board]:
    """The board before the first step, then after each one: token ids, prompt included, None where nothing stands. One
    list, changed in place."""
    header = trace.header
    board: Board = [*header.prompt_ids]
    board += [None] * ((header.canvas or 0) - len(board))
    yield board
    for step in trace.steps:
        if step.commits:
            step.commits.shift(board, lambda: None)
        for position, token in _written(step):
            if token is not None and token < 0:
                del board[position:]
            else:
                board += [None] * (position + 1 - len(board))
                board[position] = None if token == header.mask_id else token
        yield board


def _written(step: Step) -> Iterable[tuple[int, int | None]]:
    if not step.commits:
        return ()
    told = zip(step.commits.positions, step.commits.tokens, step.commits.causes, strict=True)
    return ((position, None if cause in RANDOM else token) for position, token, cause in told)


def gained(trace: Trace, answer: Iterable[int | None]) -> int:
    """Tokens of an answer as `Totals` counts them: ids before the first end mark, open places left out."""
    ends, n = set(trace.header.eos_ids), 0
    for token in answer:
        if token in ends:
            break
        n += token is not None
    return n


def growth(trace: Trace) -> Iterator[int]:
    """What `gained` says of the answer before the first step, then after each one, in time linear in the writes, and in
    the board where it moves, but for a logarithm: a board that is counted anew after each step would cost steps times
    positions."""
    header, start = trace.header, len(trace.header.prompt_ids)
    ends, stops = set(header.eos_ids), list[int]()  # stops: a heap of places that held an end mark once
    places = [position for step in trace.steps for position, _ in _written(step)]
    board: Board = [None] * (max(header.canvas or 0, start) - start)
    most = max([(header.canvas or 0) - 1, *places], default=-1) + 1 - start
    filled = Sums(most)
    yield 0
    for step in trace.steps:
        if step.commits and step.commits.moves:
            board[:0] = [None] * start
            step.commits.shift(board, lambda: None)
            del board[:start]
            filled = Sums(max(most, len(board)))
            for at, token in enumerate(board):
                filled.add(at, token is not None)
            stops = [at for at, token in enumerate(board) if token in ends]  # rising, so a heap
        for position, token in _written(step):
            at, gone = position - start, token is not None and token < 0
            for place in range(max(at, 0), len(board)) if gone else [at] if 0 <= at < len(board) else []:
                filled.add(place, -(board[place] is not None))
            if gone:
                del board[max(at, 0) :]
            elif at >= 0:
                board += [None] * (at + 1 - len(board))
                board[at] = None if token == header.mask_id else token
                filled.add(at, board[at] is not None)
                if token in ends:
                    heappush(stops, at)
        while stops and (stops[0] >= len(board) or board[stops[0]] not in ends):
            heappop(stops)
        yield filled.below(stops[0] if stops else len(board))


class Sums:
    """Counts at places 0 to n - 1 whose sums from the first place on are kept (a Fenwick tree): each call takes the
    logarithm of n."""

    def __init__(self, n: int) -> None:
        self._sums = [0] * (max(n, 0) + 1)

    def add(self, place: int, count: int) -> None:
        """So many more at a place."""
        at = place + 1
        while count and at < len(self._sums):
            self._sums[at] += count
            at += at & -at

    def below(self, place: int) -> int:
        """The sum of the places in front of this one."""
        total = 0
        while place > 0:
            total += self._sums[place]
            place -= place & -place
        return total
