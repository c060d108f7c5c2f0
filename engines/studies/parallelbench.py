"""ParallelBench run as a benchmark: tasks x orders x block lengths x tokens per forward or threshold, exact answers
against forwards.

Its claim (arXiv:2510.04767): tokens committed in one forward are drawn independently, so where a task couples them even
a perfect model fails, and no setting finds the right degree of parallelism by itself. Every point here is a set of real
runs of `engines.run` with fixed seeds, marked by the task's exact check. On a model that lists all right answers (the
exact oracle) a point also carries what follows for the very sets that its runs committed: the bound C in nats, and for
sets that do not depend on what was written the chance of drawing a right answer. Nothing is timed.

Departures: 13 of the 17 tasks (no paraphrase, no summary, one length of word list); a shuffle may leave the list as it
is; the board is only as long as the answer, as in the benchmark's infill mode, so that the ten list tasks have six
positions each and the closed forms hold."""

import gzip
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from engines.core.errors import UserError
from engines.core.method import MethodInfo
from engines.core.params import Choice, Int, Params, Text
from engines.core.registry import list_methods
from engines.core.statistics import wilson
from engines.core.study import Axis, Column, Figure, Progress, Receipt, Series, Study, Table, study
from engines.core.texts import utf8
from engines.core.trace import ModelRecord, Trace
from engines.driver.run import run as decode
from engines.models.measures import joint
from engines.tasks import TASKS, Example, check


def chance(answers: Sequence[tuple[int, ...]], sets: Sequence[Sequence[int]]) -> float:
    """The exact chance of writing one of `answers` [N][n] when each set in turn is drawn from the true marginals given
    what is written."""
    if not sets:
        return 1.0
    first, *rest = sets
    distributions = [Counter(row[i] for row in answers) for i in first]
    groups: dict[tuple[int, ...], list[tuple[int, ...]]] = defaultdict(list)
    for row in answers:
        groups[tuple(row[i] for i in first)].append(row)
    return sum(
        math.prod(distribution[t] / len(answers) for distribution, t in zip(distributions, drawn, strict=True))
        * chance(group, rest)
        for drawn, group in groups.items()
    )


class Derived(NamedTuple):
    """At k tokens per forward of a list task in random order, sampled from perfect marginals: the chance of a right
    answer, and the bound C in nats."""

    per_forward: int
    chance: float
    bound: float


def derived(task: str, n: int) -> list[Derived]:
    """The closed forms of a task at every k that divides n; none where the answers have to be listed (insert any,
    remove any, latin, sentence)."""
    ks = [k for k in range(1, n + 1) if n % k == 0]
    if task == "shuffle":
        return [Derived(k, joint.shuffle_success(n, k), shuffle_bound(n, k)) for k in ks]
    if task == "replace any":
        return [Derived(k, replace_any_chance(n, k), replace_any_bound(n, k)) for k in ks]
    return [] if TASKS[task].many else [Derived(k, 1.0, joint.copy_correlation(n)) for k in ks]


def shuffle_bound(n: int, k: int) -> float:
    """Sum over forwards with r positions open of k ln r - ln(r! / (r - k)!); at k = n that is n ln n - ln n!."""
    return sum(k * math.log(r) - math.log(math.perm(r, k)) for r in range(n, 0, -k))


def replace_any_chance(n: int, k: int) -> float:
    """f(n), f(r) = (1 - 1/r)^k f(r - k) + (k/r)(1 - 1/r)^(k-1), f(0) = 0: no new word among k of r and later one, or
    just one, and then copying.

    At k = n that is (1 - 1/n)^(n - 1).
    """
    later = 0.0
    for r in range(k, n + 1, k):
        later = (1 - 1 / r) ** k * later + k / r * (1 - 1 / r) ** (k - 1)
    return later


def replace_any_bound(n: int, k: int) -> float:
    """Sum over forwards with r positions open, reached without the new word with r/n, of k h(1/r) - (k/r) ln r + (1 -
    k/r) ln(1 - k/r), h binary entropy."""
    if k == 1:
        return 0.0
    h = lambda p: -sum(q * math.log(q) for q in (p, 1 - p) if q > 0)  # noqa: E731
    return sum(
        r / n * (k * h(1 / r) + k / r * math.log(1 / r) + ((1 - k / r) * math.log(1 - k / r) if k < r else 0.0))
        for r in range(n, 0, -k)
    )


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


ORACLE = (
    "A masked model; the oracle knows all right answers, so that what it loses is lost by writing in parallel alone."
)


