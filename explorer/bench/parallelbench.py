"""ParallelBench run as a benchmark: tasks x orders x block lengths x tokens per forward or threshold, exact answers against forwards.

Its claim (arXiv:2510.04767): tokens committed in one forward are drawn independently, so where a task couples them even a perfect model fails, and no
setting finds the right degree of parallelism by itself. Every point here is a set of real runs of `engines.run` with fixed seeds, marked by the task's
exact check. On a model that lists all right answers (the exact oracle) a point also carries what follows for the very sets that its runs committed:
the bound C in nats, and for sets that do not depend on what was written the chance of drawing a right answer. Nothing is timed.

Departures: 13 of the 17 tasks (no paraphrase, no summary, one length of word list); a shuffle may leave the list as it is; the board is only as long as
the answer, as in the benchmark's infill mode, so that the ten list tasks have six positions each and those of `closed_forms` hold.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

import engines
from engines import MethodInfo, ModelRecord, Trace, UserError
from engines.tasks import TASKS, Example, check
from explorer import ASSETS
from explorer.bench.closed_forms import chance
from explorer.bench.quality import PARALLELBENCH, SEED, wilson

FILE = ASSETS / "sweeps" / PARALLELBENCH
PROMPTS = 16
ITEMS = 6  # of every list answer
GRID = {  # task -> size of its prompts; the board is the longest answer, up to a multiple of ITEMS for lists and of 4 for the others
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
STRICT, LENIENT, WRONG = "=~."  # a prompt's mark: right to the blank; right but for white space; wrong
ALL = "all tasks"


class Setting(msgspec.Struct, frozen=True):
    """One way to decode a task's board: by a schedule of `per_forward` tokens on average, or all above `threshold`; argmax, or `sampled` at temperature 1.

    The orders low confidence, random and left to right write equally many in every forward. A schedule on a time grid (margin, entropy) rounds down
    first and makes up for it in the end, so that even a token per forward on average is not one in each.
    """

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
        return (self.order, None if self.order == LEFT_TO_RIGHT else self.blocks, self.per_forward, self.threshold, self.sampled)

    @property
    def label(self) -> str:
        """As a list says it."""
        rate = f"{self.per_forward} per forward" if self.threshold is None else f"θ = {self.threshold:g}"
        split = "" if self.blocks == 1 or self.order == LEFT_TO_RIGHT else f", {self.blocks} blocks"
        return f"{self.order}{split}, {rate}, {'sampled' if self.sampled else 'argmax'}"


class Point(msgspec.Struct, frozen=True):
    """A setting on a task: one mark per prompt (prompt i ran with seed i), mean forwards, and tokens before the end mark over forwards, all together.

    bound: C in nats, mean over the runs, for the sets that they committed; chance: of drawing a right answer from perfect marginals with these sets.
    """

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
    """The benchmark's oracle view over the argmax settings: forwards of the best single one, and of the cheapest right one chosen for every prompt.

    Both forwards are means over the prompts that the best single setting (most right, then fewest forwards) answers: `share` of all. solved: the share
    that some setting answers. The choice for every prompt is made in hindsight, so it is a limit and no method.
    """

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
    """All points of one model. refused: tasks that it cannot do, with its reason."""

    model: ModelRecord
    prompts: int
    points: list[Point]
    speedups: list[Speedup]
    refused: dict[str, str] = {}


class Outcome(NamedTuple):
    """One run."""

    mark: str
    forwards: int
    tokens: int
    bound: float | None
    chance: float | None


# --- the grid


def settings(kind: str, canvas: int) -> list[Setting]:
    """Every setting on a board of `canvas` positions: all orders in one block, low confidence and the threshold also in two, and left to right.

    Methods are found by what they declare. Raises UserError where none offers an order.
    """
    found = []
    divisors = [k for k in range(1, canvas + 1) if canvas % k == 0]
    for order, words in ORDERS.items():
        info, params = _ordered(kind, words)
        has_blocks = any(p.name == "block_length" for p in info.params)
        for sampled in (False, True) if order == VALUE_FREE else (False,):
            made = [(order, 1, k) for k in divisors]
            if has_blocks and order == "low confidence":
                made += [(order, 2, k) for k in divisors if canvas // 2 % k == 0] + [(LEFT_TO_RIGHT, canvas, 1)]
            for name, blocks, k in made:
                board = {"max_new_tokens": canvas, "steps": canvas // k} | ({"block_length": canvas // blocks} if has_blocks else {})
                found.append(Setting(name, blocks, k, None, sampled, info.slug, board | params | ({"temperature": 1.0} if sampled else {})))
    curve = next((i for i in engines.list_methods() if i.curve and i.kind == kind), None)
    if curve is None or curve.curve is None:
        raise UserError(f"no method of {kind} models has a curve over a threshold; the benchmark runs on masked models.")
    for blocks, values in ((1, THRESHOLDS), (2, HALF_THRESHOLDS)):
        board = {"max_new_tokens": canvas, "block_length": canvas // blocks}
        found += [Setting(ADAPTIVE, blocks, None, value, False, curve.slug, board | {curve.curve[0]: value}) for value in values]
    return found


def _ordered(kind: str, words: Sequence[str]) -> tuple[MethodInfo, dict[str, Any]]:
    """A control with a fixed number of steps and no threshold that offers the first of these words it can, and the choice; one with blocks if there is."""
    for word in words:
        for info in sorted(engines.list_methods(), key=lambda i: all(p.name != "block_length" for p in i.params)):
            names = {p.name for p in info.params}
            if info.kind != kind or len(info.needs) > 1 or info.baseline or not {"steps", "temperature"} <= names or any("threshold" in n for n in names):
                continue
            if offer := next((p for p in info.params if word in p.choices), None):
                return info, {offer.name: word}
    raise UserError(f"no method of {kind} models with a fixed number of steps offers the order {' or '.join(words)}; the benchmark runs on masked models.")


def examples(task: str, prompts: int) -> list[Example]:
    """The prompts of a task: held-out, of one size, always the same."""
    return list(islice(TASKS[task].generate("held-out", SEED, GRID[task]), prompts))


def canvas(task: str, asked: Sequence[Example], tokenizer: Any) -> int:
    """Board positions that hold the longest of these answers."""
    step = ITEMS if TASKS[task].group == "list" else 4
    return -(-max(len(tokenizer.encode(f" {example.answer}")) for example in asked) // step) * step


# --- running


def run(model: Any, tasks: Sequence[str], prompts: int, progress: Callable[[int, int], None] = lambda done, total: None) -> Part:
    """Every setting on every task that the model takes, with the same prompts. progress(tasks done, of all)."""
    points: list[Point] = []
    outcomes: dict[str, list[tuple[Setting, list[Outcome]]]] = {}
    refused: dict[str, str] = {}
    for done, task in enumerate(tasks):
        progress(done, len(tasks))
        asked = examples(task, prompts)
        try:
            model.tokenizer.encode_prompt(asked[0].prompt)
        except UserError as error:
            refused[task] = str(error)
            continue
        made = settings(model.record.kind, canvas(task, asked, model.tokenizer))
        by_prompt = [[outcome(model, one, example, seed) for one in made] for seed, example in enumerate(asked)]  # answers are listed once per prompt
        outcomes[task] = list(zip(made, map(list, zip(*by_prompt, strict=True)), strict=True))
        points += [_point(model.record.name, task, one, got) for one, got in outcomes[task]]
    progress(len(tasks), len(tasks))
    if not points:
        raise UserError(f"{model.record.name} takes none of these tasks: {'; '.join(refused.values())}")
    return Part(model.record, prompts, points, speedups(outcomes), refused)


def outcome(model: Any, setting: Setting, example: Example, seed: int) -> Outcome:
    """One prompt decoded and marked; with what theory says where the model lists the right answers."""
    exact = hasattr(model, "answers_on")
    trace = engines.run(setting.method, model, example.prompt, params=setting.params, seed=seed, detail="light" if exact else "none")
    totals = trace.totals
    bound, luck = _theory(model, trace, setting) if exact else (None, None)
    return Outcome(mark(example, trace.text), totals.forwards, totals.tokens, bound, luck)


def _theory(model: Any, trace: Trace, setting: Setting) -> tuple[float, float | None]:
    import torch

    start, answers, _ = model.answers_on(torch.tensor([*trace.header.prompt_ids, *trace.end.output_ids]))
    sets = commit_sets(trace, start, answers.shape[1])
    fixed = setting.sampled and setting.order == VALUE_FREE
    return engines.joint.expected_correlation(answers, sets), chance([tuple(row) for row in answers.tolist()], sets) if fixed else None


def commit_sets(trace: Trace, start: int, n: int) -> list[list[int]]:
    """Which of the n answer positions behind `start` each step wrote."""
    written = [step.commits.positions if step.commits else [] for step in trace.steps]
    return [[p - start for p in positions if start <= p < start + n] for positions in written]


def mark(example: Example, text: str) -> str:
    """STRICT, LENIENT or WRONG. The white space of a task's right answers is that of the reference, so no parser is needed."""
    if not check(example, text).correct:
        return WRONG
    return STRICT if re.sub(r"\S+", "x", text) == re.sub(r"\S+", "x", example.answer) else LENIENT


