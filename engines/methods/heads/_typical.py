"""Typical acceptance (Medusa, arXiv:2401.10774, section 2.3.1): a guess is kept where the model finds it likely enough
for how sure it is there. It does not keep the model's distribution.

Letters: p the model's distribution at a row, H its entropy in nats, ε and δ as in the paper, n rows, V vocabulary."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from engines.kit import distribution, draw, torch
from engines.methods.speculative._verify import Draft, Test, Verdict

if TYPE_CHECKING:
    from torch import Generator, Tensor


def thresholds(p: Tensor, epsilon: float, delta: float) -> Tensor:
    """min(ε, δ exp(-H)) of each distribution [n, V]; H with the released 1e-5 inside the logarithm."""
    H = -(p * (p + 1e-5).log()).sum(-1)
    return (delta * (-H).exp()).clamp(max=epsilon)


def accepted_path(
    p: Tensor, draft: Draft, epsilon: float, delta: float, ends: frozenset[int] = frozenset()
) -> list[int]:
    """Rows (0 first) of the longest path of which every token x has p(x) > threshold at its parent; ties by the larger
    sum of ln p, then by the later leaf in the tree, as in the released order of rows. Nothing follows an end mark."""
    limit = thresholds(p, epsilon, delta)
    best: dict[int, tuple[int, float]] = {0: (0, 0.0)}  # accepted row -> its depth and sum of ln p
    for row in range(1, len(draft)):
        above, x = draft.parents[row], draft.tokens[row]
        open_above = above in best and not (above and draft.tokens[above] in ends)
        if open_above and float(p[above, x]) > float(limit[above]):
            best[row] = (best[above][0] + 1, best[above][1] + float(p[above, x].log()))
    path = [max(best, key=lambda row: (*best[row], row))]
    while path[0] > 0:
        path.insert(0, draft.parents[path[0]])
    return path


def typical(epsilon: float, delta: float) -> Callable[..., Verdict]:
    """A walk in the place of `verify`. Behind the path the next token is drawn from what the threshold leaves."""

    def walk(
        z: Tensor, draft: Draft, temperature: float, rng: Generator, ends: frozenset[int] = frozenset()
    ) -> Verdict:
        p = distribution(z.double(), temperature)
        path = accepted_path(p, draft, epsilon, delta, ends)
        kept, row = set(path), path[-1]
        rows = [r for r in range(1, len(draft)) if draft.parents[r] in kept]
        tests = [Test(r, float(p[draft.parents[r], draft.tokens[r]]), None, r in kept) for r in rows]
        if row and draft.tokens[row] in ends:
            return Verdict(path, -1, "draft", tests)
        likely = torch.where(p[row] > thresholds(p[row : row + 1], epsilon, delta), p[row], 0.0)
        likely = likely if float(likely.sum()) > 0 else p[row]
        return Verdict(path, draw(likely / likely.sum(), rng), "target", tests)

    return walk
