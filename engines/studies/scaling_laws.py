"""How good a draft becomes with training and with size, and how much of it a batch leaves (Scylla, arXiv:2505.07858).

The target answers held-out prompts greedily; every checkpoint of a grid of drafts reads the same answers. Acceptance is
measured in three ways, always named. A line over the logarithm is fitted, held against other forms on the point that it
was not shown, and given with an interval over prompts. At last forwards of whole batches are timed, and the best number
of tokens to verify follows for each batch; and training is timed, so that a budget of it can be planned."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

from msgspec.structs import replace

from engines.core.errors import UserError
from engines.core.params import Bool, Choice, Int, Params
from engines.core.study import Axis, Column, Figure, Played, Progress, Receipt, Series, Study, Table, study
from engines.core.trace import ModelRecord
from engines.methods.speculative.speculative_sampling import decode
from engines.models.parts.grid_drafts import PART, beside
from engines.studies import _draft_grid as grid
from engines.studies._scaling import FORMS, MEASURES, Found, Line, best, interval, loglinear, miss, rounds, throughput

TARGET = "tiny-ar-l"
BATCHES, WIDTHS = (1, 2, 4, 8, 16), (1, 2, 3, 4, 6, 8)
RESAMPLES = 300  # of slopes
EVEN = 1e-9  # misses that differ by less are equal
LEAST = 3  # points of a line with a test of its extrapolation


@dataclass(frozen=True)
class Point:
    """A checkpoint: its size's name, its steps, N, D, and what was found prompt by prompt. spans: intervals by
    measure, once they were made."""

    size: str
    steps: int
    N: int
    D: int
    found: list[Found]
    spans: dict[str, tuple[float, float]] = field(default_factory=dict, compare=False)

    def interval(self, measure: str, seed: int) -> tuple[float, float]:
        """See `_scaling.interval`; made once, for every figure is drawn again behind each new point."""
        if measure not in self.spans:
            self.spans[measure] = interval(self.found, measure, seed)
        return self.spans[measure]


@study(
    "scaling-laws",
    "Acceptance by training and size, speed by batch",
    "arXiv:2505.07858",
    summary="Acceptance of 24 drafts of tiny-ar-l over training tokens and size, with log-linear fits, intervals and "
    "the miss of an extrapolation, measured; the best draft length by batch, modelled from forwards timed here.",
    inputs=[
        Int("prompts", 42, 4, 210, help="Held-out prompts, of all tasks in turn; more narrow the intervals."),
        Int("tokens", 32, 8, 128, help="Tokens of an answer, at most."),
        Int("points", 6, 1, 6, help="Lengths of training that are used, the shortest first; a fit needs three."),
        Int("gamma", 5, 1, 16, symbol="γ", help="Window of the tokens per model call."),
        Choice("measure", next(iter(MEASURES)), list(MEASURES), help="The acceptance that is fitted."),
        Bool("batch", True, help="Whether forwards of batches are timed, about five seconds on a quiet machine."),
        Int("budget", 60, 0, 1_000_000, help="Seconds of training that are to be spent on one size; 0 plans nothing."),
        Int("seed", 0, 0, 10000, help="Which held-out prompts, and which resamples."),
    ],
    departures="The paper's fitted constants were not available and none is drawn. Sizes and lengths of training are "
    "far below the paper's. The drafts are chains without a tree, all trained here on one target.",
    runs_models=True,
)
def scaling_laws(p: Params, progress: Progress) -> Study:
    """Answer, read with every checkpoint, fit, time."""
    from engines import load_model
    from engines.models.parts import load_part

    if p.points < 3:
        word = "point is" if p.points == 1 else "points are"
        raise UserError(f"{p.points} {word} given and a line with its test takes three; set points to 3 or more.")
    model: Any = load_model(TARGET, dtype="float32")
    part = load_part(PART, [model.record])
    target_answers = grid.answers(model, grid.held_out(p.prompts, p.seed), p.tokens)
    progress(1, 30)
    E, lengths = model.model.get_input_embeddings().weight, sorted(part.card["checkpoints"].values())[: p.points]
    points, largest, flags, longest = list[Point](), None, list[list[bool]](), dict[str, Any]()
    for size, steps, D, draft in grid.checkpoints(part, E, model.max_positions):
        if D in lengths:
            largest, (agreements, flags) = draft, grid.compared(draft, target_answers, p.gamma)
            longest[size.name] = draft
            points.append(Point(size.name, steps, size.body, D, agreements))
            progress(1 + len(points), 30, partial(so_far, tuple(points), sum(target_answers.counts), p, model.record))
    known = so_far(points, sum(target_answers.counts), p, model.record)
    tables, figures = known.tables, known.figures
    if p.batch:
        times = grid.timed(model, largest, BATCHES, WIDTHS, lambda: progress(1 + len(points), 30))
        tables, figures = [*tables, *batch_tables(times, flags)], [*figures, batch_figure(times, flags)]
    if p.budget:
        target_ms, steps_ms = grid.steps_timed(model, longest)
        offers = grid.offers_of(longest, lines_of(points), steps_ms, target_ms, max(lengths))
        tables, figures = [*tables, grid.plan_table(offers, p.budget)], [*figures, grid.plan_figure(offers, p.budget)]
    return replace(known, tables=tables, figures=figures)


def so_far(points: Sequence[Point], tokens: int, p: Params, record: ModelRecord) -> Study:
    """What these points say: of the laws those that have three, of the lines those that have two."""
    notes = [
        f"{tokens} tokens of {p.prompts} answers; intervals are 95 % over prompts drawn with replacement.",
        "Tokens per model call are those of greedy speculation: first choices on the target's own answer settle it.",
    ]
    tables, figures = [table_of_points(points, p)], [curve(points, "D", p), curve(points, "N", p)]
    receipts = list[Receipt]()
    if any(len(line) >= LEAST for _, _, line in axes(points)):
        tables.append(table_of_laws(points, p))
    if len(axes(points)[-2][2]) >= LEAST:
        notes.insert(1, resolved(points, p))
        receipts.append(receipt(points, p))
    return Study(tables=tables, figures=figures, receipts=receipts, notes=notes, models=[record])


def axes(points: Sequence[Point]) -> list[tuple[str, str, list[Point]]]:
    """(axis, what stays fixed, points along it): D for every size, N at the longest training."""
    longest = max(point.D for point in points)
    sizes = list(dict.fromkeys(point.size for point in points))
    lines = [("D", size, [point for point in points if point.size == size]) for size in sizes]
    return [*lines, ("N", f"{longest:,} tokens", [point for point in points if longest == point.D])]


def along(axis: str, line: Sequence[Point]) -> list[float]:
    """The x of each point."""
    return [float(point.D if axis == "D" else point.N) for point in line]


def lines_of(points: Sequence[Point]) -> dict[str, Line]:
    """Of each size, the line of its first choices that are the target's over D."""
    of = MEASURES["same first choice"]
    return {
        at: loglinear(along(axis, line), [of(point.found) for point in line])
        for axis, at, line in axes(points)
        if axis == "D"
    }


