"""A sweep under way: runs its cells in a fixed order, reuses those that are finished, keeps to its budget, and adds up
points. One for page and command."""

import re
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import engines
from engines import MethodInfo, Param, UserError
from engines.tasks import TASKS
from explorer.bench.cells import Cell, Kept, Outcome, cells, keys
from explorer.bench.quality import Point, Setting, declared
from explorer.fitting import fits, wants

MAX_VALUES = 24
RANGE = re.compile(r"\s*([^:,]+):([^:,]+):(\d{1,4})\s*")
# yields in the order of the cells; ends early where it is stopped
Decode = Callable[[Sequence[Cell]], Generator[Outcome, None, None]]


@dataclass
class Sweep:
    """What was asked and what is known so far. outcomes: cell number -> outcome. reused: how many of them were finished
    before."""

    model: Any
    settings: list[Setting]
    tasks: list[str]
    prompts: int
    seed: int = 0
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    reused: int = 0
    fresh: int = 0

    def __post_init__(self) -> None:
        self.cells = cells(self.settings, self.tasks, self.prompts, self.seed, self.model)
        self._began: float | None = None

    @property
    def total(self) -> int:
        """Runs in all."""
        return len(self.cells)

    @property
    def left(self) -> int:
        """Runs that have no outcome."""
        return self.total - len(self.outcomes)

    def run(
        self, decode: Decode, kept: Kept | None, *, resume: bool = True, max_runs: int | None = None
    ) -> Iterator[tuple[int, Outcome]]:
        """Take what is finished, then run the rest and yield (cell number, outcome) in the order of the cells; ends
        where `decode` does.

        kept: where finished cells are and go; resume: whether those that are there are taken. max_runs: of those that
        are run now."""
        names = keys(self.cells, self.model) if kept else [None] * self.total
        if kept and resume:
            self.outcomes |= {i: saved for i, name in enumerate(names) if name and (saved := kept.get(name))}
        self.reused = len(self.outcomes)
        new = [i for i in range(self.total) if i not in self.outcomes][:max_runs]
        self._began = time.monotonic()
        with closing(decode([self.cells[i] for i in new])) as running:
            for i, outcome in zip(new, running, strict=False):
                self.fresh += 1
                self.outcomes[i] = outcome
                if kept and (name := names[i]) and not outcome.refused:
                    kept.put(name, outcome)
                yield i, outcome

    def seconds_left(self) -> float | None:
        """By the pace of the runs so far; None before the first."""
        if not self.fresh or self._began is None:
            return None
        return (time.monotonic() - self._began) / self.fresh * self.left

    @property
    def refused(self) -> dict[str, str]:
        """Settings that could not run, with the first reason."""
        reasons: dict[str, str] = {}
        for i, outcome in sorted(self.outcomes.items()):
            if outcome.refused:
                reasons.setdefault(self.settings[self.cells[i].setting].label, outcome.refused)
        return reasons

    def points(self) -> dict[int, Point]:
        """Setting number -> point, over the prompts that every setting which could run has finished; nothing before the
        first of them."""
        bad = {self.cells[i].setting for i, outcome in self.outcomes.items() if outcome.refused}
        good = [n for n in range(len(self.settings)) if n not in bad]
        width = len(self.settings)
        rounds = [at for at in range(0, self.total, width) if all(at + n in self.outcomes for n in good)]
        return {n: self._point(n, [at + n for at in rounds]) for n in good} if rounds else {}

    def _point(self, n: int, numbers: Sequence[int]) -> Point:
        exact: dict[str, tuple[int, int]] = {}
        for i in numbers:
            right, tried = exact.get(self.cells[i].task, (0, 0))
            exact[self.cells[i].task] = (right + self.outcomes[i].right, tried + 1)
        outcomes = [self.outcomes[i] for i in numbers]
        forwards, fed, tokens = (sum(getattr(o, name) for o in outcomes) for name in ("forwards", "fed", "tokens"))
        n_runs, rate = len(outcomes), tokens / max(1, forwards)
        method, params, on_curve, control = self.settings[n]
        return Point(method, params, exact, forwards / n_runs, fed / n_runs, rate, on_curve, control)

    def prompts_of(self, n: int) -> list[int]:
        """The finished cells of a setting, those that were answered wrong first."""
        numbers = [i for i in self.outcomes if self.cells[i].setting == n and not self.outcomes[i].refused]
        return sorted(numbers, key=lambda i: (self.outcomes[i].right, i))


def values_of(param: Param, text: str) -> list[Any]:
    """'0.5:1:6' (six values from 0.5 to 1) or '0.5, 0.7' as checked values, each once. Raises UserError."""
    match = RANGE.fullmatch(text)
    made = (
        _between(param, match[1], match[2], int(match[3]))
        if match
        else [part.strip() for part in text.split(",") if part.strip()]
    )
    if not made:
        raise UserError(
            f"there are no values for {param.name}; write a list such as 0.5,0.7 or a range FROM:TO:COUNT; "
            f"{param.allowed()}."
        )
    values = list(dict.fromkeys(param.check(value) for value in made))
    if len(values) > MAX_VALUES:
        raise UserError(f"{param.name} has {len(values)} values; at most {MAX_VALUES} are taken in one sweep.")
    return values


def _between(param: Param, low: str, high: str, count: int) -> list[Any]:
    if param.kind not in ("int", "float"):
        raise UserError(f"{param.name} is not a number and has no range; write a list; {param.allowed()}.")
    a, b = float(param.check(low)), float(param.check(high))
    if not 1 <= count <= MAX_VALUES:
        raise UserError(f"{param.name} is asked for at {count} values; give 1 to {MAX_VALUES}.")
    values = [a + (b - a) * i / max(1, count - 1) for i in range(count)]
    return [round(x) for x in values] if param.kind == "int" else [round(x, 6) for x in values]


def parameter(slugs: Sequence[str], name: str) -> Param:
    """The declaration of a parameter in the first of these methods that has it. Raises UserError."""
    infos = [engines.get_method(slug).info for slug in slugs]
    declared(infos, [name])
    return next(p for info in infos for p in info.params if p.name == name)


def runnable(kind: str, model: str, models: Sequence[Any] | None = None) -> list[MethodInfo]:
    """Methods that this model can run: a listed one as `fits` says, another one those of its kind that need nothing
    beside it. models: the listed ones where they were listed already, since that reads files."""
    about = next((m for m in (engines.list_models() if models is None else models) if m.name == model), None)
    return [
        info
        for info in engines.list_methods()
        if (fits(info, about) if about else info.needs[info.role] == kind and not wants(info))
    ]


def check_tasks(tasks: Sequence[str]) -> list[str]:
    """The tasks, each once. Raises UserError for one that is not known, or none."""
    if unknown := [task for task in tasks if task not in TASKS]:
        raise UserError(f"there is no task '{str(unknown[0])[:40]}'; choose of {', '.join(TASKS)}.")
    if not tasks:
        raise UserError("no task is chosen; choose at least one.")
    return list(dict.fromkeys(tasks))
