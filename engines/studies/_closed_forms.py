"""What theory says of committing several tokens at once: the chance of a right answer and the bound C, in closed form
or by listing all answers.

For sampling from perfect marginals, one token per list item, different items (ParallelBench, arXiv:2510.04767; the
forms for one forward and their proofs by enumeration stand in `engines.models.measures.joint`). Everything here is
derived, nothing is measured."""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from engines.models.measures import joint
from engines.tasks import TASKS


def chance(answers: Sequence[tuple[int, ...]], sets: Sequence[Sequence[int]]) -> float:
    """The exact chance of writing one of `answers` [N][n] when each set in turn is drawn from the true marginals given
    what is written."""
    if not sets:
        return 1.0
    first, *rest = sets
    distributions = [Counter(row[i] for row in answers) for i in first]
    groups: dict[tuple[int, ...], list[tuple[int, ...]]] = defaultdict(list)
    for row in answers:
        groups[tuple(row[i] for i in first)].append(row)
    return sum(
        math.prod(distribution[t] / len(answers) for distribution, t in zip(distributions, drawn, strict=True))
        * chance(group, rest)
        for drawn, group in groups.items()
    )


class Derived(NamedTuple):
    """At k tokens per forward of a list task in random order, sampled from perfect marginals: the chance of a right
    answer, and the bound C in nats."""

    per_forward: int
    chance: float
    bound: float


def derived(task: str, n: int) -> list[Derived]:
    """The closed forms of a task at every k that divides n; none where the answers have to be listed (insert any,
    remove any, latin, sentence)."""
    ks = [k for k in range(1, n + 1) if n % k == 0]
    if task == "shuffle":
        return [Derived(k, joint.shuffle_success(n, k), shuffle_bound(n, k)) for k in ks]
    if task == "replace any":
        return [Derived(k, replace_any_chance(n, k), replace_any_bound(n, k)) for k in ks]
    return [] if TASKS[task].many else [Derived(k, 1.0, joint.copy_correlation(n)) for k in ks]


def shuffle_bound(n: int, k: int) -> float:
    """Sum over forwards with r positions open of k ln r - ln(r! / (r - k)!); at k = n that is n ln n - ln n!."""
    return sum(k * math.log(r) - math.log(math.perm(r, k)) for r in range(n, 0, -k))


def replace_any_chance(n: int, k: int) -> float:
    """f(n), f(r) = (1 - 1/r)^k f(r - k) + (k/r)(1 - 1/r)^(k-1), f(0) = 0: no new word among k of r and later one, or
    just one, and then copying.

    At k = n that is (1 - 1/n)^(n - 1).
    """
    later = 0.0
    for r in range(k, n + 1, k):
        later = (1 - 1 / r) ** k * later + k / r * (1 - 1 / r) ** (k - 1)
    return later


def replace_any_bound(n: int, k: int) -> float:
    """Sum over forwards with r positions open, reached without the new word with r/n, of k h(1/r) - (k/r) ln r + (1 -
    k/r) ln(1 - k/r), h binary entropy."""
    if k == 1:
        return 0.0
    h = lambda p: -sum(q * math.log(q) for q in (p, 1 - p) if q > 0)  # noqa: E731
    return sum(
        r / n * (k * h(1 / r) + k / r * math.log(1 / r) + ((1 - k / r) * math.log(1 - k / r) if k < r else 0.0))
        for r in range(n, 0, -k)
    )