def slopes(axis: str, line: Sequence[Point], p: Params) -> tuple[float, float]:
    """The middle 95 % of the slope per decade, prompts drawn again, the same ones for every point."""
    rng, of, x = random.Random(p.seed), MEASURES[p.measure], along(axis, line)
    values = []
    for _ in range(RESAMPLES):
        drawn = rng.choices(range(p.prompts), k=p.prompts)
        values.append(loglinear(x, [of([point.found[i] for i in drawn]) for point in line]).slope)
    values.sort()
    return values[int(0.025 * RESAMPLES)], values[int(0.975 * RESAMPLES) - 1]


def nearest_form(misses: Sequence[float]) -> str:
    """The form with the smallest miss; where several are as near, as on points that are all equal, none is."""
    least = min(map(abs, misses))
    nearest = [form for form, deviation in zip(FORMS, misses, strict=True) if abs(deviation) - least < EVEN]
    return nearest[0] if len(nearest) == 1 else "no difference"


def table_of_points(points: Sequence[Point], p: Params) -> Table:
    """Every checkpoint in all three measures, each with its interval."""
    columns = [Column("draft", "", "given"), Column("N", "parameters", "derived"), Column("D", "tokens", "measured")]
    for name in MEASURES:
        columns += [Column(name, "", "measured", 3), Column(f"{name}: from", "", "derived", 3)]
        columns += [Column(f"{name}: to", "", "derived", 3)]
    rows: list[list[Any]] = []
    for point in points:
        cells: list[Any] = [point.size, point.N, point.D]
        for name, of in MEASURES.items():
            cells += [of(point.found), *point.interval(name, p.seed)]
        rows.append(cells)
    note = "N without embedding and projections; D with prompts. 1 - TVD is at temperature 1, the others at 0."
    return Table("points", "What every checkpoint agrees with", columns, rows, note=note)


def table_of_laws(points: Sequence[Point], p: Params) -> Table:
    """The line along each axis, and what every form says of the point that it was not shown."""
    columns = [
        Column("axis", "", "given"),
        Column("at", "", "given"),
        Column("slope per decade", "", "derived", 3),
        Column("from", "", "derived", 3),
        Column("to", "", "derived", 3),
        Column("intercept", "", "derived", 3),
        Column("R²", "", "derived", 3),
        Column("last point", "", "measured", 3),
        *(Column(f"{form}: miss", "", "derived", 3) for form in FORMS),
        Column("smallest miss", "", "derived"),
    ]
    rows: list[list[Any]] = []
    for axis, at, line in axes(points):
        if len(line) < LEAST:
            continue
        x, y = along(axis, line), [MEASURES[p.measure](point.found) for point in line]
        law, misses = loglinear(x, y), [miss(form, x, y) for form in FORMS]
        nearest = nearest_form(misses)
        rows.append([axis, at, law.slope, *slopes(axis, line, p), law.intercept, law.r2, y[-1], *misses, nearest])
    note = "A miss is what a fit to all points but the last predicts for it, less what was measured."
    return Table("laws", f"{p.measure} over the logarithm", columns, rows, note=note)