@study(
    "parallelbench",
    "ParallelBench",
    "arXiv:2510.04767",
    summary="What writing several tokens at once costs: exact answers against tokens per forward, with the bound "
    "that no model can beat.",
    inputs=[
        Text("model", "oracle", help=ORACLE),
        Choice("task", "shuffle", [*GRID, ALL], help="The task whose prompts are answered; all tasks take minutes."),
        Int("prompts", 4, 1, 256, help="Held-out prompts per task: more make narrower intervals."),
    ],
    departures="13 of the 17 tasks; the board is only as long as the answer; a shuffle may leave the list as it is.",
    runs_models=True,
)
def parallelbench(p: Params, progress: Progress) -> Study:
    """Every setting on the chosen task, the oracle view, and what theory says of both."""
    from engines.models.loading.zoo import load_model

    tasks = list(GRID) if p.task == ALL else [p.task]
    part = run(load_model(p.model), tasks, p.prompts, progress)
    ran = [task for task in tasks if task not in part.refused]
    by_task = {task: [point for point in part.points if point.task == task] for task in ran}
    sizes = {task: board(points) for task, points in by_task.items()}
    forms = {task: derived(task, n) for task, n in sizes.items()}
    return Study(
        tables=[points_table(part.points), best_table(part.speedups), forms_table(forms)],
        figures=[figure for task in ran for figure in figures(task, by_task[task], forms[task])],
        receipts=[receipt for task in ran for receipt in receipts(task, sizes[task], forms[task])],
        notes=[
            "Measured points are marked exactly on the same held-out prompts, prompt i with seed i.",
            "The lines are derived: sampling from perfect marginals in random order, not argmax.",
            *(f"{task}: not run. {reason}" for task, reason in part.refused.items()),
        ],
        models=[part.model],
    )


# --- running


def run(
    model: Any, tasks: Sequence[str], prompts: int, progress: Callable[[int, int], None] = lambda done, total: None
) -> Part:
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
        by_prompt = []  # answers are listed once per prompt
        for seed, example in enumerate(asked):
            progress(done, len(tasks))  # often, so that whoever listens may stop it
            by_prompt.append([outcome(model, setting, example, seed) for setting in made])
        outcomes[task] = list(zip(made, map(list, zip(*by_prompt, strict=True)), strict=True))
        points += [_point(model.record.name, task, setting, got) for setting, got in outcomes[task]]
    progress(len(tasks), len(tasks))
    if not points:
        raise UserError(f"{model.record.name} takes none of these tasks: {'; '.join(refused.values())}")
    return Part(model.record, prompts, points, speedups(outcomes), refused)


def outcome(model: Any, setting: Setting, example: Example, seed: int) -> Outcome:
    """One prompt decoded and marked; with what theory says where the model lists the right answers."""
    exact = hasattr(model, "answers_on")
    trace = decode(
        setting.method, model, example.prompt, params=setting.params, seed=seed, detail="light" if exact else "none"
    )
    totals = trace.totals
    bound, luck = _theory(model, trace, setting) if exact else (None, None)
    return Outcome(mark(example, trace.text), totals.forwards, totals.tokens, bound, luck)


def _theory(model: Any, trace: Trace, setting: Setting) -> tuple[float, float | None]:
    import torch

    start, answers, _ = model.answers_on(torch.tensor([*trace.header.prompt_ids, *trace.end.output_ids]))
    places = range(start, start + answers.shape[1])
    committed = [step.commits.positions if step.commits else [] for step in trace.steps]
    sets = [[p - start for p in positions if p in places] for positions in committed]
    fixed = setting.sampled and setting.order == VALUE_FREE
    luck = chance([tuple(row) for row in answers.tolist()], sets) if fixed else None
    return joint.expected_correlation(answers, sets), luck


def mark(example: Example, text: str) -> str:
    """STRICT, LENIENT or WRONG. The white space of a task's right answers is that of the reference, so no parser is
    needed."""
    if not check(example, text).correct:
        return WRONG
    return STRICT if re.sub(r"\S+", "x", text) == re.sub(r"\S+", "x", example.answer) else LENIENT


def _point(model: str, task: str, setting: Setting, got: Sequence[Outcome]) -> Point:
    marks, forwards, tokens, *theory = zip(*got, strict=True)
    theories = [[value for value in values if value is not None] for values in theory]
    means = (sum(values) / len(values) if values else None for values in theories)
    rate = sum(tokens) / sum(forwards)
    return Point(model, task, setting, "".join(marks), sum(forwards) / len(got), rate, *means)


def trace_of(point: Point, index: int, **options: Any) -> Trace:
    """Run prompt `index` of a point again, with the same seed, and keep everything. Raises UserError for a prompt that
    it has not."""
    if not 0 <= index < point.tried:
        raise UserError(f"prompt {index} is not one of this point's; it has 0 to {point.tried - 1}.")
    prompt = examples(point.task, index + 1)[index].prompt
    return decode(point.setting.method, point.model, prompt, params=point.setting.params, seed=index, **options)


