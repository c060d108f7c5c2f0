"""How good a draft becomes with training and with size, and how much of it a batch leaves (Scylla, arXiv:2505.07858).

The target answers held-out prompts greedily; every checkpoint of a grid of drafts reads the same answers. Acceptance is
measured in three ways, always named. A line over the logarithm is fitted, held against other forms on the point that it
was not shown, and given with an interval over prompts. At last forwards of whole batches are timed, and the best number
of tokens to verify follows for each batch; and training is timed, so that a budget of it can be planned.

The fitted constants of the paper were not available; nothing here asserts one.

speed = (1 - A^(gamma + 1)) / ((1 - A) (1 + gamma c)), the times of plain decoding: the expected tokens of a round over
its cost in forwards of the target. Letters: p the target's distribution, q the draft's, N a size, D tokens of training,
A the share of first choices that are the target's, c a step of the draft over a forward of the target, gamma drafted
tokens of a round (of a window), B sequences of a batch, n tokens verified per sequence (n = 1 drafts nothing), S texts
of at most L tokens, R answer rows of all of them, V vocabulary."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from statistics import mean, median
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from engines.core.errors import UserError
from engines.core.lazy import Tensor, torch, without_gradients
from engines.core.params import Bool, Choice, Int, Params
from engines.core.statistics import bootstrap
from engines.core.study import Axis, Column, Figure, Played, Progress, Receipt, Series, Study, Table, study
from engines.core.trace import ModelRecord
from engines.methods.speculative.speculative_sampling import decode
from engines.models.parts import Part
from engines.models.parts.grid_drafts import PART, beside
from engines.tasks import TASKS

if TYPE_CHECKING:
    from engines.models.networks.sized_draft import Size, SizedDraft


Curve = Callable[[float], float]
POWERS = tuple(i / 20 for i in range(1, 61))  # beta of the saturating form, by grid
FORMS = ("log-linear", "constant", "linear", "saturating")


@dataclass(frozen=True)
class Line:
    """y = slope log10 x + intercept, with the share of variance that it explains; None where all y are equal, so that
    there is none to explain."""

    slope: float
    intercept: float
    r2: float | None

    def at(self, x: float) -> float:
        """The prediction at x."""
        return self.slope * float(np.log10(x)) + self.intercept


def loglinear(x: Sequence[float], y: Sequence[float]) -> Line:
    """Least squares of y on log10 x. Raises UserError for fewer than two different x, or an x that has no logarithm."""
    if len(set(x)) < 2:
        raise UserError(f"a line needs two different points and {len(set(x))} is given; add points.")
    if min(x) <= 0:
        raise UserError(f"x = {min(x):g} has no logarithm; give values above 0.")
    u, v = np.log10(np.asarray(x, float)), np.asarray(y, float)
    du, dv = u - u.mean(), v - v.mean()
    slope = float(du @ dv / (du @ du))
    intercept = float(v.mean() - slope * u.mean())
    spread = float(dv @ dv)
    left = float(((v - slope * u - intercept) ** 2).sum())
    return Line(slope, intercept, 1 - left / spread if spread else None)


def fitted(form: str, x: Sequence[float], y: Sequence[float]) -> Curve:
    """One of FORMS through the points by least squares; saturating is c - k x^-beta with beta from a grid."""
    if form == "log-linear":
        return loglinear(x, y).at
    if form == "constant":
        middle = mean(y)
        return lambda _: middle
    if form == "linear":
        (slope, start), *_ = np.linalg.lstsq(np.c_[np.asarray(x, float), np.ones(len(x))], np.asarray(y), rcond=None)
        return lambda at: float(slope * at + start)
    best: tuple[float, float, float, float] | None = None
    for beta in POWERS:
        A = np.c_[np.ones(len(x)), -(np.asarray(x, float) ** -beta)]
        (c, k), *_ = np.linalg.lstsq(A, np.asarray(y, float), rcond=None)
        error = float(((A @ [c, k] - y) ** 2).sum())
        if best is None or error < best[0]:
            best = (error, float(c), float(k), beta)
    assert best is not None
    _, c, k, beta = best
    return lambda at: c - k * float(at**-beta)


def miss(form: str, x: Sequence[float], y: Sequence[float]) -> float:
    """What a fit to all points but the last one predicts for it, less what is there. Raises UserError for fewer than
    three points: there is nothing to leave out."""
    if len(x) < 3:
        raise UserError(f"{len(x)} points are given; an extrapolation is tested on three or more, so add points.")
    return fitted(form, x[:-1], y[:-1])(x[-1]) - y[-1]


@dataclass(frozen=True)
class Found:
    """A draft on one prompt's answer: rows with the same first choice, the sum over rows of sum min(p, q), rows, and
    rounds and tokens of greedy speculation with windows of gamma."""

    same: int
    shared: float
    rows: int
    rounds: int
    tokens: int


def rounds(same: Sequence[bool], gamma: int) -> tuple[int, int]:
    """(rounds, tokens) of greedy speculation over an answer: same[t] says whether the draft's first choice behind t
    tokens of the target's greedy answer is the target's. A round keeps what agrees in a window, and one token more."""
    t = count = 0
    while t < len(same):
        kept = 0
        while kept < gamma and t + kept < len(same) and same[t + kept]:
            kept += 1
        t, count = min(t + kept + 1, len(same)), count + 1
    return count, len(same)


MEASURES: Mapping[str, Callable[[Sequence[Found]], float]] = {
    "tokens per model call": lambda agreements: sum(f.tokens for f in agreements) / sum(f.rounds for f in agreements),
    "same first choice": lambda agreements: sum(f.same for f in agreements) / sum(f.rows for f in agreements),
    "1 - TVD": lambda agreements: sum(f.shared for f in agreements) / sum(f.rows for f in agreements),
}


def interval(agreements: Sequence[Found], measure: str, seed: int, resamples: int = 1000) -> tuple[float, float]:
    """The middle 95 % of a measure over prompts drawn again with replacement."""
    return bootstrap(agreements, MEASURES[measure], resamples=resamples, seed=seed)


def throughput(target_ms: float, draft_ms: float, tau: float, B: int, n: int) -> float:
    """Tokens per second of B sequences that verify n tokens each: B tau / (t_target + (n - 1) t_draft); n = 1 is plain
    decoding. tau: tokens of a round with n - 1 drafts; times are those of a forward of all B sequences."""
    return 1e3 * B * tau / (target_ms + (n - 1) * draft_ms)


def best(rates: Mapping[tuple[int, int], float]) -> dict[int, int]:
    """n*(B): for every B of (B, n) -> tokens per second the n with the most; the smallest of equals."""
    return {
        B: max((n for b, n in rates if b == B), key=lambda n: (rates[B, n], -n)) for B in sorted({b for b, _ in rates})
    }


CONTEXT, TURNS = 64, 3
WINDOWS = range(1, 9)  # gamma
SPREAD = tuple(2.0**i for i in range(-6, 7))  # of the budgets in the figure, around the one that was asked for
ROWS, TOKENS = 8, 64  # of a timed step of training


@dataclass(frozen=True)
class Answers:
    """The target's greedy answers to held-out prompts: ids [S, L] filled up behind each text, the rows whose next token
    is an answer's (text, place), those tokens [R], p [R, V], and the rows of each prompt."""

    ids: Tensor
    rows: Tensor
    wanted: Tensor
    p: Tensor
    counts: list[int]


