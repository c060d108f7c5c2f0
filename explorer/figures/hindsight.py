"""Decodable since, committed at: for each position of a finished run, since when its final token had been the model's
top guess.

    lens = hindsight(trace)
    print(summary(lens))

Definitions, over the steps 0, 1, ... of one trace:

* The *final token* of a position is what its last commit wrote. A position may be written several times (re-masked,
  forced, rewritten): only the last commit counts, and only what was guessed after the write before it. Where that
  earlier write hid the position, its own step is looked at too, because an edit hides a position before the forward of
  the step that records it.
* The *top guess* for a position at a step is the first of its recorded candidates. A step without candidates for it
  says nothing and ends the look back: what may have been guessed before is not assumed.
* Where places are removed or inserted, a position is followed as it moves; what was removed is not looked at.
* A position is *decodable since* step s if its final token was the top guess at every step from s to the one that
  committed it. A guess that was right, then wrong, then right again counts from the last time it became right.
* A token is *replaced* where a write puts another one in its place; it is *restored* where it comes back.
* The *delay* is the number of model calls made after step s up to and including the step of the commit.
* *Enough* is the smallest number of model calls, counted from the start, after which every committed position either
  had been written for good or was decodable. A position whose start is not known counts from its commit, so nothing is
  claimed for it.

All this is an observation about this one run. It is no promise: a selector that had written earlier would have changed
every later guess."""

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate, pairwise
from typing import Literal

import msgspec

from engines import Step, Trace
from explorer.figures.calls import target_calls, target_role
from explorer.figures.history import History, history, moved

CAVEAT = "in hindsight of this run, not a promise: writing earlier would have changed the later guesses"
NOTHING = "nothing to show: no candidates were recorded for a position before the step that wrote it"


class Position(msgspec.Struct, frozen=True):
    """One committed position; steps are indices into `trace.steps`. known: "other" where it was not the top guess when
    written, "unknown" where that step has no candidates for it. delay: in model calls. earlier: the step before `since`
    has no candidates for it, so it may have been decodable already."""

    position: int
    committed: int
    known: Literal["since", "other", "unknown"]
    since: int | None = None
    delay: int | None = None
    earlier: bool = False


class Hindsight(msgspec.Struct, frozen=True):
    """What the lens shows. `looked_ahead`: some position had candidates before the step that wrote it; without that
    there is nothing to show."""

    positions: list[Position]
    never_committed: int
    forwards: int
    enough: int | None
    looked_ahead: bool
    replaced: int = 0  # writes that put another token in the place of one that stood
    restored: int = 0  # of these, those that put back a token which the position had held before

    @property
    def delays(self) -> list[int]:
        """Delays of the positions whose start is known."""
        return [position.delay for position in self.positions if position.delay is not None]

    @property
    def mean_delay(self) -> float | None:
        """In model calls; None where no start is known."""
        return sum(self.delays) / len(self.delays) if self.delays else None

    @property
    def max_delay(self) -> int | None:
        """In model calls; None where no start is known."""
        return max(self.delays, default=None)

    def columns(self) -> dict[str, object]:
        """As the player is handed it: a list for each field, of positions those that an odd thing is said of."""
        rows = self.positions
        lists = {name: [getattr(row, name) for row in rows] for name in ("committed", "since", "delay")}
        return {
            "positions": [row.position for row in rows],
            **lists,
            "earlier": [row.position for row in rows if row.earlier],
            "other": [row.position for row in rows if row.known == "other"],
            "never": self.never_committed,
            "forwards": self.forwards,
            "enough": self.enough,
            "mean": self.mean_delay,
            "max": self.max_delay,
            "replaced": self.replaced,
            "restored": self.restored,
        }