def _point(model: str, task: str, setting: Setting, got: Sequence[Outcome]) -> Point:
    forwards = sum(one.forwards for one in got)
    bounds = [one.bound for one in got if one.bound is not None]
    chances = [one.chance for one in got if one.chance is not None]
    return Point(
        model=model,
        task=task,
        setting=setting,
        marks="".join(one.mark for one in got),
        forwards=forwards / len(got),
        tokens_per_forward=sum(one.tokens for one in got) / forwards,
        bound=sum(bounds) / len(bounds) if bounds else None,
        chance=sum(chances) / len(chances) if chances else None,
    )


def speedups(outcomes: Mapping[str, list[tuple[Setting, list[Outcome]]]]) -> list[Speedup]:
    """The oracle view of every task, and of all together over the settings that all have. Tasks without a right answer have none."""
    by_key = {task: {one.key: (one.label, got) for one, got in ran if not one.sampled} for task, ran in outcomes.items()}
    shared = set.intersection(*(set(ran) for ran in by_key.values()))
    together = {key: (next(iter(by_key.values()))[key][0], [one for ran in by_key.values() for one in ran[key][1]]) for key in sorted(shared, key=str)}
    found = [_speedup(task, list(ran.values())) for task, ran in by_key.items()] + [_speedup(ALL, list(together.values()))]
    return [one for one in found if one]


