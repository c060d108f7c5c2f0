"""Intervals: they hold what they promise, and say so where there are too few values for one."""

import math
import random
from statistics import median

import pytest

from engines.core.statistics import bootstrap, mean_interval, median_interval, wilson


@pytest.mark.parametrize(
    ("n", "rank"), [(6, 1), (8, 1), (9, 2), (17, 5), (20, 6), (100, 40)]
)  # as tables of the sign test give them
def test_a_medians_interval_is_that_of_the_sign_test(n, rank):
    low, high = median_interval([float(i) for i in range(n, 0, -1)])
    assert (low, high) == (rank, n + 1 - rank)


def test_a_median_of_fewer_than_six_values_has_none():
    assert median_interval([]) is None and median_interval([1.0]) is None
    assert median_interval([1.0, 2.0, 3.0, 4.0, 5.0]) is None


def test_a_medians_interval_holds_the_median_as_often_as_it_says():
    rng, held = random.Random(0), 0
    for _ in range(2000):
        low, high = median_interval([rng.expovariate(1.0) for _ in range(9)])
        held += low <= math.log(2) <= high
    assert 0.95 <= held / 2000 <= 0.975  # 96.1 %


@pytest.mark.parametrize(("n", "quantile"), [(5, 2.776), (10, 2.262), (20, 2.093), (40, 2.023), (1000, 1.962)])
def test_a_means_interval_is_students(n, quantile):
    values = [float(i % 7) for i in range(n)]
    mean, low, high = mean_interval(values)
    spread = math.sqrt(sum((x - mean) ** 2 for x in values) / (n - 1))
    assert mean == pytest.approx(sum(values) / n)
    assert (high - low) / 2 == pytest.approx(quantile * spread / math.sqrt(n), rel=0.005)


def test_a_share_lies_in_its_own_interval():
    for tried in range(1, 60):
        for right in range(tried + 1):
            low, high = wilson(right, tried)
            assert -1e-12 < low <= right / tried <= high < 1 + 1e-12


def test_one_value_has_a_mean_and_no_interval():
    mean, low, high = mean_interval([3.0])
    assert mean == 3 and math.isnan(low) and math.isnan(high)


def test_resampled_rows_stay_together():
    """What differs by one on every prompt differs by one, however much the prompts themselves differ."""
    rows = [(x, x + 1.0) for x in (1.0, 50.0, 7.0, 300.0, 2.0, 90.0)]
    assert bootstrap(rows, lambda some: sum(b - a for a, b in some) / len(some)) == (1.0, 1.0)
    low, high = bootstrap(rows, lambda some: sum(a for a, _ in some) / len(some))
    assert low < 75 < high and high - low > 100
    assert (low, high) == bootstrap(rows, lambda some: sum(a for a, _ in some) / len(some))  # a seed of its own


def test_a_resampled_mean_agrees_with_students():
    rng = random.Random(1)
    values = [rng.gauss(0.0, 1.0) for _ in range(200)]
    low, high = bootstrap(values, lambda some: sum(some) / len(some))
    mean, least, most = mean_interval(values)
    assert (low, high) == (pytest.approx(least, abs=0.02), pytest.approx(most, abs=0.02)) and low < mean < high
    low, high = bootstrap(values, median)
    assert low < median(values) < high
