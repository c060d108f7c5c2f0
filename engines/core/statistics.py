"""Statistics that results are told with: the interval of a share, of a mean, of a median, and of anything else."""

import math
import random
from collections.abc import Callable, Sequence
from statistics import fmean, stdev
from typing import NamedTuple, TypeVar

Z = 1.959964  # 95 %
LEVEL = 0.95

T = TypeVar("T")


class Interval(NamedTuple):
    """Both ends of a 95 % interval; low and high are in the unit of what was measured."""

    low: float
    high: float


def wilson(right: int, tried: int) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson 1927), which stays inside 0..1 and does not shrink to a point where all or
    none are right."""
    p, z2 = right / tried, Z * Z / tried
    middle, half = p + z2 / 2, Z * math.sqrt(p * (1 - p) / tried + z2 / (4 * tried))
    low, high = (middle - half) / (1 + z2), (middle + half) / (1 + z2)
    return min(low, p), max(high, p)  # rounding may leave an end of a share of 0 or 1 beside it


def mean_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """The mean and its 95 % interval by Student's t (Cornish-Fisher for its quantile; 2.09 at 20 values). Of paired
    differences it is the interval of the difference: two methods are told apart where it leaves out 0. Both ends are
    nan for a single value."""
    n, mean = len(values), fmean(values)
    if n < 2:
        return mean, math.nan, math.nan
    v = n - 1
    t = Z + (Z**3 + Z) / (4 * v) + (5 * Z**5 + 16 * Z**3 + 3 * Z) / (96 * v**2)
    t += (3 * Z**7 + 19 * Z**5 + 17 * Z**3 - 15 * Z) / (384 * v**3)
    half = t * stdev(values) / math.sqrt(n)
    return mean, mean - half, mean + half


def median_interval(values: Sequence[float]) -> Interval | None:
    """The interval of a median by order statistics, which assumes nothing of the values: the narrowest pair of them, as
    far from both ends, that has the median between it with a chance of at least 95 %. None for fewer than six values:
    even their least and their most have less."""
    n, ordered = len(values), sorted(values)
    outside, interval = 0.0, None
    for k in range(n // 2):  # the median lies outside of ordered[k], ordered[-1 - k] with 2 P(Binomial(n, 1/2) <= k)
        outside += 2 * math.comb(n, k) / 2**n
        if outside > 1 - LEVEL:
            break
        interval = Interval(ordered[k], ordered[-1 - k])
    return interval


def bootstrap(
    rows: Sequence[T], statistic: Callable[[Sequence[T]], float], *, resamples: int = 2000, seed: int = 0
) -> tuple[float, float]:
    """The middle 95 % of a statistic over rows (prompts, say) drawn again with replacement. A row that holds what two
    methods did on one prompt makes it a paired comparison."""
    rng = random.Random(seed)
    estimates = sorted(statistic(rng.choices(rows, k=len(rows))) for _ in range(resamples))
    return estimates[int(0.025 * resamples)], estimates[int(0.975 * resamples) - 1]
