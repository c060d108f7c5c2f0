"""ParallelBench's record: a point per setting and task, the oracle view, and the file that ships."""

import gzip
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from engines.core.statistics import wilson
from engines.core.texts import utf8
from engines.core.trace import ModelRecord
from engines.studies._parallel_grid import Setting

STRICT, LENIENT, WRONG = "=~."  # a prompt's mark: right to the blank; right but for white space; wrong
ALL = "all tasks"


class Point(msgspec.Struct, frozen=True):
    """A setting on a task: one mark per prompt (prompt i ran with seed i), mean forwards, and tokens before the end
    mark over forwards, all together.

    bound: C in nats, mean over the runs, for the sets that they committed; chance: of drawing a right answer from
    perfect marginals with these sets."""

    model: str
    task: str
    setting: Setting
    marks: str
    forwards: float
    tokens_per_forward: float
    bound: float | None = None
    chance: float | None = None

    @property
    def tried(self) -> int:
        """Prompts."""
        return len(self.marks)

    @property
    def right(self) -> int:
        """Answers that are right if white space is forgiven; the task's own check."""
        return self.tried - self.marks.count(WRONG)

    @property
    def strict(self) -> int:
        """Answers whose white space is right too."""
        return self.marks.count(STRICT)

    @property
    def share(self) -> float:
        """Right over tried."""
        return self.right / self.tried

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the share."""
        return wilson(self.right, self.tried)

    def first(self, wrong: bool) -> int | None:
        """The first prompt that was answered wrong (or right); None if there is none."""
        return next((i for i, mark in enumerate(self.marks) if (mark == WRONG) == wrong), None)


class Speedup(msgspec.Struct, frozen=True):
    """The benchmark's oracle view over the argmax settings: forwards of the best single one, and of the cheapest right
    one chosen for every prompt.

    Both forwards are means over the prompts that the best single setting (most right, then fewest forwards) answers:
    `share` of all. solved: the share that some setting answers. The choice for every prompt is made in hindsight, so it
    is a limit and no method."""

    task: str
    best: str
    share: float
    forwards: float
    chosen: float
    solved: float

    @property
    def factor(self) -> float:
        """How many times fewer forwards."""
        return self.forwards / self.chosen


class Part(msgspec.Struct, frozen=True):
    """All points of one model. refused: tasks that it cannot do, with its reason. command, date: what was typed, and
    when."""

    model: ModelRecord
    prompts: int
    points: list[Point]
    speedups: list[Speedup]
    refused: dict[str, str] = {}
    command: str = ""
    date: str = ""


class Outcome(NamedTuple):
    """One run."""

    mark: str
    forwards: int
    tokens: int
    bound: float | None
    chance: float | None


def speedups(outcomes: Mapping[str, list[tuple[Setting, list[Outcome]]]]) -> list[Speedup]:
    """The oracle view of every task, and of all together over the settings that all have. Tasks without a right answer
    have none."""
    by_key = {
        task: {setting.key: (setting.label, got) for setting, got in ran if not setting.sampled}
        for task, ran in outcomes.items()
    }
    first, together = next(iter(by_key.values())), []
    for key in sorted(set.intersection(*map(set, by_key.values())), key=str):
        together.append((first[key][0], [outcome for ran in by_key.values() for outcome in ran[key][1]]))
    every = [(task, [*ran.values()]) for task, ran in by_key.items()] + [(ALL, together)]
    return [gain for task, ran in every if (gain := _speedup(task, ran))]


def _speedup(task: str, ran: Sequence[tuple[str, list[Outcome]]]) -> Speedup | None:
    label, best = max(ran, key=lambda pair: (sum(o.mark != WRONG for o in pair[1]), -sum(o.forwards for o in pair[1])))
    cheapest = [
        min((o.forwards for o in column if o.mark != WRONG), default=None)
        for column in zip(*(got for _, got in ran), strict=True)
    ]
    right = [(o, least) for o, least in zip(best, cheapest, strict=True) if o.mark != WRONG and least is not None]
    n = len(right)
    if not n:
        return None
    spent, chosen = sum(o.forwards for o, _ in right) / n, sum(least for _, least in right) / n
    solved = sum(least is not None for least in cheapest) / len(best)
    return Speedup(task, label, n / len(best), spent, chosen, solved)


def recorded(path: Path) -> list[Part]:
    """The parts in a file, written by `decoding-explorer parallelbench --json`; none if there is no file. A name that
    ends in .gz is of a compressed file. Raises msgspec.ValidationError or gzip.BadGzipFile if damaged."""
    if not path.exists():
        return []
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return msgspec.json.decode(utf8(data), type=list[Part])


def as_json(parts: Sequence[Part]) -> str:
    """Parts as JSON, one point per line."""
    lines = []
    for part in parts:
        head = msgspec.json.encode(msgspec.structs.replace(part, points=[])).decode()
        points = ",\n".join(msgspec.json.encode(point).decode() for point in part.points)
        lines.append(head.replace('"points":[]', f'"points":[\n{points}\n]', 1))
    return "[" + ",\n".join(lines) + "]\n"
