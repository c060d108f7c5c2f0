"""ParallelBench's grid, which settings run on which task, found by what the methods declare; and its record: a point
per setting and task, the oracle view, and the file that ships."""

import gzip
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from engines.core.errors import UserError
from engines.core.method import MethodInfo
from engines.core.registry import list_methods
from engines.core.statistics import wilson
from engines.core.texts import utf8
from engines.core.trace import ModelRecord
from engines.tasks import TASKS, Example

SEED = 3  # of the held-out prompts; the models' cards use others
PROMPTS = 16
ITEMS = 6  # of every list answer
# task -> size of its prompts; the board is the longest answer, up to a multiple of ITEMS for lists and of 4 for the
# others
GRID = {
    **dict.fromkeys(("copy", "reverse", "sort", "shuffle", "replace", "replace any"), ITEMS),
    **dict.fromkeys(("insert", "insert any"), ITEMS - 1),
    **dict.fromkeys(("remove", "remove any"), ITEMS + 1),
    **dict.fromkeys(("sentence", "latin", "sudoku"), 4),
}
ORDERS = {  # what the paper calls an order -> the words for it among the choices of the methods
    "low confidence": ("low_confidence", "maskgit_plus"),
    "random": ("random", "origin"),
    "margin": ("topk_margin",),
    "entropy": ("entropy",),
}
LEFT_TO_RIGHT, ADAPTIVE, VALUE_FREE = "left to right", "threshold", "random"
THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
HALF_THRESHOLDS = (0.5, 0.7, 0.9)


class Setting(msgspec.Struct, frozen=True):
    """One way to decode a task's board: by a schedule of `per_forward` tokens on average, or all above `threshold`;
    argmax, or `sampled` at temperature 1.

    The orders low confidence, random and left to right write equally many in every forward. A schedule on a time grid
    (margin, entropy) rounds down first and makes up for it in the end, so that even a token per forward on average is
    not one in each."""

    order: str
    blocks: int
    per_forward: int | None
    threshold: float | None
    sampled: bool
    method: str
    params: dict[str, Any]

    @property
    def key(self) -> tuple[Any, ...]:
        """What makes two settings the same on boards of different length."""
        blocks = None if self.order == LEFT_TO_RIGHT else self.blocks
        return self.order, blocks, self.per_forward, self.threshold, self.sampled

    @property
    def label(self) -> str:
        """As a list says it."""
        rate = f"{self.per_forward} per forward" if self.threshold is None else f"θ = {self.threshold:g}"
        split = "" if self.blocks == 1 or self.order == LEFT_TO_RIGHT else f", {self.blocks} blocks"
        return f"{self.order}{split}, {rate}, {'sampled' if self.sampled else 'argmax'}"


def settings(kind: str, canvas: int) -> list[Setting]:
    """Every setting on a board of `canvas` positions: all orders in one block, low confidence and the threshold also in
    two, and left to right.

    Methods are found by what they declare. Raises UserError where none offers an order.
    """
    grid = []
    divisors = [k for k in range(1, canvas + 1) if canvas % k == 0]
    for order, words in ORDERS.items():
        info, params = _ordered(kind, words)
        has_blocks = any(p.name == "block_length" for p in info.params)
        for sampled in (False, True) if order == VALUE_FREE else (False,):
            made = [(order, 1, k) for k in divisors]
            if has_blocks and order == "low confidence":
                made += [(order, 2, k) for k in divisors if canvas // 2 % k == 0] + [(LEFT_TO_RIGHT, canvas, 1)]
            for name, blocks, k in made:
                given: dict[str, Any] = {"max_new_tokens": canvas, "steps": canvas // k}
                given |= {"block_length": canvas // blocks} if has_blocks else {}
                given |= params | ({"temperature": 1.0} if sampled else {})
                grid.append(Setting(name, blocks, k, None, sampled, info.slug, given))
    curve = next((i for i in list_methods() if i.curve and i.kind == kind), None)
    if curve is None or curve.curve is None:
        raise UserError(
            f"no method of {kind} models has a curve over a threshold; the benchmark runs on masked models."
        )
    for blocks, values in ((1, THRESHOLDS), (2, HALF_THRESHOLDS)):
        for value in values:
            given = {"max_new_tokens": canvas, "block_length": canvas // blocks, curve.curve[0]: value}
            grid.append(Setting(ADAPTIVE, blocks, None, value, False, curve.slug, given))
    return grid


def _ordered(kind: str, words: Sequence[str]) -> tuple[MethodInfo, dict[str, Any]]:
    """A control with a fixed number of steps and no threshold that offers the first of these words it can, and the
    choice; one with blocks if there is."""
    for word in words:
        for info in sorted(list_methods(), key=lambda i: all(p.name != "block_length" for p in i.params)):
            names = {p.name for p in info.params}
            alone = info.kind == kind and len(info.needs) == 1 and not info.baseline
            fixed = {"steps", "temperature"} <= names and not any("threshold" in n for n in names)
            offer = next((p for p in info.params if word in p.choices), None)
            if alone and fixed and offer:
                return info, {offer.name: word}
    raise UserError(
        f"no method of {kind} models with a fixed number of steps offers the order {' or '.join(words)}; the "
        "benchmark runs on masked models."
    )


def examples(task: str, prompts: int) -> list[Example]:
    """The prompts of a task: held-out, of one size, always the same."""
    return list(islice(TASKS[task].generate("held-out", SEED, GRID[task]), prompts))


def canvas(task: str, asked: Sequence[Example], tokenizer: Any) -> int:
    """Board positions that hold the longest of these answers."""
    step = ITEMS if TASKS[task].group == "list" else 4
    return -(-max(len(tokenizer.encode(f" {example.answer}")) for example in asked) // step) * step


# --- the record

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
