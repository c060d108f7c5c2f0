"""How many rows a draft should have on this machine (arXiv:2405.18628; script/latency of its code): a
larger budget B finds more accepted tokens, and its forward takes longer. For each B the dynamic sparse trees are
searched from the measured accuracies of the prompt tokens, real runs give the time of a forward, and

    gain(B) = (1 + f(B)) * t(1) / t(B)

with f the accepted candidates that the search expects per forward, t(B) the middle time of a forward with that budget
and t(1) that of plain decoding. The B with the largest gain is this machine's."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from engines.core.errors import UserError
from engines.core.params import Int, Params, Text
from engines.core.study import Axis, Column, Figure, Progress, Receipt, Series, Study, Table, study
from engines.core.trace import Trace
from engines.methods.heads.ppd import decode
from engines.methods.heads.ppd.dynamic_tree import Trees, search

BUDGETS = (20, 24, 28, 32, 40, 48, 64)


@dataclass(frozen=True)
class Point:
    """What is known of one budget: its trees, rows of a middle forward, its time in ms and tokens per forward of the
    runs."""

    B: int
    trees: Trees
    rows: float
    ms: float
    tokens: float

    def gain(self, plain_ms: float) -> float:
        """Expected tokens per second over those of plain decoding."""
        return (1 + self.trees.score_no_wasted_step) * plain_ms / self.ms


@study(
    "row-budget",
    "How many rows a draft should have on this machine",
    "arXiv:2405.18628",
    summary="Expected tokens per forward and the measured time of a forward for seven budgets of rows, and the budget "
    "that pays most here.",
    inputs=[
        Text("model", "tiny-ar-l", help="A causal model with trained prompt tokens."),
        Text("prompt", "add: 4827 + 3169", help="What the runs continue."),
        Int("tokens", 32, 8, 256, help="Tokens of each run."),
        Int(
            "repeats",
            3,
            1,
            20,
            help="Runs of each budget, taken in turns; the middle time of all their forwards is used.",
        ),
    ],
    departures="The expectation is that of the loop as it runs, without the idle step that the released score adds "
    "after a refusal; the tree of the runs is the one that the released score picks. Time is the model's, reading the "
    "prompt left out.",
    runs_models=True,
)
def row_budget(p: Params, progress: Progress) -> Study:
    """Run plain decoding and each budget in turns, so that a slow moment hits all of them."""
    from engines import run
    from engines.driver.roles import parts_of
    from engines.models.loading.zoo import load_model

    model = load_model(p.model)
    if model.record.kind != "causal":
        raise UserError(f"'{p.model}' is a {model.record.kind} model; a draft is verified by a causal one: give that.")
    a = parts_of(decode.info, model)["prompts"].tensors["accuracy"].tolist()
    runs: dict[int, list[Trace]] = {B: [] for B in (0, *BUDGETS)}
    for repeat in range(p.repeats):
        for done, B in enumerate(runs):
            progress(repeat * len(runs) + done, p.repeats * len(runs))
            slug, given = (decode.info.slug, {"budget": B}) if B else (decode.info.baseline, {})
            given["max_new_tokens"] = p.tokens
            runs[B].append(run(slug, model, p.prompt, params=given, detail="light"))
    points = [point(B, search(a, B), runs[B]) for B in BUDGETS]
    return study_of(points, forward_ms(runs[0]), model.record)


def forward_ms(runs: Sequence[Trace]) -> float:
    """The middle time of a step's forwards behind the first, which reads the prompt."""
    if not (times := [step.model_seconds for trace in runs for step in trace.steps[1:]]):
        raise UserError("the answer ended with its first token, so no forward could be timed; give another prompt.")
    return 1e3 * median(times)


def point(B: int, trees: Trees, runs: Sequence[Trace]) -> Point:
    """A budget from its runs."""
    later = [step.facts for trace in runs for step in trace.steps[1:]]
    rows = median(facts["rows"] + facts["prompt_rows"] for facts in later)
    tokens, steps = sum(len(trace.output_ids) for trace in runs), sum(len(trace.steps) for trace in runs)
    return Point(B, trees, rows, forward_ms(runs), tokens / steps)


def study_of(points: Sequence[Point], plain_ms: float, record: Any) -> Study:
    """Table, both curves and the budget that won."""
    best = max(points, key=lambda at: at.gain(plain_ms))
    columns = [
        Column("budget B", "rows", "given"),
        Column("rows of a forward, middle", "", "measured", 0),
        Column("accepted, by the released score", "", "modelled", 3),
        Column("accepted, without idle steps", "", "modelled", 3),
        Column("tokens per forward in the runs", "", "measured", 2),
        Column("a forward, middle", "ms", "measured", 2),
        Column("gain over plain decoding", "", "modelled", 2),
    ]
    table: list[list[Any]] = []
    for at in points:
        scores = at.trees.score, at.trees.score_no_wasted_step
        table.append([at.B, at.rows, *scores, at.tokens, at.ms, at.gain(plain_ms)])
    x = [float(at.B) for at in points]
    expected = Series("expected, 1 + f(B)", x, [1 + at.trees.score_no_wasted_step for at in points], "modelled")
    measured = Series("in the runs", x, [at.tokens for at in points], "measured", "points")
    times = Series("a forward", x, [at.ms for at in points], "measured")
    plain = Series("plain decoding", x, [plain_ms] * len(x), "measured")
    budget, given = Axis("budget B"), {"f": best.trees.score_no_wasted_step, "t(1)": plain_ms, "t(B)": best.ms}
    gain, formula = f"gain at B = {best.B}, the best", "(1 + f) * t(1) / t(B)"
    note = "A gain below 1 says that on this machine no budget pays: the forwards saved take longer than they save."
    return Study(
        tables=[Table("budgets", "Seven budgets on this machine", columns, table)],
        figures=[
            Figure("tokens", "Tokens per forward", budget, Axis("tokens"), [expected, measured]),
            Figure("time", "Time of a forward", budget, Axis("ms"), [times, plain]),
        ],
        receipts=[Receipt(gain, formula, given, best.gain(plain_ms), provenance="modelled")],
        notes=[note],
        models=[record],
    )
