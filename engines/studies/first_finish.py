"""Does the first of several samples to finish know more? (arXiv:2505.18149): accuracy, waiting and writing of First
Finish Search, of votes of the shortest and of all, and of the longest sample, over the same samples; lengths of right
and wrong ones with a normal distribution fitted to each, and the share that is right at each length."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from engines.core.errors import UserError
from engines.core.kinds.causal import CausalLM
from engines.core.params import Choice, Float, Int, Params, Text
from engines.core.statistics import mean_interval, wilson
from engines.core.study import Axis, Column, Figure, Progress, Receipt, Series, Study, Table, study
from engines.core.trace import ModelRecord
from engines.methods.reasoning._votes import Vote
from engines.methods.reasoning.ffs.finish import Trace, chosen, cutoff, first, votes

BINS = 12  # of lengths
MOST = 96  # tokens of a sample


@dataclass(frozen=True)
class Asked:
    """A problem: its right answer and the samples, in the order of their numbers."""

    answer: str
    traces: list[Trace]

    def right(self, trace: Trace) -> bool:
        """Whether a sample came to its end with the right answer."""
        return trace.answer == self.answer


@study(
    "first-finish",
    "Does the first to finish know more?",
    "arXiv:2505.18149",
    summary="Accuracy, waiting and writing of the first to finish, of votes and of the longest, over the same samples.",
    inputs=[
        Text("model", "tiny-reasoner", help="A causal model that was trained on the task."),
        Choice("task", "chain", ["chain", "add", "subtract", "problem"], help="Whose held-out problems are asked."),
        Int("problems", 100, 10, 400, help="Held-out problems, in the order of their generator."),
        Int("n", 8, 2, 32, help="Samples of each problem."),
        Float("temperature", 1.0, 0.1, 2.0, step=0.05, help="Of all samples."),
        Int("seed", 0, 0, 10_000, help="Problems and samples."),
    ],
    departures="The tiny reasoners learnt the traces of a synthetic overthinker: their long traces are worse by "
    "construction. What is seen here shows the method at work and is no evidence about real reasoners.",
    runs_models=True,
)
def first_finish(p: Params, progress: Progress) -> Study:
    """Sample, then decide by each rule."""
    from engines.models.zoo import load_model
    from engines.tasks import CHAINS, TASKS

    model = load_model(p.model)
    if model.record.kind != "causal":
        raise UserError(f"'{p.model}' is a {model.record.kind} model; paths are sampled from a causal one: give that.")
    task = CHAINS if p.task == CHAINS.slug else TASKS[p.task]
    asked = list[Asked]()
    for done, example in enumerate(islice(task.generate("held-out", p.seed), p.problems)):
        progress(done, p.problems)
        asked.append(Asked(example.answer.split()[-1], sampled(model, example.prompt, p, p.seed + done)))
    return told(asked, p.n, model.record)


def sampled(model: CausalLM, prompt: str, p: Params, seed: int) -> list[Trace]:
    """The n samples of a problem, all let finish, through the method's own run."""
    from engines import run
    from engines.methods.reasoning.ffs import decode

    params = {"n": p.n, "temperature": p.temperature, "max_new_tokens": MOST, "let_finish": True}
    prompt = prompt.removeprefix("chain: ")
    trace = run(decode.info.slug, model, prompt, params=params, seed=seed, detail="light")
    lengths = {branch.id: branch.length for step in trace.steps for branch in step.branches}
    vote = trace.steps[-1].record("vote", Vote)
    assert vote is not None
    said = {id: vote.answers[of] if of >= 0 else None for id, of in zip(vote.voters, vote.of, strict=True)}
    ended = {branch.id for step in trace.steps for branch in step.branches if branch.fate in ("finished", "chosen")}
    return [Trace(lengths[id], said[id], id in ended) for id in vote.voters]


def decided(one: Asked, k: int) -> tuple[bool, float, float]:
    """(right, tokens waited for, tokens written) of a vote of the shortest k, at k = 1 of the first to end; all stop
    when the k-th has ended."""
    if k == 1 and (found := first(one.traces)) is not None:
        waited, said = one.traces[found].length, one.traces[found].answer
    else:
        waited, said = cutoff(one.traces, k), chosen(votes(one.traces, k))
    return said == one.answer, waited, sum(min(trace.length, waited) for trace in one.traces)


def longest(one: Asked) -> tuple[bool, float, float]:
    """The same of the longest that ended, for which all are waited."""
    ended = [trace for trace in one.traces if trace.answer is not None]
    right = bool(ended) and one.right(max(ended, key=lambda trace: trace.length))
    return right, max(t.length for t in one.traces), sum(t.length for t in one.traces)


def single(one: Asked) -> tuple[float, float, float]:
    """One sample, in the mean over all."""
    length = float(np.mean([trace.length for trace in one.traces]))
    return float(np.mean([one.right(trace) for trace in one.traces])), length, length


def spread(values: Sequence[float]) -> tuple[float, float, float]:
    """The mean over problems and its 95 % interval: Wilson's where each is right or wrong, Student's otherwise."""
    if set(values) <= {0.0, 1.0}:
        return sum(values) / len(values), *wilson(int(sum(values)), len(values))
    mean, low, high = mean_interval(values)
    return mean, max(0.0, low), min(1.0, high)