# --- the study's record


def board(points: Sequence[Point]) -> int:
    """Positions of a task's board: what its largest setting writes in one forward."""
    return max((point.setting.per_forward or 1 for point in points), default=ITEMS)


def points_table(points: Sequence[Point]) -> Table:
    """A row per setting and task."""
    columns = [
        Column("task"),
        Column("setting"),
        Column("right", "prompts", "measured"),
        Column("of", "prompts", "given"),
        Column("exact", "share", "measured", 3),
        Column("from", "share, 95 %", "derived", 3),
        Column("to", "share, 95 %", "derived", 3),
        Column("strict", "prompts", "measured"),
        Column("forwards", "per prompt", "measured", 2),
        Column("tokens per forward", "", "measured", 2),
        Column("bound C", "nats", "derived", 3),
        Column("chance", "share", "derived", 3),
    ]
    rows: list[list[Any]] = []
    for x in points:
        marks = x.right, x.tried, x.share, *x.interval, x.strict
        rows.append([x.task, x.setting.label, *marks, x.forwards, x.tokens_per_forward, x.bound, x.chance])
    note = "Bound and chance follow from the sets that the runs wrote at once, where the model lists all right answers."
    return Table("points", "Settings on held-out prompts", columns, rows, note)


def best_table(gains: Sequence[Speedup]) -> Table:
    """The oracle view: the best single setting against the cheapest right one of every prompt."""
    columns = [
        Column("task"),
        Column("best single setting"),
        Column("exact", "share", "measured", 3),
        Column("forwards", "per prompt", "measured", 2),
        Column("chosen per prompt", "forwards", "measured", 2),
        Column("times fewer", "", "derived", 2),
        Column("some setting is right", "share", "measured", 3),
    ]
    rows: list[list[Any]] = [[s.task, s.best, s.share, s.forwards, s.chosen, s.factor, s.solved] for s in gains]
    note = "The choice for every prompt is made in hindsight: a limit and no method."
    return Table("best", "What no single setting reaches", columns, rows, note)


def forms_table(forms: dict[str, list[Derived]]) -> Table:
    """The closed forms, for the tasks that have them."""
    columns = [
        Column("task"),
        Column("tokens per forward", "", "given"),
        Column("chance", "share", "derived", 4),
        Column("bound C", "nats", "derived", 4),
    ]
    rows: list[list[Any]] = [
        [task, form.per_forward, form.chance, form.bound] for task, task_forms in forms.items() for form in task_forms
    ]
    return Table("forms", "Closed forms, perfect marginals in random order", columns, rows)


def figures(task: str, points: Sequence[Point], forms: Sequence[Derived]) -> list[Figure]:
    """Exact answers and the bound, both against tokens per forward."""
    x = Axis("tokens per forward", log=True)
    lines = [
        [Series("closed form", [float(f.per_forward) for f in forms], [*y], "derived")] if forms else []
        for y in ([f.chance for f in forms], [f.bound for f in forms])
    ]
    exact, bound = list[Series](), list[Series]()
    for sampled in (False, True):
        group = [point for point in points if point.setting.sampled == sampled]
        name, at = "sampled" if sampled else "argmax", [point.tokens_per_forward for point in group]
        labels = [f"{point.setting.label}: {point.right} of {point.tried} right" for point in group]
        low, high = ([point.interval[end] for point in group] for end in (0, 1))
        exact.append(Series(name, at, [point.share for point in group], "measured", "points", low, high, text=labels))
        bound.append(Series(name, at, [point.bound for point in group], "derived", "points", text=labels))
    title = TASKS[task].title
    right = Axis("answered exactly", "share")
    charts = [Figure(f"{task}: exact", f"{title}: exact answers", x, right, lines[0] + exact)]
    if any(point.bound is not None for point in points):
        cost = Axis("C of the committed sets", "nats")
        charts.append(Figure(f"{task}: bound", f"{title}: what the commits cost at least", x, cost, lines[1] + bound))
    return charts


def receipts(task: str, n: int, forms: Sequence[Derived]) -> list[Receipt]:
    """The closed forms of one forward with their numbers."""
    formulas = {
        "shuffle": ("n! / n^n", "n ln n - ln n!"),
        "replace any": ("(1 - 1/n)^(n - 1)", "(n - 1) ln(n / (n - 1))"),
    }
    if task not in formulas or not forms:
        return []
    (luck, cost), last = formulas[task], forms[-1]
    return [
        Receipt(f"{task}: chance of one forward", luck, {"n": n}, last.chance, "share"),
        Receipt(f"{task}: bound of one forward", cost, {"n": n}, last.bound, "nats"),
    ]