def hindsight(trace: Trace) -> Hindsight:
    """Look back over a trace."""
    tops = [top_guesses(step) for step in trace.steps]
    target = target_role(trace)
    used = list(accumulate(target_calls(step, target) for step in trace.steps))  # up to and including a step
    guessed: dict[int, list[int]] = {}  # cell -> steps with candidates for it
    positions, looked_ahead = [], False
    past, last = history(trace), len(trace.steps)
    if past.orders:
        tops = [_by_cell(step, past, top) for step, top in zip(trace.steps, tops, strict=True)]
    for number, top in enumerate(tops):
        for cell in top:
            guessed.setdefault(cell, []).append(number)
    replaced = restored = 0
    for cell, writes in past.writes.items():
        changes = [*replacements(trace, writes)]
        replaced, restored = replaced + len(changes), restored + sum(changes)
        (committed, token, _), position = writes[-1], past.place(cell, last)
        if hidden(trace, token) or position is None:
            continue
        start = first_step(trace, writes)
        since = committed + 1
        while since > start and tops[since - 1].get(cell) == token:
            since -= 1
        steps = guessed.get(cell, [])
        looked_ahead |= bisect_left(steps, start) < bisect_left(steps, committed)
        if since > committed:
            positions.append(Position(position, committed, "other" if cell in tops[committed] else "unknown"))
        else:
            earlier, delay = since > start and cell not in tops[since - 1], used[committed] - used[since]
            positions.append(Position(position, committed, "since", since, delay, earlier))
    rows, header = sorted(positions, key=lambda row: row.position), trace.header
    places = range(len(header.prompt_ids), past.widths[-1]) if header.canvas is not None else range(0)
    never = len({*places} - {row.position for row in rows})
    enough = max((used[row.committed if row.since is None else row.since] for row in rows), default=None)
    forwards = used[-1] if used else 0
    return Hindsight(rows, never, forwards, enough if looked_ahead else None, looked_ahead, replaced, restored)


def replacements(trace: Trace, writes: list[tuple[int, int, str]]) -> Iterator[bool]:
    """For each write of a position that replaced a token by another one: whether that one had stood there before."""
    held = [token for _, token, _ in writes]
    for i, (before, now) in enumerate(pairwise(held)):
        if before != now and not hidden(trace, before) and not hidden(trace, now):
            yield now in held[:i]


def top_guesses(step: Step) -> dict[int, int]:
    """Position -> first recorded candidate. Where a position is named twice, its first row counts."""
    group = step.candidates
    if group is None or 0 in group.tokens.shape:
        return {}
    tokens = group.tokens.array().reshape(len(group.positions), -1)[:, 0].tolist()
    return dict(zip(reversed(group.positions), reversed(tokens), strict=True))


def _by_cell(step: Step, past: History, top: dict[int, int]) -> dict[int, int]:
    places = ((moved(step, position), token) for position, token in top.items())
    return {past.cell(place, step.index + 1): token for place, token in places if place is not None}


def hidden(trace: Trace, token: int) -> bool:
    """Whether a position that holds this token is open: masked again or withdrawn."""
    return token < 0 or token == trace.header.mask_id


def first_step(trace: Trace, writes: list[tuple[int, int, str]]) -> int:
    """The first step at which a guess for the last commit of these writes may count."""
    if len(writes) < 2:
        return 0
    (before, token, _), (committed, *_) = writes[-2:]
    return before if hidden(trace, token) else min(before + 1, committed)


def summary(lens: Hindsight) -> str:
    """One sentence for the terminal."""
    if lens.enough is None:
        return NOTHING
    sentence = (
        f"{lens.enough} of {lens.forwards} model calls until every final token was written, or was the top guess and "
        "stayed it"
    )
    if lens.mean_delay is not None:
        sentence += f"; written {lens.mean_delay:.1f} model calls later on average, {lens.max_delay} at most"
    return f"{sentence} ({coverage(lens)}; {CAVEAT})"


def coverage(lens: Hindsight) -> str:
    """Over which positions the figures hold, and what was left out."""
    count = {kind: sum(position.known == kind for position in lens.positions) for kind in ("since", "other", "unknown")}
    parts = [f"start known for {count['since']} of {len(lens.positions)} written positions"]
    if n := sum(position.earlier for position in lens.positions):
        parts.append(f"for {n} of them perhaps earlier, no candidates before")
    if n := count["other"]:
        parts.append(f"{n} not the top guess when written")
    if n := count["unknown"]:
        parts.append(f"{n} without candidates when written")
    if lens.replaced:
        parts.append(f"{lens.replaced} replaced, {lens.restored} of them by a token that had stood there before")
    if n := lens.never_committed:
        parts.append(f"{n} never written and left out")
    return ", ".join(parts)