def held_out(prompts: int, seed: int) -> list[str]:
    """Prompts of all tasks in turn, none of which anything was trained on."""
    streams = [task.generate("held-out", seed) for task in TASKS.values()]
    return [next(streams[i % len(streams)]).prompt for i in range(prompts)]


@without_gradients
def answers(model: Any, prompts: Sequence[str], tokens: int) -> Answers:
    """Let the target write, and read all texts once more together."""
    texts, rows, wanted, counts = list[list[int]](), list[list[int]](), list[int](), list[int]()
    for text in prompts:
        prompt = model.tokenizer.encode_prompt(text)
        ids, cache = list(prompt), model.new_cache(len(prompt) + tokens)
        while len(ids) < len(prompt) + tokens and not (len(ids) > len(prompt) and ids[-1] in model.eos_ids):
            ids.append(int(model.extend(ids[cache.length :], cache, last_only=True).logits[0].argmax()))
        rows += [[len(texts), t] for t in range(len(prompt) - 1, len(ids) - 1)]
        wanted += ids[len(prompt) :]
        counts.append(len(ids) - len(prompt))
        texts.append(ids)
    longest = max(map(len, texts))
    ids = torch.tensor([[*text, *[0] * (longest - len(text))] for text in texts])
    at = torch.tensor(rows)
    z = model.model(input_ids=ids, use_cache=False).logits[at[:, 0], at[:, 1]]
    return Answers(ids, at, torch.tensor(wanted), z.double().softmax(-1), counts)


