"""Going on from a loop that was watched (`engines.watching`): it has no engine that could repeat it, but its board is
known after every step, and a method can take over from there."""

import hashlib
from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from engines.core.errors import UserError
from engines.core.kinds import Model
from engines.core.method import Method, MethodInfo
from engines.core.params import LENGTH
from engines.core.registry import list_methods
from engines.core.trace import WATCHED, Edit, Origin, Step, TimedEdit, Trace
from engines.core.validation import parameters
from engines.driver.run import Run
from engines.driver.takeover import BoundMethod, announce

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


def board_after(trace: Trace, step: int) -> list[int]:
    """The board after `step` steps, the prompt included: of a masked run whole, of another one the text so far. What
    the loop was given behind the prompt, and did not write, stands there from the beginning."""
    header = trace.header
    blank = header.mask_id or 0
    board = list(header.prompt_ids)
    board += [blank] * ((header.canvas or 0) - len(board))
    for watched in trace.steps[:step]:
        if watched.commits:
            watched.commits.onto(board, blank)
    first = trace.steps[0].commits if step == 0 and trace.steps else None
    for position, token, cause in zip(first.positions, first.tokens, first.causes, strict=True) if first else ():
        if cause == "constraint":
            board[position : position + 1] = [token]
    return board


class FromBoard(Run):
    """A run that a method takes over from the board of a watched loop after `step` of its steps. Those stand before its
    own, as they were recorded, with what they cost; nothing is run again. Raises UserError."""

    def __init__(
        self, trace: Trace, step: int, change: Edit, method: Method, models: Mapping[str, Model], **options: Any
    ) -> None:
        h, info, board = trace.header, method.info, board_after(trace, step)
        given = dict(change.params)
        if h.canvas is not None:
            given[LENGTH] = h.canvas - len(h.prompt_ids)
        else:
            declared = next(p.default for p in info.params if p.name == LENGTH)
            given[LENGTH] = max(int(given.get(LENGTH, declared)), len(board) - len(h.prompt_ids) + ROOM)
        super().__init__(method, models, h.prompt_ids, params=given, **options)
        self._given = [_renamed(watched, h.models[0].role, info.role) for watched in trace.steps[:step]]
        spans = (span for before in reversed(trace.steps[:step]) for span in before.spans if span.kind == "canvas")
        canvas = next((span.end - span.start for span in spans), 0)  # of noise, that the board ends with
        self._recorder.follow(board, step, trace.pieces, (models[info.role].vocab_size, canvas))
        changed = {name: value for name, value in given.items() if name != LENGTH}  # the length is no edit
        edit = msgspec.structs.replace(change, method=info.slug, params=changed)
        self._check(edit)
        after = BoundMethod(method, models, parameters(method, given))
        self._head(trace, step, edit)
        announce(self.header, after)
        self._take_over(edit, after)

    def _head(self, trace: Trace, step: int, edit: Edit) -> None:
        """The header of the watched loop, before the method that takes over is announced."""
        h, own = trace.header, self.header
        own.method, own.family, own.prompt, own.title = h.method, h.family, h.prompt, h.title
        own.lossless, own.missing, own.emits = False, list(h.missing), list(h.emits)
        own.records = dict(h.records)
        own.departures, own.own, own.parts = h.departures, h.own, []
        own.edits.append(TimedEdit(step - 1, edit))
        own.origin = Origin(digest(trace), step, h.method, h.title, edit)

    def __next__(self) -> Step:
        if self._given:
            self.steps.append(self._given.pop(0))
            return self.steps[-1]
        return super().__next__()


def _renamed(step: Step, old: str, new: str) -> Step:
    """A step whose calls of the deciding model stand under the role that the method gives it."""
    forwards = {new if role == old else role: n for role, n in step.forwards.items()}
    work = {new if role == old else role: n for role, n in step.work.items()}
    return msgspec.structs.replace(step, forwards=forwards, work=work)


def digest(trace: Trace) -> str:
    """What a fork calls its parent: the sha256 of its JSON."""
    return hashlib.sha256(trace.to_json().encode()).hexdigest()
