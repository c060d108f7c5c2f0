"""At which entropy a code model's first choice stops being the reference's: the learned threshold of AdaDec
(arXiv:2506.08980, official `logistic_regression.py`), from functions of Python's standard library.

A reference is fed as it stands, so one forward gives the entropy at each of its tokens and whether the model would have
written it. A logistic regression of the one on the other, balanced, and the cut that is right most often on a fifth
that was left out, give the threshold."""

from __future__ import annotations

import ast
import importlib.util
import math
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from engines.core.params import Int, Params, Text
from engines.core.study import Axis, Column, Figure, Progress, Receipt, Series, Study, Table, study
from engines.core.trace import ModelRecord
from engines.kit import CausalLM, UserError, entropy, torch

MODULES = (
    "textwrap bisect heapq statistics string shlex fnmatch posixpath calendar colorsys keyword copy random".split()
)
GRID = [i / 100 for i in range(1, 100)]
LONGEST = 160  # tokens of a body that are read
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
    from engines.models.loading.zoo import load_model

    model, texts = load_model(p.model), list(references(p.functions))
    if model.record.kind != "causal":
        raise UserError(
            f"'{p.model}' is a {model.record.kind} model; a reference is read from left to right: give a causal one."
        )
    H, rank1 = list[float](), list[int]()
    for done, (prompt, reference) in enumerate(texts):
        progress(done, len(texts))
        stats = statistics(model, prompt, reference)
        H, rank1 = H + stats[0], rank1 + stats[1]
    return study_of(H, rank1, len(texts), learn(*split(H, rank1, p.seed)), model.record)


def study_of(H: list[float], rank1: list[int], functions: int, learned: Learned, record: ModelRecord) -> Study:
    """The record. H: entropies in nats; rank1: 1 where the reference is the first choice."""
    first, others = ([h for h, y in zip(H, rank1, strict=True) if y == label] for label in (1, 0))
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
    given = {"p": learned.p_star, "intercept": learned.intercept, "coefficient": learned.coef}
    formula = "(log(p / (1 - p)) - intercept) / coefficient"
    receipt = Receipt("threshold", formula, given, learned.threshold, "nats")
    return Study(
        tables=[Table("threshold", "What was learned", columns, rows)],
        figures=[histograms(first, others, learned), accuracies(learned)],
        receipts=[receipt],
        models=[record],
    )


def accuracies(learned: Learned) -> Figure:
    """How often the rule P(rank 1 | H) >= p is right on the fifth that was left out, for each p that was tried."""
    series = [
        Series("accuracy", [*GRID], [*learned.tried], "measured"),
        Series("p*", [learned.p_star] * 2, [min(learned.tried), learned.accuracy], "derived"),
    ]
    title = "How often each p is right on the fifth left out"
    note = "The first p with the best accuracy is p*; the fifth is not balanced, the steps of the fit are."
    return Figure("accuracies", title, Axis("p"), Axis("accuracy"), series, note=note)


def histograms(first: list[float], others: list[float], learned: Learned) -> Figure:
    """Shares of each group by entropy, the last bar with all above, and the fitted chance of rank 1 with its line."""
    edges = [i * WIDTH for i in range(int(TOP / WIDTH))]

    def shares(values: list[float]) -> list[float | None]:
        counts = Counter(min(int(value / WIDTH), len(edges) - 1) for value in values)
        return [counts[i] / len(values) for i in range(len(edges))]

    chance: list[float | None] = [1 / (1 + math.exp(-(learned.coef * x + learned.intercept))) for x in edges]
    middles = [x + WIDTH / 2 for x in edges]
    series = [
        Series("first choice", middles, shares(first), "measured", "steps"),
        Series("another one", middles, shares(others), "measured", "steps"),
        Series("fitted chance of rank 1", edges, chance, "derived"),
        Series("threshold", [learned.threshold] * 2, [0.0, 1.0], "derived"),
    ]
    title, note = (
        "Entropy where the reference is the first choice, and elsewhere",
        "Where the fitted chance falls to p*, the threshold stands.",
    )
    across, up = Axis("entropy", "nats"), Axis("share of the group; chance of rank 1")
    return Figure("histograms", title, across, up, series, note=note)


@dataclass(frozen=True)
class Learned:
    """P(rank 1 | H) = 1 / (1 + exp(-(coef H + intercept))), and where it crosses p_star. Entropies in nats. tried: the
    accuracy at each p of GRID."""

    coef: float
    intercept: float
    p_star: float
    accuracy: float
    threshold: float
    tried: tuple[float, ...] = ()