def curve(points: Sequence[Point], axis: str, p: Params) -> Figure:
    """Points with intervals, and their lines."""
    series, of = list[Series](), MEASURES[p.measure]
    for _, at, line in (row for row in axes(points) if row[0] == axis):
        x, y = along(axis, line), [of(point.found) for point in line]
        low, high = zip(*(point.interval(p.measure, p.seed) for point in line), strict=True)
        runs: list[Played | None] = [played(point, p) for point in line]
        series.append(Series(at, x, list(y), "measured", "points", low=list(low), high=list(high), runs=runs))
        if len(line) > 1:
            law = loglinear(x, y)
            series.append(Series(f"{at}: line", x, [law.at(coordinate) for coordinate in x], "derived"))
    title = {"D": "training", "N": "size"}[axis]
    unit = {"D": "tokens", "N": "parameters"}[axis]
    return Figure(title, f"{p.measure} by {title}", Axis(axis, unit, log=True), Axis(p.measure), series)


def played(point: Point, p: Params) -> Played:
    """The decoding whose drafts are those of a checkpoint."""
    return Played(decode.info.slug, beside(TARGET, point.size, point.steps), {"gamma": p.gamma})


def receipt(points: Sequence[Point], p: Params) -> Receipt:
    """The line of the largest draft, at its last point, fitted without it."""
    _, at, line = axes(points)[-2]
    x, y = along("D", line), [MEASURES[p.measure](point.found) for point in line]
    law = loglinear(x[:-1], y[:-1])
    given: dict[str, float | str] = {"a": law.slope, "b": law.intercept, "D": x[-1], "measured": y[-1]}
    return Receipt(f"{at}: the last point, not shown to the fit", "a · log10 D + b", given, law.at(x[-1]))


def resolved(points: Sequence[Point], p: Params) -> str:
    """Whether neighbours of the largest draft differ by more than half an interval."""
    _, at, line = axes(points)[-2]
    y = [MEASURES[p.measure](point.found) for point in line]
    step = min(abs(b - a) for a, b in pairwise(y))
    half = max((high - low) / 2 for low, high in (point.interval(p.measure, p.seed) for point in line))
    word = "are resolved" if step > half else "are not all resolved; ask for more prompts"
    return f"{at}: the smallest step between neighbours is {step:.3f}, half an interval up to {half:.3f}: they {word}."


def rates(times: tuple[dict[Any, float], dict[int, float]], flags: Sequence[Sequence[bool]]) -> dict[Any, float]:
    """(B, n) -> tokens per second, with the tokens of a round that the largest draft reaches."""
    target_ms, draft_ms = times
    tau = {n: of_rounds(flags, n - 1) for n in WIDTHS}
    return {(B, n): throughput(ms, draft_ms[B], tau[n], B, n) for (B, n), ms in target_ms.items()}


def of_rounds(flags: Sequence[Sequence[bool]], gamma: int) -> float:
    """Tokens of a round with windows of gamma, over all answers."""
    counts = [rounds(mine, gamma) for mine in flags]
    return sum(tokens for _, tokens in counts) / sum(n for n, _ in counts)


def batch_tables(times: tuple[dict[Any, float], dict[int, float]], flags: Sequence[Sequence[bool]]) -> list[Table]:
    """Throughput over (B, n), and n*(B)."""
    target_ms, draft_ms = times
    speeds = rates(times, flags)
    columns = [
        Column("B", "sequences", "given"),
        Column("n", "tokens", "given"),
        Column("target", "ms", "measured", 2),
        Column("draft's step", "ms", "measured", 2),
        Column("throughput", "tokens per second", "modelled", 0),
    ]
    grid: list[list[Any]] = [[B, n, ms, draft_ms[B], speeds[B, n]] for (B, n), ms in target_ms.items()]
    winners: list[list[Any]] = [[B, n, speeds[B, n] / speeds[B, 1]] for B, n in best(speeds).items()]
    best_of = [Column("B", "sequences", "given"), Column("n*", "tokens", "modelled"), Column("gain", "", "modelled", 2)]
    note = "Every sequence is taken to gain what the largest draft gains on the answers above; n = 1 drafts nothing."
    gain = "Gain: times as many tokens per second as without a draft."
    return [
        Table("batch", "Throughput by batch and tokens verified", columns, grid, note=note),
        Table("widths", "The best n by batch", best_of, winners, note=gain),
    ]


def batch_figure(times: tuple[dict[Any, float], dict[int, float]], flags: Sequence[Sequence[bool]]) -> Figure:
    """Tokens per second over n, a line per batch, each as a multiple of its own n = 1."""
    speeds = rates(times, flags)
    lines = [
        Series(f"B = {B}", [float(n) for n in WIDTHS], [speeds[B, n] / speeds[B, 1] for n in WIDTHS], "modelled")
        for B in BATCHES
    ]
    return Figure("batch", "Gain by tokens verified", Axis("n", "tokens"), Axis("times as fast as n = 1"), lines)
