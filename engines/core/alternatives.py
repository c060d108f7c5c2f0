"""What a method would have decided with other values of what a slider of its picture moves.

The type of a record declares it by a method `alternatives(run)`, which asks the method's own rule at each stop, of the
last of `run.steps`. The picture looks its answer up, so that no rule is written twice."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import msgspec

from engines.core.registry import registry
from engines.core.trace import Header, Record, Step, Trace, TraceError

SECONDS = 5.0  # of the processor; the dearest recorded run takes 0.2


class Stops(msgspec.Struct):
    """answers[i] holds from the value stops[i] on, up to the next stop."""

    stops: list[float]
    answers: list[Any]

    @classmethod
    def over(cls, values: Iterable[float], ask: Callable[[float], Any]) -> Stops:
        """What is answered at rising values, where it changes."""
        made = cls([], [])
        for value in values:
            answer = ask(value)
            if not made.answers or answer != made.answers[-1]:
                made.stops.append(value)
                made.answers.append(answer)
        return made


def slider(least: float, most: float, step: float, recorded: float) -> list[float]:
    """The values of a slider, and the recorded one between them."""
    return sorted({recorded, *(round(least + i * step, 6) for i in range(round((most - least) / step) + 1))})


class Alternatives:
    """The alternatives of a run's records, asked step by step, and no longer once that has taken SECONDS: a trace may
    come from anyone. steps: all so far; kept: what a type keeps from one step to the next, by names of its own."""

    def __init__(self, header: Header) -> None:
        self.header, self.steps, self.kept = header, list[Step](), dict[str, Any]()
        self._left = SECONDS

    def of(self, step: Step) -> dict[str, dict[str, Stops]]:
        """Of the next step: record -> what its picture moves -> the answers. A record of another form than its type has
        today answers nothing."""
        self.steps.append(step)
        began = time.thread_time()
        stops = {name: self._ask(name) for name in step.records} if self._left > 0 else {}
        self._left -= time.thread_time() - began
        return {name: answers for name, answers in stops.items() if answers}

    def _ask(self, name: str) -> dict[str, Stops]:
        kind = _type(self.header.method, name)
        try:
            record: Any = kind and self.steps[-1].record(name, kind)
            return record.alternatives(self) if hasattr(record, "alternatives") else {}
        except (TraceError, ValueError, TypeError, LookupError, ArithmeticError):  # lists that do not fit each other
            return {}


def _type(slug: str, name: str) -> type[Record] | None:
    """The type of a record: its method's, else that of another one, which may have taken over or been watched."""
    methods = registry().methods
    declared = [methods[slug].info.records] if slug in methods else []
    declared += [method.info.records for method in methods.values()]
    return next((records[name] for records in declared if name in records), None)


def texts_beside(trace: Trace) -> tuple[list[int], list[str]]:
    """What is said beside a run's text, which a picture marks as right or wrong: the tokens of one that its records go
    on with from step to step, and the answers of others. The type of a record declares it by a method `beside()`."""
    tokens, answers = list[int](), list[str]()
    for name in dict.fromkeys(name for step in trace.steps for name in step.records):
        kind: Any = _type(trace.header.method, name)
        for step in trace.steps if hasattr(kind, "beside") else ():
            with suppress(TraceError):  # of another form than its type has today
                if record := step.record(name, kind):
                    more, others = record.beside()
                    tokens += more
                    answers += others
    return tokens, answers
