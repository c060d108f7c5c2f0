"""Going on from a loop that was watched (`engines.watching`): it has no engine that could repeat it, but its board is
known after every step, and a method can take over from there."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from engines.core.errors import UserError
from engines.core.method import MethodInfo
from engines.core.params import LENGTH
from engines.core.registry import get_method, list_methods
from engines.core.trace import WATCHED, Edit, Trace

ROOM = 48  # tokens that a left-to-right method may write behind the text, where nothing else is said


def forking_method(trace: Trace, method: str = "") -> str:
    """The method that a fork of this trace begins with: its own, or, for a watched loop, the one that takes over.
    Raises UserError, with the nearest method, for a watched loop where none is named."""
    if trace.header.method != WATCHED or method:
        return method if trace.header.method == WATCHED else trace.header.method
    near = nearest_method(trace)
    offer = f"method='{near.slug}' ({near.title}) is the nearest" if near else "none here is for such models"
    raise UserError(
        "this run was watched in a loop that has no engine here, so it cannot go on by itself; let a method take over "
        f"from its board: {offer}."
    )


def nearest_method(trace: Trace) -> MethodInfo | None:
    """The method that does most nearly what a watched loop was seen to do, among those that need one model of that kind
    and nothing else: with a draft tree one that drafts, with as many tokens in every step the one that most others are
    measured against, else one with a line that decides. None where no method fits."""
    kind = trace.header.models[0].kind
    fitting = [i for i in list_methods() if i.kind == kind and len(i.needs) == 1 and not i.parts]
    times = Counter(i.baseline for i in list_methods())
    fitting.sort(key=lambda i: -times[i.slug])
    if any(step.tree for step in trace.steps):
        nearest = [i for i in fitting if "tree" in i.emits and i.lossless]
    else:
        counts = {len(step.commits.positions) for step in trace.steps[:-1] if step.commits}
        nearest = [i for i in fitting if (i.baseline is None if len(counts) < 2 else i.curve)]
    return next(iter([*nearest, *fitting]), None)


def board_after(trace: Trace, step: int) -> dict[int, int]:
    """Position -> token of what stands behind the prompt after `step` steps; masks are left out. What the loop was
    given, and did not write, stands there from the beginning."""
    start, board = len(trace.header.prompt_ids), dict[int, int]()
    for number, one in enumerate(trace.steps[: max(step, 1)]):
        commits = one.commits
        written = zip(commits.positions, commits.tokens, commits.causes, strict=True) if commits else ()
        for position, token, cause in written:
            if number >= step and cause != "constraint":
                continue
            if token < 0:
                board = {place: held for place, held in board.items() if place < position}
            elif token == trace.header.mask_id:
                board.pop(position, None)
            else:
                board[position] = token
    return {place: token for place, token in board.items() if place >= start}


def taken_over(trace: Trace, step: int, change: Edit, slug: str) -> tuple[dict[str, Any], Edit]:
    """The parameters and the edit before its first step with which a method takes over from the board after `step`
    steps, changed as a person asked. Raises UserError."""
    board = {**board_after(trace, step), **change.force}
    for position in change.remask:
        board.pop(position, None)
    start, given = len(trace.header.prompt_ids), dict(change.params)
    info = get_method(slug).info
    if trace.header.canvas is not None:
        given[LENGTH] = trace.header.canvas - start
    else:
        declared = next(p.default for p in info.params if p.name == LENGTH)
        given[LENGTH] = max(int(given.get(LENGTH, declared)), len(board) + ROOM)
    return given, msgspec.structs.replace(change, force=board, remask=[], params={}, method="")
