"""The threshold of AdaDec, learned from reference code (official `logistic_regression.py`): at which entropy the
reference token stops being the model's first choice.

The references are functions of Python's standard library, signature and docstring as the prompt and the body as what is
to follow: `decoding-explorer study threshold-from-code` feeds them to a model."""

from __future__ import annotations

import ast
import importlib.util
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from engines.kit import CausalLM, UserError, entropy, torch

MODULES = (
    "textwrap bisect heapq statistics string shlex fnmatch posixpath calendar colorsys keyword copy random".split()
)
GRID = [i / 100 for i in range(1, 100)]
LONGEST = 160  # tokens of a body that are read


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
    classes = [[i for i in train if rank1[i] == one] for one in (0, 1)]
    rows = [i for some in classes for i in some[: min(map(len, classes))]]
    return [H[i] for i in rows], [rank1[i] for i in rows], [H[i] for i in test], [rank1[i] for i in test]


def auc(H: Sequence[float], rank1: Sequence[int]) -> float:
    """How often a step whose reference is not the first choice has the higher entropy; ties count half."""
    values = torch.tensor(H, dtype=torch.float64)
    one = torch.tensor(rank1).bool()
    sure, unsure = values[one], values[~one]
    above = (unsure[:, None] > sure[None]).double() + 0.5 * (unsure[:, None] == sure[None]).double()
    return float(above.mean())


def references(most: int) -> Iterator[tuple[str, str]]:
    """(signature and docstring, body) of functions of the standard library, in the order of the modules."""
    found = 0
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
                if body.strip() and found < most:
                    found += 1
                    yield textwrap.dedent(head) + "\n", textwrap.indent(textwrap.dedent(body), "    ")


def statistics(model: CausalLM, prompt: str, reference: str) -> tuple[list[float], list[int]]:
    """(entropies in nats, 1 where the reference token is the first choice) of the tokens of a reference, from one
    forward over the whole text."""
    head = list(model.tokenizer.encode(prompt))
    body = list(model.tokenizer.encode(reference))[:LONGEST]
    z = model.extend([*head, *body], model.new_cache(len(head) + len(body))).logits[len(head) - 1 : -1]
    return entropy(z).tolist(), [int(a == b) for a, b in zip(z.argmax(-1).tolist(), body, strict=True)]
