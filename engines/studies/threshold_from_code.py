"""At which entropy a code model's first choice stops being the reference's: the learned threshold of AdaDec
(arXiv:2506.08980, official `logistic_regression.py`), from functions of Python's standard library.

A reference is fed as it stands, so one forward gives the entropy at each of its tokens and whether the model would have
written it. A logistic regression of the one on the other, balanced, and the cut that is right most often on a fifth
that was left out, give the threshold."""

from __future__ import annotations

import math

from engines.core.errors import UserError
from engines.core.params import Int, Params, Text
from engines.core.study import Axis, Column, Figure, Progress, Receipt, Series, Study, Table, study
from engines.core.trace import ModelRecord
from engines.studies._threshold import GRID, Learned, auc, learn, references, split, statistics

WIDTH, TOP = 0.25, 8.0  # nats of a bar, and where the histograms end


@study(
    "threshold-from-code",
    "Learn a threshold from reference code",
    "arXiv:2506.08980",
    summary="Where a model's first choice stops being the reference's: two histograms of entropy, and the threshold "
    "between them.",
    inputs=[
        Text("model", "smollm2", help="The model whose threshold is learned; one learned for another does not fit."),
        Int("functions", 110, 4, 200, help="Functions of the standard library that are read, 0.4 s each."),
        Int("seed", 42, 0, 10_000, help="How the steps are split and drawn down.", source="official code"),
    ],
    departures="Functions of the standard library instead of BigCodeBench; bodies are cut at 160 tokens.",
    runs_models=True,
)
def threshold_from_code(p: Params, progress: Progress) -> Study:
    """Feed the references, fit, and tell."""
    from engines.models.zoo import load_model

    model, texts = load_model(p.model), list(references(p.functions))
    if model.record.kind != "causal":
        raise UserError(
            f"'{p.model}' is a {model.record.kind} model; a reference is read from left to right: give a causal one."
        )
    H, rank1 = list[float](), list[int]()
    for done, (prompt, reference) in enumerate(texts):
        progress(done, len(texts))
        found = statistics(model, prompt, reference)
        H, rank1 = H + found[0], rank1 + found[1]
    return told(H, rank1, len(texts), learn(*split(H, rank1, p.seed)), model.record)


def told(H: list[float], rank1: list[int], functions: int, learned: Learned, record: ModelRecord) -> Study:
    """The record. H: entropies in nats; rank1: 1 where the reference is the first choice."""
    first, others = ([h for h, y in zip(H, rank1, strict=True) if y == one] for one in (1, 0))
    pauses = sum(h >= learned.threshold for h in H) / len(H)
    rows: list[list[str | float | int | bool | None]] = [
        ["functions", functions],
        ["tokens", len(H)],
        ["share at rank 1", len(first) / len(H)],
        ["mean entropy at rank 1, nats", sum(first) / len(first)],
        ["mean entropy elsewhere, nats", sum(others) / len(others)],
        ["area under the curve", auc(H, rank1)],
        ["accuracy on the fifth left out", learned.accuracy],
        ["threshold, nats", learned.threshold],
        ["share of steps that would pause", pauses],
    ]
    columns = [Column("quantity"), Column("value", "", "measured", 3)]
    receipt = Receipt(
        "threshold",
        "(log(p / (1 - p)) - intercept) / coefficient",
        {"p": learned.p_star, "intercept": learned.intercept, "coefficient": learned.coef},
        learned.threshold,
        "nats",
    )
    return Study(
        tables=[Table("threshold", "What was learned", columns, rows)],
        figures=[histograms(first, others, learned), accuracies(learned)],
        receipts=[receipt],
        models=[record],
    )


def accuracies(learned: Learned) -> Figure:
    """How often the rule P(rank 1 | H) >= p is right on the fifth that was left out, for each p that was tried."""
    tried: list[float | None] = list(learned.tried)
    return Figure(
        "accuracies",
        "How often each p is right on the fifth left out",
        Axis("p"),
        Axis("accuracy"),
        [
            Series("accuracy", list(GRID), tried, "measured"),
            Series("p*", [learned.p_star] * 2, [min(learned.tried), learned.accuracy], "derived"),
        ],
        note="The first p with the best accuracy is p*; the fifth is not balanced, the steps of the fit are.",
    )


def histograms(first: list[float], others: list[float], learned: Learned) -> Figure:
    """Shares of each group by entropy, the last bar with all above, and the fitted chance of rank 1 with its line."""
    edges = [i * WIDTH for i in range(int(TOP / WIDTH))]

    def shares(values: list[float]) -> list[float | None]:
        counts = [0] * len(edges)
        for value in values:
            counts[min(int(value / WIDTH), len(edges) - 1)] += 1
        return [n / len(values) for n in counts]

    chance: list[float | None] = [1 / (1 + math.exp(-(learned.coef * x + learned.intercept))) for x in edges]
    middles = [x + WIDTH / 2 for x in edges]
    return Figure(
        "histograms",
        "Entropy where the reference is the first choice, and elsewhere",
        Axis("entropy", "nats"),
        Axis("share of the group; chance of rank 1"),
        [
            Series("first choice", middles, shares(first), "measured", "steps"),
            Series("another one", middles, shares(others), "measured", "steps"),
            Series("fitted chance of rank 1", edges, chance, "derived"),
            Series("threshold", [learned.threshold] * 2, [0.0, 1.0], "derived"),
        ],
        note="Where the fitted chance falls to p*, the threshold stands.",
    )
