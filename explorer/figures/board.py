"""The board of a trace after every step: what the commits so far have left standing. A negative token takes away its
position and all behind it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from engines import Trace

Board = list[int | None]


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