def fit(H: Sequence[float], rank1: Sequence[int], C: float = 1.0) -> tuple[float, float]:
    """(coefficient, intercept) of a logistic regression with an L2 penalty on the coefficient, as scikit-learn fits it
    by default; by Newton's method. Raises UserError where only one class is there."""
    if len(set(rank1)) < 2:
        raise UserError("a threshold needs steps where the reference is the first choice, and steps where it is not.")
    x = torch.stack([torch.tensor(H, dtype=torch.float64), torch.ones(len(H), dtype=torch.float64)], 1)  # [n, 2]
    y, w = torch.tensor(rank1, dtype=torch.float64), torch.zeros(2, dtype=torch.float64)
    penalty = torch.tensor([1 / C, 0.0], dtype=torch.float64)
    for _ in range(100):
        p = (x @ w).sigmoid()
        gradient = x.T @ (p - y) + penalty * w
        move = torch.linalg.solve(x.T @ (x * (p * (1 - p))[:, None]) + penalty.diag(), gradient)
        w = w - move
        if float(move.abs().max()) < 1e-10:
            break
    return float(w[0]), float(w[1])


def learn(H: Sequence[float], rank1: Sequence[int], test_H: Sequence[float], test_rank1: Sequence[int]) -> Learned:
    """Fit on a balanced set; then the first p of the grid whose rule P(rank 1 | H) >= p is right most often on the
    test set, which is not balanced."""
    coef, intercept = fit(H, rank1)
    p = (torch.tensor(test_H, dtype=torch.float64) * coef + intercept).sigmoid()
    right = [float(((p >= at) == torch.tensor(test_rank1).bool()).double().mean()) for at in GRID]
    best = max(range(len(GRID)), key=lambda i: right[i])
    crossing = (torch.tensor(GRID[best], dtype=torch.float64).logit().item() - intercept) / coef
    return Learned(coef, intercept, GRID[best], right[best], round(crossing, 6), tuple(right))


def split(
    H: Sequence[float], rank1: Sequence[int], seed: int = 42
) -> tuple[list[float], list[int], list[float], list[int]]:
    """80 % for training, its larger class drawn down to the size of the smaller one; 20 % for the test."""
    rng = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(H), generator=rng).tolist()
    train, test = order[: len(order) * 4 // 5], order[len(order) * 4 // 5 :]
    classes = [[i for i in train if rank1[i] == label] for label in (0, 1)]
    rows = [i for some in classes for i in some[: min(map(len, classes))]]
    return [H[i] for i in rows], [rank1[i] for i in rows], [H[i] for i in test], [rank1[i] for i in test]


def auc(H: Sequence[float], rank1: Sequence[int]) -> float:
    """How often a step whose reference is not the first choice has the higher entropy; ties count half."""
    values = torch.tensor(H, dtype=torch.float64)
    mask = torch.tensor(rank1).bool()
    sure, unsure = values[mask], values[~mask]
    above = (unsure[:, None] > sure[None]).double() + 0.5 * (unsure[:, None] == sure[None]).double()
    return float(above.mean())


def references(most: int) -> Iterator[tuple[str, str]]:
    """(signature and docstring, body) of functions of the standard library, in the order of the modules."""
    count = 0
    for name in MODULES:
        spec = importlib.util.find_spec(name)
        if spec is None or not spec.has_location or spec.origin is None:
            continue
        source = Path(spec.origin).read_text(encoding="utf-8")
        lines = source.splitlines()
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef) and ast.get_docstring(node) and len(node.body) > 1:
                head = "\n".join(lines[node.lineno - 1 : node.body[0].end_lineno])
                body = "\n".join(lines[node.body[0].end_lineno or 0 : node.end_lineno])
                if body.strip() and count < most:
                    count += 1
                    yield textwrap.dedent(head) + "\n", textwrap.indent(textwrap.dedent(body), "    ")


def statistics(model: CausalLM, prompt: str, reference: str) -> tuple[list[float], list[int]]:
    """(entropies in nats, 1 where the reference token is the first choice) of the tokens of a reference, from one
    forward over the whole text."""
    head = list(model.tokenizer.encode(prompt))
    body = list(model.tokenizer.encode(reference))[:LONGEST]
    z = model.extend([*head, *body], model.new_cache(len(head) + len(body))).logits[len(head) - 1 : -1]
    return entropy(z).tolist(), [int(a == b) for a, b in zip(z.argmax(-1).tolist(), body, strict=True)]