def _speedup(task: str, ran: Sequence[tuple[str, list[Outcome]]]) -> Speedup | None:
    label, best = max(ran, key=lambda one: (sum(o.mark != WRONG for o in one[1]), -sum(o.forwards for o in one[1])))
    cheapest = [min((o.forwards for o in column if o.mark != WRONG), default=None) for column in zip(*(got for _, got in ran), strict=True)]
    both = [(o.forwards, least) for o, least in zip(best, cheapest, strict=True) if o.mark != WRONG and least is not None]
    if not both:
        return None
    spent, chosen = (sum(side) / len(both) for side in zip(*both, strict=True))
    return Speedup(task, label, len(both) / len(best), spent, chosen, sum(least is not None for least in cheapest) / len(best))


# --- the record


def recorded(path: Path = FILE) -> list[Part]:
    """The parts that ship, written by `decoding-explorer parallelbench --json`; none if there is no file. Raises msgspec.ValidationError if damaged."""
    return msgspec.json.decode(path.read_bytes(), type=list[Part]) if path.exists() else []


def written(parts: Sequence[Part]) -> str:
    """Parts as JSON, one point per line."""
    lines = []
    for part in parts:
        head = msgspec.json.encode(msgspec.structs.replace(part, points=[])).decode()
        points = ",\n".join(msgspec.json.encode(point).decode() for point in part.points)
        lines.append(head.replace('"points":[]', f'"points":[\n{points}\n]', 1))
    return "[" + ",\n".join(lines) + "]\n"


def trace_of(point: Point, index: int, **options: Any) -> Trace:
    """Run prompt `index` of a point again, with the same seed, and keep everything. Raises UserError for a prompt that it has not."""
    if not 0 <= index < point.tried:
        raise UserError(f"prompt {index} is not one of this point's; it has 0 to {point.tried - 1}.")
    prompt = examples(point.task, index + 1)[index].prompt
    return engines.run(point.setting.method, point.model, prompt, params=point.setting.params, seed=index, **options)