def against(values: Sequence[float], base: Sequence[float]) -> tuple[float, float, float]:
    """How much more is right than by another rule on the same problems: the mean difference and its 95 % interval."""
    return mean_interval([a - b for a, b in zip(values, base, strict=True)])


def told(asked: Sequence[Asked], n: int, record: ModelRecord) -> Study:
    """The table of the rules, and both figures."""
    ks = sorted({k for k in (1, 2, 3, 5, n) if k <= n})
    names = {1: "first to finish", n: "vote of all"}
    found = {"one sample": [single(one) for one in asked]}
    found |= {names.get(k, f"vote of the shortest {k}"): [decided(one, k) for one in asked] for k in ks}
    found["longest"] = [longest(one) for one in asked]
    rows: list[list[str | float | int | bool | None]] = []
    alone = [right for right, _, _ in found["one sample"]]
    for rule, per in found.items():
        right, waits, writes = ([float(one) for one in column] for column in zip(*per, strict=True))
        more = against(right, alone) if rule != "one sample" else (None, None, None)
        rows.append([rule, *spread(right), float(np.mean(waits)), float(np.mean(writes)), *more])
    same = [str(row[0]) for row in rows if row[6] is not None and float(str(row[7])) <= 0 <= float(str(row[8]))]
    columns = [
        Column("rule", "", "given"),
        Column("right", "", "measured", 3),
        Column("from", "", "derived", 3),
        Column("to", "", "derived", 3),
        Column("waiting", "tokens", "measured", 1),
        Column("writing", "tokens", "measured", 1),
        Column("more than one sample", "", "measured", 3),
        Column("more from", "", "derived", 3),
        Column("more to", "", "derived", 3),
    ]
    waiting = {str(row[0]): float(str(row[4])) for row in rows}
    by_first, by_all = waiting["first to finish"], waiting["vote of all"]
    return Study(
        tables=[Table("rules", "The same samples by each rule, means over the problems", columns, rows)],
        figures=[lengths(asked), shares(asked)],
        receipts=[
            Receipt(
                "waiting",
                "tokens until the first has ended / tokens until all have ended",
                {"first": by_first, "all": by_all},
                by_first / by_all,
            )
        ],
        notes=[
            "A sample that was cut off, or gives no answer, counts as wrong and takes part in no rule.",
            "More than one sample is the difference on the same problems, with its 95 % interval over them (Student's "
            f"t). Not told apart from one sample by {len(asked)} problems: {', '.join(same) or 'none'}.",
        ],
        models=[record],
    )


def lengths(asked: Sequence[Asked]) -> Figure:
    """Lengths of the samples, right and wrong apart, with a normal density of each, scaled to the counts."""
    edges, width = bins(asked)
    centres, series = [float(edge + width / 2) for edge in edges[:-1]], list[Series]()
    for name, kind in (("right", True), ("wrong", False)):
        own = [trace.length for one in asked for trace in one.traces if one.right(trace) == kind]
        counts = np.histogram(own, edges)[0]
        series.append(Series(name, centres, [float(count) for count in counts], "measured", style="points"))
        if len(own) > 1 and (sd := float(np.std(own, ddof=1))) > 0:
            mean, scale = float(np.mean(own)), len(own) * width / (sd * math.sqrt(2 * math.pi))
            density: list[float | None] = [scale * math.exp(-0.5 * ((x - mean) / sd) ** 2) for x in centres]
            fitted = f"normal fitted to {name}: mean {mean:.1f}, deviation {sd:.1f}"
            series.append(Series(fitted, centres, density, "derived"))
    return Figure("lengths", "Lengths of right and wrong samples", Axis("length", "tokens"), Axis("samples"), series)


def shares(asked: Sequence[Asked]) -> Figure:
    """The share of right samples at each length, with its 95 % interval (Wilson)."""
    edges, width = bins(asked)
    x, y, low, high, text = list[float](), list[float | None](), list[float](), list[float](), list[str]()
    for left in edges[:-1]:
        own = [one.right(t) for one in asked for t in one.traces if left <= t.length < left + width]
        if not own:
            continue
        x.append(float(left + width / 2))
        y.append(sum(own) / len(own))
        for ends, end in zip((low, high), wilson(sum(own), len(own)), strict=True):
            ends.append(end)
        text.append(f"{sum(own)} of {len(own)}")
    points = Series("share right", x, y, "measured", style="points", low=low, high=high, text=text)
    return Figure(
        "shares", "Are long samples worse?", Axis("length", "tokens"), Axis("share right"), [points],
        note="Where the line falls, the first to finish is a good choice; where it does not, it is not.",
    )  # fmt: skip


def bins(asked: Sequence[Asked]) -> tuple[np.ndarray, float]:
    """Edges of the lengths, and the width of a bin."""
    all_lengths = [trace.length for one in asked for trace in one.traces]
    edges = np.linspace(min(all_lengths), max(all_lengths) + 1, BINS + 1)
    return edges, float(edges[1] - edges[0])
