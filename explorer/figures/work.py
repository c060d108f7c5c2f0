"""When the models of a run computed, on the run's own clock: rows for one picture of several runs, and how much of it
went on at the same time.

    done = work(trace)
    print(done.busy("draft"), done.busy("target"), done.shared)

The calls of a step stand where the step lies on the clock of model and method seconds, the first one at its beginning:
what passes between two steps is recording and sending, which no second of a run counts. Only measured calls of a step
are taken: none that was made behind it, for the record alone, and no part of a call ("target: G") as one of its own."""

from collections.abc import Iterable
from itertools import chain
from typing import NamedTuple

from engines import Header, Step, Trace

Spell = tuple[float, float]
AT_ONCE = "at once"  # beside the tracks of a step


class Work(NamedTuple):
    """Spells [from, to) in seconds by lane; `seconds`: where the run ends on the same clock; at_once: when two lanes or
    more computed."""

    rows: dict[str, list[Spell]]
    seconds: float
    at_once: list[Spell]

    def busy(self, track: str) -> float:
        """Seconds in which this lane computed."""
        return _sum(self.rows[track])

    @property
    def any(self) -> float:
        """Seconds in which one lane or more computed."""
        return _sum(lasting(chain(*self.rows.values()), 1))

    @property
    def shared(self) -> float:
        """Seconds in which two lanes or more computed."""
        return _sum(self.at_once)


def work(trace: Trace) -> Work:
    """The measured calls of a run; no rows where it has none or where its seconds were not recorded."""
    rows: dict[str, list[Spell]] = {}
    at = 0.0
    for step in trace.steps if timed(trace.header) else ():
        for track, spells in of_step(step, at).items():
            rows.setdefault(track, []).extend(spells)
        at += step.model_seconds + step.method_seconds
    once = rows.pop(AT_ONCE, [])
    return Work({track: lasting(row, 1) for track, row in rows.items()}, at, lasting(once, 1))


def timed(header: Header) -> bool:
    """Whether the seconds of a run were recorded."""
    return not {"model_seconds", "method_seconds"} & set(header.missing)


def of_step(step: Step, at: float) -> dict[str, list[Spell]]:
    """Lane -> spells of a step that begins at this second of the run's clock; under `AT_ONCE` when two of them
    computed."""
    calls = [call for call in step.intervals if call.measured and call.unit == "seconds"]
    mine: dict[str, list[Spell]] = {}
    lasts, tracks = step.model_seconds + step.method_seconds, {call.track for call in calls}
    shift = at - min((call.start for call in calls), default=at)
    for call in calls:
        if call.start + shift >= at + lasts or call.about.get("part_of") in tracks:
            continue  # made behind the step, for the record alone; or a part of another track's call
        mine.setdefault(call.track, []).append((call.start + shift, call.end + shift))
    rows = {track: lasting(spells, 1) for track, spells in mine.items()}
    once = lasting(chain(*rows.values()), 2)
    return rows | ({AT_ONCE: once} if once else {})


def lasting(spells: Iterable[Spell], least: int) -> list[Spell]:
    """When at least so many of the spells last: spells that do not touch, from early to late."""
    merged: list[Spell] = []
    running = 0
    for at, change in sorted(
        (edge for start, end in spells for edge in ((start, 1), (end, -1))), key=lambda edge: (edge[0], -edge[1])
    ):
        if running >= least:
            merged[-1] = (merged[-1][0], at)
        running += change
        if change > 0 and running == least:
            merged.append((at, at))
    return [spell for spell in merged if spell[1] > spell[0]]


def _sum(spells: Iterable[Spell]) -> float:
    return sum(end - start for start, end in spells)
