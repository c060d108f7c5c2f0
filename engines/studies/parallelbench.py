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

import re
from collections.abc import Callable, Sequence
from typing import Any

from engines.core.errors import UserError
from engines.core.params import Choice, Int, Params, Text
from engines.core.study import Axis, Column, Figure, Progress, Receipt, Series, Study, Table, study
from engines.core.trace import Trace
from engines.driver.run import run as decode
from engines.models.measures import joint
from engines.studies._closed_forms import Derived, chance, derived
from engines.studies._parallel import (
    ADAPTIVE,
    ALL,
    GRID,
    ITEMS,
    LEFT_TO_RIGHT,
    LENIENT,
    ORDERS,
    PROMPTS,
    STRICT,
    VALUE_FREE,
    WRONG,
    Outcome,
    Part,
    Point,
    Setting,
    Speedup,
    as_json,
    canvas,
    examples,
    recorded,
    settings,
    speedups,
)
from engines.tasks import TASKS, Example, check

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
