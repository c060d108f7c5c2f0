"""The board of a trace after every step: what the commits so far have left standing. A negative token takes away its
position and all behind it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush

from engines import Trace

Board = list[int | None]
Writes = dict[int, list[tuple[int, int, str]]]  # position -> its writes (step, token, cause) in order


def history(trace: Trace) -> tuple[Writes, list[int]]:
    """All writes, and the board's width before the first step and after each one. A negative token is a write at each
    position that it takes away."""
    header, writes = trace.header, Writes()
    widths = [header.canvas if header.canvas is not None else len(header.prompt_ids)]
    for number, step in enumerate(trace.steps):
        width, commits = widths[-1], step.commits
        written = zip(commits.positions, commits.tokens, commits.causes, strict=True) if commits else ()
        for position, token, cause in written:
            for place in range(position, width) if token < 0 else (position,):
                writes.setdefault(place, []).append((number, token, cause))
            width = min(width, position) if token < 0 else max(width, position + 1)
        widths.append(width)
    return writes, widths


def boards(trace: Trace) -> Iterator[Board]:
    """The board before the first step, then after each one: token ids, prompt included, None where nothing stands. One
    list, changed in place."""
    header = trace.header
    board: Board = [*header.prompt_ids]
    board += [None] * ((header.canvas or 0) - len(board))
    yield board
    for step in trace.steps:
        for position, token in zip(step.commits.positions, step.commits.tokens, strict=True) if step.commits else ():
            if token < 0:
                del board[position:]
            else:
                board += [None] * (position + 1 - len(board))
                board[position] = None if token == header.mask_id else token
        yield board


def gained(trace: Trace, answer: Iterable[int | None]) -> int:
    """Tokens of an answer as `Totals` counts them: ids before the first end mark, open places left out."""
    ends, n = set(trace.header.eos_ids), 0
    for token in answer:
        if token in ends:
            break
        n += token is not None
    return n


def growth(trace: Trace) -> Iterator[int]:
    """What `gained` says of the answer before the first step, then after each one, in time linear in the writes but for
    a logarithm: a board that is counted anew after each step would cost steps times positions."""
    header, start = trace.header, len(trace.header.prompt_ids)
    ends, stops = set(header.eos_ids), list[int]()  # stops: a heap of places that held an end mark once
    places = [position for step in trace.steps if step.commits for position in step.commits.positions]
    board: Board = []
    filled = Sums(max([(header.canvas or 0) - 1, *places], default=-1) + 1 - start)
    yield 0
    for step in trace.steps:
        for position, token in zip(step.commits.positions, step.commits.tokens, strict=True) if step.commits else ():
            at, gone = position - start, token < 0
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