def checkpoints(part: Part, embedding: Tensor, positions: int) -> Iterator[tuple[Size, int, int, SizedDraft]]:
    """(size, steps, tokens read in training, draft) of every checkpoint, small ones and short trainings first."""
    from engines.models.networks.sized_draft import SIZES
    from engines.models.parts.grid_drafts import network_of

    for size in SIZES:
        for step, read in part.card["checkpoints"].items():
            yield size, int(step), int(read), network_of(part, f"{size.name}.{step}", embedding, positions)


@without_gradients
def compared(draft: SizedDraft, reference: Answers, gamma: int) -> tuple[list[Found], list[list[bool]]]:
    """What a draft agrees with, prompt by prompt, and row by row its first choice."""
    states = draft.states(reference.ids)[reference.rows[:, 0], reference.rows[:, 1]]
    q = (states @ draft.E.T).double().softmax(-1)  # type: ignore[operator]
    same = (q.argmax(-1) == reference.wanted).tolist()
    shared = torch.minimum(reference.p, q).sum(-1).tolist()
    agreements, flags, start = list[Found](), list[list[bool]](), 0
    for n in reference.counts:
        mine = same[start : start + n]
        agreements.append(Found(sum(mine), sum(shared[start : start + n]), n, *rounds(mine, gamma)))
        flags.append(mine)
        start += n
    return agreements, flags


@without_gradients
def timed(
    model: Any,
    draft: SizedDraft,
    sizes: Sequence[int],
    widths: Sequence[int],
    between: Callable[[], object] = lambda: None,
) -> tuple[dict[Any, float], Any]:
    """Middle milliseconds of a forward of the target on n new rows of B sequences behind CONTEXT tokens, by (B, n), and
    of one step of the draft, by B; all in turns, the caches cropped in between. `between` is called before each
    batch, untimed: a stop is heard there."""
    from transformers import DynamicCache

    E: Any = draft.E
    target_ms: dict[tuple[int, int], list[float]] = {(B, n): [] for B in sizes for n in widths}
    draft_ms: dict[int, list[float]] = {B: [] for B in sizes}
    caches = {}
    for B in sizes:
        ids = torch.full((B, CONTEXT), 20)
        ours, theirs = DynamicCache(), DynamicCache()
        model.model(input_ids=ids, past_key_values=ours, use_cache=True)
        draft.body(inputs_embeds=draft.W_in(E[ids]), past_key_values=theirs, use_cache=True)
        caches[B] = ours, theirs
    for _ in range(TURNS):
        for B, (ours, theirs) in caches.items():
            between()
            for n in widths:
                began = time.perf_counter()
                model.model(input_ids=torch.full((B, n), 20), past_key_values=ours, use_cache=True)
                target_ms[B, n].append(1e3 * (time.perf_counter() - began))
                ours.crop(-n)  # so many off its end
            began = time.perf_counter()
            x = draft.W_in(E[torch.full((B, 1), 20)])
            draft.W_out(draft.body(inputs_embeds=x, past_key_values=theirs, use_cache=True).last_hidden_state) @ E.T
            draft_ms[B].append(1e3 * (time.perf_counter() - began))
            theirs.crop(-1)
    return {k: median(v) for k, v in target_ms.items()}, {B: median(v) for B, v in draft_ms.items()}


