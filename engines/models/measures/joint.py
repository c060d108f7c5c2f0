"""What parallel commits cost even a perfect model: conditional total correlation, counted over enumerated answers and
in closed form.

Tokens that are committed in one forward are drawn independently of each other. Where the task couples them, the
distribution Q of what is written differs from the true distribution P of the answers by at least KL(P || Q) = C,
whatever the model (ParallelBench, arXiv:2510.04767, its information-theoretic analysis). The closed forms and the
success chances below are derived for one token per list item and different items; the tests hold them against
enumeration.

Shapes: N answers (equally likely; one that occurs twice counts twice), n positions, V vocabulary. All information is in
nats."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from engines.core.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor

HIDDEN = -1  # in `visible`: nothing is known of this position


def agreement(answers: Tensor, visible: Tensor) -> Tensor:
    """On how many visible positions each answer agrees with the board: answers [N, n], visible [n] (ids or HIDDEN) ->
    [N]."""
    return (answers == visible).sum(1)


def agreeing(answers: Tensor, visible: Tensor) -> Tensor:
    """The answers [N', n] that agree with `visible` [n]; if none agrees everywhere, those that agree on the most
    positions. N' >= 1."""
    score = agreement(answers, visible)
    return answers[score == score.max()]


def marginals(answers: Tensor, visible: Tensor, vocab_size: int) -> Tensor:
    """The distribution of each position given the visible tokens, by counting the agreeing answers: [N, n], [n] ->
    float64 [n, V], rows sum to 1."""
    columns = agreeing(answers, visible).T  # [n, N']
    counts = torch.zeros(len(columns), vocab_size, dtype=torch.float64, device=answers.device)
    counts.scatter_add_(1, columns, torch.ones(columns.shape, dtype=torch.float64, device=answers.device))
    return counts / columns.shape[1]


def total_correlation(answers: Tensor, visible: Tensor, positions: Sequence[int]) -> float:
    """C(S | visible) = sum over i in S of H(y_i | visible) - H(y_S | visible), nats: what one forward that commits the
    set S loses.

    answers [N, n], visible [n], positions: the set S, each from 0 to n - 1 and once. Exact, never negative, 0 for fewer
    than two positions. On a board with which no answer agrees the distribution is that of `agreeing`."""
    return expected_correlation(agreeing(answers, visible), [positions])


def expected_correlation(answers: Tensor, sets: Sequence[Sequence[int]]) -> float:
    """Sum over t of E[C(S_t | S_1 ... S_t-1)], nats: what forwards that commit the disjoint sets S_1, S_2 ... in this
    order lose on average.

    answers [N, n]. ParallelBench's bound L_T for T forwards. Each term is, by the chain rule, sum over i of H(y_i | A)
    - H(y_S | A) with A the positions already written. Splitting a set never raises the sum; it is 0 when every set has
    one position."""
    total, before = 0.0, list[int]()
    for positions in sets:
        if len(positions) > 1:
            known = _entropy(answers[:, before])
            single = sum(_entropy(answers[:, [*before, i]]) - known for i in positions)
            total += max(
                0.0, single - (_entropy(answers[:, [*before, *positions]]) - known)
            )  # rounding alone can make it negative
        before += positions
    return total


def _entropy(rows: Tensor) -> float:
    """Entropy in nats of drawing one of the rows [N, k] uniformly, where equal rows are one outcome; 0 for k = 0."""
    label = torch.zeros(len(rows), dtype=torch.long, device=rows.device)  # equal for rows that are equal so far
    for column in rows.T:
        label = torch.unique(label * (column.max() + 1) + column, return_inverse=True)[1]
    return float(torch.special.entr(label.bincount().double() / len(rows)).sum())


def copy_correlation(n: int) -> float:
    """C of a whole list in one forward where there is one right answer (copy, reverse, sort, edits at a given place): 0
    for every n."""
    return 0.0


def shuffle_success(n: int, k: int | None = None) -> float:
    """Chance that sampling k positions per forward from the true marginals shuffles n different items rightly; k = n
    (None) is one forward.

    A forward that commits k of r open positions succeeds with r! / ((r - k)! r^k), in whatever order; k = n gives n! /
    n^n. The last forward may have fewer than k left. Raises ValueError unless 1 <= k <= n."""
    k = n if k is None else k
    if not 1 <= k <= n:
        raise ValueError(f"k={k} positions per forward of n={n}; k goes from 1 to n.")
    return math.prod(math.perm(r, min(k, r)) / r ** min(k, r) for r in range(n, 0, -k))
