"""PPD's dynamic sparse trees (arXiv:2405.18628; prompt/inference/sparse_tree_builder.py): which guesses to
verify, and how many prompt tokens each of them deserves, for a budget of rows.

Letters: m prompt tokens (3), a[d][r] the chance that guess r of prompt token d + 1 is right, B the budget (candidates
and their prompt tokens; the root and its m come on top), state s the number of prompt outputs that are at hand, n_s
candidates in its tree, P(v) the chance that node v is accepted, q(v) that acceptance ends there, f(s) the expected
number of accepted candidates."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engines.methods.heads._template import Path

FIRST = 10  # n_1: candidates of the tree with one prompt output
SMALLEST = 2 * FIRST  # the budget that still gives each of them a prompt token


@dataclass(frozen=True)
class Node:
    """A candidate: its ranks, P, q and how many prompt tokens it carries."""

    path: Path
    P: float
    q: float
    prompts: int


@dataclass(frozen=True)
class Trees:
    """The tree of each state (index s - 1), the chances [s - 1][k] to go from s to k (k = 0: nothing accepted), f, and
    the mean of f over a long run: `score` as the paper's code counts it, with an idle step after each refusal, and
    `score_no_wasted_step` as the loop really goes, on from the root's m prompt tokens."""

    states: tuple[tuple[Node, ...], ...]
    transition: tuple[tuple[float, ...], ...]
    value: tuple[float, ...]
    score: float
    score_no_wasted_step: float


def ranked_paths(a: Sequence[Sequence[float]], depth: int) -> list[tuple[Path, float]]:
    """Every path of that depth or less with its P (5 decimals), likeliest first."""
    paths: list[tuple[Path, float]] = []
    level: list[tuple[Path, float]] = [((), 1.0)]
    for d in range(depth):
        level = [((*path, r), P * float(chance)) for path, P in level for r, chance in enumerate(a[d])]
        paths += level
    return sorted(((path, round(P, 5)) for path, P in paths), key=lambda item: -item[1])


def rest(paths: Sequence[tuple[Path, float]]) -> list[float]:
    """q of each: its P without those of its children in the list."""
    below: dict[Path, float] = {}
    for path, P in paths:
        below[path[:-1]] = below.get(path[:-1], 0.0) + P
    return [P - below.get(path, 0.0) for path, P in paths]


def allotted(q: Sequence[float], f: Sequence[float], m: int, B: int) -> list[int]:
    """Prompt tokens of each candidate: all m at first, then the one whose loss q [f(k) - f(k - 1)] is the least goes,
    until they fit B."""
    k = [m] * len(q)
    while sum(k) > B - len(q):
        _, v = min((q[v] * (f[k[v] - 1] - f[k[v] - 2]), v) for v in range(len(q)) if k[v] > 1)
        k[v] -= 1
    return k


def stationary(M: np.ndarray) -> np.ndarray:
    """The distribution that a chain with transition matrix M [n, n] keeps."""
    n = len(M)
    A = np.vstack([M.T - np.eye(n), np.ones(n)])
    return np.linalg.lstsq(A, np.array([0.0] * n + [1.0]), rcond=None)[0]


def trees_of(paths: Sequence[Sequence[tuple[Path, float]]], B: int) -> Trees:
    """The trees of these candidates, one list per state."""
    m = len(paths)
    f = [sum(P for _, P in level) for level in paths]
    states, transition = [], []
    for level_paths in paths:
        q = rest(level_paths)
        k = allotted(q, f, m, B)
        states.append(tuple(Node(path, P, left, n) for (path, P), left, n in zip(level_paths, q, k, strict=True)))
        row = [sum(left for left, n in zip(q, k, strict=True) if n == to) for to in range(1, m + 1)]
        transition.append((1 - sum(row), *row))
    idle = np.array([[0.0] * m + [1.0], *transition])  # state 0: a refused step costs another one
    real = np.array([[*row[1:m], row[m] + row[0]] for row in transition])
    score = float(stationary(idle) @ np.array([0.0, *f]))
    return Trees(tuple(states), tuple(transition), tuple(f), score, float(stationary(real) @ np.array(f)))


def search(a: Sequence[Sequence[float]], B: int) -> Trees:
    """The best trees of a budget B for three prompt tokens: n_1 = 10, n_2 and n_3 from B // 4 to B // 2, by the score
    of the paper's code. Raises ValueError for a budget below SMALLEST."""
    if B < SMALLEST:
        raise ValueError(f"a budget of {B} rows; at least {SMALLEST} are needed")
    known = [ranked_paths(a, s) for s in (1, 2, 3)]
    best: Trees | None = None
    for n2 in range(B // 4, B // 2 + 1):
        for n3 in range(B // 4, B // 2 + 1):
            trees = trees_of([known[0][:FIRST], known[1][:n2], known[2][:n3]], B)
            if best is None or trees.score > best.score:
                best = trees
    assert best is not None
    return best