@without_gradients
def steps_timed(model: Any, drafts: Mapping[str, SizedDraft]) -> tuple[float, dict[str, float]]:
    """Middle milliseconds of a forward of the target on one new row, and of a step of each draft, in turns."""
    every = {name: timed(model, draft, (1,), (1,)) for name, draft in drafts.items()}
    return median(target[1, 1] for target, _ in every.values()), {name: step[1] for name, (_, step) in every.items()}


# --- the plan


@dataclass(frozen=True)
class Offer:
    """A size: its line A(log10 D), the trained tokens per second of this machine, c, and the longest training that the
    line has seen."""

    size: str
    line: Line
    tokens_per_s: float
    c: float
    seen: float

    def at(self, seconds: float) -> tuple[float, float, int, float]:
        """(D, A, gamma, speed) of the best window for so much training."""
        D = max(1.0, seconds * self.tokens_per_s)
        A = min(max(self.line.at(D), 0.0), 0.99)
        gamma = max(WINDOWS, key=lambda g: (speed(A, self.c, g), -g))
        return D, A, gamma, speed(A, self.c, gamma)


def speed(A: float, c: float, gamma: int) -> float:
    """Times of plain decoding; A below 1."""
    return (1 - A ** (gamma + 1)) / ((1 - A) * (1 + gamma * c))


def trained_per_second(drafts: Sequence[SizedDraft]) -> list[float]:
    """Tokens per second of a step of training (forward, backward, update) of each draft, in turns, the middle one. The
    drafts change meanwhile: give copies."""
    seconds: list[list[float]] = [[] for _ in drafts]
    updates = [torch.optim.AdamW(draft.requires_grad_(True).train().parameters(), lr=1e-4) for draft in drafts]
    ids = torch.full((ROWS, TOKENS), 20)
    for _ in range(TURNS + 1):  # the first one is slower: the optimiser makes its state
        for draft, update, mine in zip(drafts, updates, seconds, strict=True):
            began = time.perf_counter()
            update.zero_grad()
            draft(ids).logsumexp(-1).mean().backward()
            update.step()
            mine.append(time.perf_counter() - began)
    return [ROWS * TOKENS / median(mine[1:]) for mine in seconds]


def plan_table(offers: Sequence[Offer], seconds: float) -> Table:
    """What the budget buys with each size, and which one it is best spent on."""
    columns = [
        Column("draft", "", "given"),
        Column("trained", "tokens per second", "measured", 0),
        Column("D", "tokens", "derived", 0),
        Column("beyond the longest training", "times", "derived", 1),
        Column("A", "", "modelled", 3),
        Column("c", "", "measured", 3),
        Column("best γ", "tokens", "modelled"),
        Column("speed", "times plain", "modelled", 2),
        Column("chosen", "", "derived"),
    ]
    plans = {offer.size: offer.at(seconds) for offer in offers}
    chosen = max(plans, key=lambda size: plans[size][3])
    rows: list[list[Any]] = []
    for offer in offers:
        D, A, gamma, times = plans[offer.size]
        rows.append([offer.size, offer.tokens_per_s, D, D / offer.seen, A, offer.c, gamma, times, offer.size == chosen])
    note = (
        "A comes from the size's own line, at most 0.99; more than 1 in the fourth column is an extrapolation. The "
        "target's answers and their probabilities are not counted into the budget."
    )
    return Table("plan", f"What {seconds:g} seconds of training buy here", columns, rows, note=note)


def plan_figure(offers: Sequence[Offer], seconds: float) -> Figure:
    """The speed of each size by budget: which line is on top changes."""
    budgets = [seconds * part for part in SPREAD]
    lines = [Series(offer.size, budgets, [offer.at(s)[3] for s in budgets], "modelled") for offer in offers]
    across = Axis("training", "seconds", log=True)
    return Figure("plan", "Speed by seconds of training", across, Axis("times as fast as plain decoding"), lines)


