"""The board of a trace after every step: what the commits so far have left standing. A negative token takes away its
position and all behind it; removed and inserted positions move what stands behind them. Where a token was drawn at
random, as noise that a model is to make a text of, nothing is written yet.

A *cell* is a place that keeps its number while others go and come in front of it. In a run that moves nothing, which is
nearly every one, a cell's number is its position."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count

from engines import Commits, Header, Step, Trace

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
        writes = self.writes.get(self.cell(position, len(self.widths) - 1))
        return writes[-1] if writes else None


def history(trace: Trace) -> History:
    """All writes of a trace."""
    header, past = trace.header, History()
    cells = [*range(header.canvas if header.canvas is not None else len(header.prompt_ids))]
    order, fresh = [*cells], count(len(cells))  # order: also cells behind a cut, which come back where the text grows

    def behind() -> int:
        if len(order) == len(cells):
            order.append(next(fresh))
        return order[len(cells)]

    past.widths.append(len(cells))
    for number, step in enumerate(trace.steps):
        commits = step.commits
        if commits and commits.moves:
            for position in commits.removed:
                past.writes.setdefault(cells[position], []).append((number, -1, REMOVED))
            commits.shift(cells, fresh.__next__)
            past.inserted.update((cells[position], number) for position in commits.inserted)
            past.orders.append((number + 1, order := [*cells]))
        for i, position in commits.writes(cells, behind) if commits else ():
            assert commits
            token, cause = commits.tokens[i], commits.causes[i]
            past.writes.setdefault(cells[position], []).append((number, DRAWN if cause in RANDOM else token, cause))
        past.widths.append(len(cells))
    return past


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
            for i, position in step.commits.writes(board, lambda: None):
                board[position] = standing(trace.header, step.commits, i)
        yield board


def standing(header: Header, commits: Commits, i: int) -> int | None:
    """What the i-th token of commits leaves on the board: None where that is a mask, or drawn at random."""
    token = commits.tokens[i]
    return None if commits.causes[i] in RANDOM or token == header.mask_id else token


def gained(trace: Trace, answer: Iterable[int | None]) -> int:
    """Tokens of an answer as `Totals` counts them: ids before the first end mark, open places left out."""
    ends, n = set(trace.header.eos_ids), 0
    for token in answer:
        if token in ends:
            break
        n += token is not None
    return n


def growth(trace: Trace) -> list[int]:
    """What `gained` says of the answer before the first step, then after each one."""
    tally = Tally(trace.header)
    grown = [0]
    for step in trace.steps:
        tally.write(step.commits)
        grown.append(tally.count(TOKENS))
    return grown


TOKENS = "tokens"


class Tally:
    """Counts over an answer while it is written, each in time linear in the writes, and in the board where it moves,
    but for a logarithm: a board that is counted anew after each step would cost steps times positions."""

    def __init__(self, header: Header) -> None:
        self._header, self._start = header, len(header.prompt_ids)
        self._ends, self._stops = set(header.eos_ids), list[int]()  # stops: a heap of places that held an end mark once
        self._board: list[tuple[int | None, Sequence[str]]] = [(None, ())] * max(header.canvas or 0, self._start)
        self._sums: dict[str, Sums] = defaultdict(Sums)

    def write(
        self, commits: Commits | None, kinds: Callable[[Commits, int], Sequence[str]] = lambda commits, i: ()
    ) -> None:
        """A step's commits. kinds: what the i-th token is counted as beside `TOKENS`, as long as it stands."""
        if not commits:
            return
        if commits.moves:
            commits.shift(self._board, lambda: (None, ()))
            self._sums.clear()
            for position in range(self._start, len(self._board)):
                self._add(position, 1)
            self._stops = [at for at, (token, _) in enumerate(self._board) if token in self._ends]  # rising: a heap
        for i, position in commits.writes(self._board, lambda: (None, ())):
            self._add(position, -1)
            token = standing(self._header, commits, i)
            self._board[position] = (None, ()) if token is None or token < 0 else (token, kinds(commits, i))
            self._add(position, 1)
            if token in self._ends:
                heappush(self._stops, position)

    def _add(self, position: int, n: int) -> None:
        token, kinds = self._board[position]
        if token is not None and position >= self._start:
            for kind in (TOKENS, *kinds):
                self._sums[kind].add(position - self._start, n)

    @property
    def end(self) -> int | None:
        """The place in the answer of its first end mark."""
        stops = self._stops
        while stops and (stops[0] >= len(self._board) or self._board[stops[0]][0] not in self._ends):
            heappop(stops)
        return stops[0] - self._start if stops else None

    @property
    def width(self) -> int:
        """Places of the answer."""
        return len(self._board) - self._start

    def count(self, kind: str, all_of_it: bool = False) -> int:
        """Tokens of a kind in front of the first end mark, or on the whole board."""
        end = self.end
        return self._sums[kind].below(self.width if all_of_it or end is None else end)


class Sums:
    """Counts at places 0, 1, ... whose sums from the first place on are kept (a Fenwick tree): each call takes the
    logarithm of the places."""

    def __init__(self) -> None:
        self._sums = [0, 0]

    def add(self, place: int, count: int) -> None:
        """So many more at a place."""
        while place + 1 >= len(self._sums):  # twice the room: the new half's root is the sum of all before it
            self._sums += [0] * (len(self._sums) - 2) + [self.below(len(self._sums) - 1)]
        at = place + 1
        while at < len(self._sums):
            self._sums[at] += count
            at += at & -at

    def below(self, place: int) -> int:
        """The sum of the places in front of this one."""
        total, place = 0, min(place, len(self._sums) - 1)
        while place > 0:
            total += self._sums[place]
            place -= place & -place
        return total