def offers_of(
    drafts: Mapping[str, SizedDraft],
    lines: Mapping[str, Line],
    step_ms: Mapping[str, float],
    target_ms: float,
    D: float,
) -> list[Offer]:
    """What each size has to offer. drafts: the longest trained of each, which are changed; step_ms: a step of it,
    target_ms: a forward of the target on one row; D: tokens of the longest training."""
    rates = trained_per_second(list(drafts.values()))
    return [
        Offer(size, lines[size], rate, step_ms[size] / target_ms, D) for size, rate in zip(drafts, rates, strict=True)
    ]


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
    by_prompt: list[Found]
    spans: dict[str, tuple[float, float]] = field(default_factory=dict, compare=False)

    def interval(self, measure: str, seed: int) -> tuple[float, float]:
        """See `interval`; made once, for every figure is drawn again behind each new point."""
        if measure not in self.spans:
            self.spans[measure] = interval(self.by_prompt, measure, seed)
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
    target_answers = answers(model, held_out(p.prompts, p.seed), p.tokens)
    progress(1, 30)
    E, lengths = model.model.get_input_embeddings().weight, sorted(part.card["checkpoints"].values())[: p.points]
    points, largest, flags, longest = list[Point](), None, list[list[bool]](), dict[str, Any]()
    for size, steps, D, draft in checkpoints(part, E, model.max_positions):
        if D in lengths:
            largest, (agreements, flags) = draft, compared(draft, target_answers, p.gamma)
            longest[size.name] = draft
            points.append(Point(size.name, steps, size.body, D, agreements))
            progress(1 + len(points), 30, partial(so_far, tuple(points), sum(target_answers.counts), p, model.record))
    known = so_far(points, sum(target_answers.counts), p, model.record)
    tables, figures = known.tables, known.figures
    if p.batch:
        times = timed(model, largest, BATCHES, WIDTHS, lambda: progress(1 + len(points), 30))
        tables, figures = [*tables, *batch_tables(times, flags)], [*figures, batch_figure(times, flags)]
    if p.budget:
        target_ms, steps_ms = steps_timed(model, longest)
        offers = offers_of(longest, lines_of(points), steps_ms, target_ms, max(lengths))
        tables, figures = [*tables, plan_table(offers, p.budget)], [*figures, plan_figure(offers, p.budget)]
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
        at: loglinear(along(axis, line), [of(point.by_prompt) for point in line])
        for axis, at, line in axes(points)
        if axis == "D"
    }


def slopes(axis: str, line: Sequence[Point], p: Params) -> tuple[float, float]:
    """The middle 95 % of the slope per decade, prompts drawn again, the same ones for every point."""
    rng, of, x = random.Random(p.seed), MEASURES[p.measure], along(axis, line)
    values = []
    for _ in range(RESAMPLES):
        drawn = rng.choices(range(p.prompts), k=p.prompts)
        values.append(loglinear(x, [of([point.by_prompt[i] for i in drawn]) for point in line]).slope)
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
            cells += [of(point.by_prompt), *point.interval(name, p.seed)]
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
        x, y = along(axis, line), [MEASURES[p.measure](point.by_prompt) for point in line]
        law, misses = loglinear(x, y), [miss(form, x, y) for form in FORMS]
        nearest = nearest_form(misses)
        rows.append([axis, at, law.slope, *slopes(axis, line, p), law.intercept, law.r2, y[-1], *misses, nearest])
    note = "A miss is what a fit to all points but the last predicts for it, less what was measured."
    return Table("laws", f"{p.measure} over the logarithm", columns, rows, note=note)


def curve(points: Sequence[Point], axis: str, p: Params) -> Figure:
    """Points with intervals, and their lines."""
    series, of = list[Series](), MEASURES[p.measure]
    for _, at, line in (row for row in axes(points) if row[0] == axis):
        x, y = along(axis, line), [of(point.by_prompt) for point in line]
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
    x, y = along("D", line), [MEASURES[p.measure](point.by_prompt) for point in line]
    law = loglinear(x[:-1], y[:-1])
    given: dict[str, float | str] = {"a": law.slope, "b": law.intercept, "D": x[-1], "measured": y[-1]}
    return Receipt(f"{at}: the last point, not shown to the fit", "a · log10 D + b", given, law.at(x[-1]))


def resolved(points: Sequence[Point], p: Params) -> str:
    """Whether neighbours of the largest draft differ by more than half an interval."""
    _, at, line = axes(points)[-2]
    y = [MEASURES[p.measure](point.by_prompt) for point in line]
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
