"""Distributions of the shared mathematics, on small random tables; and intervals that hold what they promise."""

import math
import random
from statistics import mean, stdev

import pytest
import torch

from engines.core import sampling as s
from engines.core.statistics import bootstrap, mean_interval, median_interval, wilson
from tests.engines.fakes import chi_square_p

Z = torch.randn(6, 9, generator=torch.Generator().manual_seed(0)) * 2


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def test_token_probability_of_sure_rows_is_the_softmax_to_the_last_bit():
    """Near 1 a rounding error decides which of several sure positions is the surest: a correct detour is wrong."""
    z = torch.randn(500, 40, generator=rng(2)) + 30
    tokens = z[:, :8].argmax(-1)
    z[torch.arange(500), tokens] += torch.linspace(8, 20, 500)
    softmax = z.softmax(-1).gather(-1, tokens[:, None])[:, 0]
    assert torch.equal(s.token_probability(z, tokens, torch.float32), softmax)
    detour = (z.gather(-1, tokens[:, None])[:, 0] - z.logsumexp(-1)).exp()
    assert (detour - softmax).abs().max() > 1e-7 and not torch.equal(detour.argsort(), softmax.argsort())
    double = z.double().softmax(-1).gather(-1, tokens[:, None])[:, 0]
    assert torch.equal(s.token_probability(z, tokens), double)
    assert s.token_probability(Z[:0], tokens[:0]).shape == (0,)


def test_entropy_has_its_bounds_and_units():
    h = s.entropy(Z)
    assert (h >= 0).all() and (h <= math.log(9) + 1e-6).all()
    assert torch.allclose(s.entropy(Z, base=2), h / math.log(2))
    assert math.isclose(float(s.entropy(torch.zeros(1, 8), base=2)), 3, rel_tol=1e-6)
    padded = torch.cat([Z, torch.full((6, 3), -torch.inf)], 1)
    assert torch.allclose(s.entropy(padded), h)


@pytest.mark.parametrize("temperature", [0.3, 1.0, 1.7])
def test_gumbel_draws_have_the_distribution_of_the_temperature(temperature):
    z = torch.tensor([0.0, 0.4, -0.6, 0.9])
    drawn = s.gumbel_argmax(z.expand(20_000, 4), temperature, rng(1))
    assert chi_square_p(drawn.bincount(minlength=4), (z / temperature).softmax(-1)) > 0.001
    assert chi_square_p(drawn.bincount(minlength=4), (z / (temperature + 0.5)).softmax(-1)) < 1e-6  # the test can fail


def test_temperature_zero_is_the_first_maximum_and_draws_nothing():
    z = torch.tensor([[0.0, 2.0, 2.0], [1.0, 1.0, 0.0]])
    one = rng()
    assert s.gumbel_argmax(z, 0, one).tolist() == [1, 0]
    assert s.distribution(z, 0).tolist() == [[0, 1, 0], [1, 0, 0]]
    assert torch.equal(one.get_state(), rng().get_state())


@pytest.mark.parametrize("temperature", [0, 0.7])
def test_gumbel_draws_of_some_rows_are_those_of_the_whole_board(temperature):
    z, rows, one, other = torch.randn(40, 6, generator=rng()), torch.tensor([0, 7, 8, 39]), rng(3), rng(3)
    some = s.gumbel_argmax(z[rows], temperature, one, rows, 40)
    assert torch.equal(some, s.gumbel_argmax(z, temperature, other)[rows])
    assert torch.equal(one.get_state(), other.get_state())


def test_draw_has_the_distribution_and_never_a_zero():
    p, one = torch.tensor([0.0, 0.5, 0.0, 0.3, 0.2, 0.0], dtype=torch.float64), rng(2)
    drawn = torch.tensor([s.draw(p.float(), one) for _ in range(4000)])
    assert chi_square_p(drawn.bincount(minlength=6), p) > 0.001
    for v, index in ((0.0, 1), (0.4999, 1), (0.5, 3), (0.7999, 3), (0.81, 4), (1.0, 4), (1 - 1e-17, 4)):
        assert s.inverse_cdf(p, v) == index


def test_equal_distributions_accept_everything_and_disjoint_distributions_nothing():
    p = torch.tensor([0.5, 0.5, 0, 0], dtype=torch.float64)
    q = p.flip(0)
    assert [s.accept_probability(p, p, t) for t in (0, 1)] == [1, 1] and s.residual(p, p) is None
    assert [s.accept_probability(p, q, t) for t in (2, 3)] == [0, 0] and s.accept_probability(p, p, 3) == 0
    assert torch.equal(s.residual(p, q), p)


@pytest.mark.parametrize("grid", [0.01, 1.0, 4.0, 100.0])
@pytest.mark.parametrize("k", [1, 2, 5, 50, 300])
def test_top_ids_are_a_stable_sort_whatever_the_ties(grid, k):
    z = (torch.randn(7, 200, generator=rng(3)) / grid).round() * grid
    z[:, 5] = -torch.inf
    assert torch.equal(s.top_ids(z, k), z.sort(descending=True, stable=True).indices[:, :k])
    assert torch.equal(s.top_ids(z, 1)[:, 0], z.argmax(-1))  # so that greedy and its lossless followers agree on ties


@pytest.mark.parametrize("grid", [0.01, 1.0, 100.0])
@pytest.mark.parametrize(("V", "k"), [(2 * s.FEW * s.BLOCK, 1), (4096, 8), (4096, 40), (4100, 8), (1024, 15)])
def test_top_ids_of_a_large_vocabulary_are_found_block_by_block(V, k, grid):
    z = (torch.randn(3, V, generator=rng(3)) / grid).round() * grid
    z[1], z[2, V // 2 :] = -torch.inf, z[2, : V - V // 2].flip(0)
    for given in (z, z.bfloat16(), torch.stack([z, z], -1)[..., 0]):  # the last one lies apart in memory
        assert torch.equal(s.top_ids(given, k), given.sort(descending=True, stable=True).indices[:, :k])
    assert s.top_ids(z[:0], k).shape == (0, k)


@pytest.mark.parametrize(("n", "rank"), [(6, 1), (8, 1), (9, 2), (17, 5), (20, 6), (100, 40)])
def test_a_medians_interval_is_that_of_the_sign_test(n, rank):
    low, high = median_interval([float(i) for i in range(n, 0, -1)])
    assert (low, high) == (rank, n + 1 - rank)
    assert median_interval([]) is median_interval([1.0, 2.0, 3.0, 4.0, 5.0]) is None


def test_intervals_hold_a_median_and_a_share_as_often_as_they_say():
    rng, held = random.Random(0), 0
    for _ in range(2000):
        low, high = median_interval([rng.expovariate(1.0) for _ in range(9)])
        held += low <= math.log(2) <= high
    assert 0.95 <= held / 2000 <= 0.975  # 96.1 %
    for tried in range(1, 60):
        for right in range(tried + 1):
            low, high = wilson(right, tried)
            assert -1e-12 < low <= right / tried <= high < 1 + 1e-12


@pytest.mark.parametrize(("n", "quantile"), [(5, 2.776), (10, 2.262), (20, 2.093), (40, 2.023), (1000, 1.962)])
def test_a_means_interval_is_students(n, quantile):
    values = [float(i % 7) for i in range(n)]
    mean, low, high = mean_interval(values)
    assert mean == pytest.approx(sum(values) / n)
    assert (high - low) / 2 == pytest.approx(quantile * stdev(values) / math.sqrt(n), rel=0.005)
    mean, low, high = mean_interval([3.0])
    assert mean == 3 and math.isnan(low) and math.isnan(high)


def test_resampled_rows_stay_together_and_agree_with_students():
    """What differs by one on every prompt differs by one, however much the prompts themselves differ."""
    rows = [(x, x + 1.0) for x in (1.0, 50.0, 7.0, 300.0, 2.0, 90.0)]
    assert bootstrap(rows, lambda some: sum(b - a for a, b in some) / len(some)) == (1.0, 1.0)
    rng = random.Random(1)
    values = [rng.gauss(0.0, 1.0) for _ in range(200)]
    low, high = bootstrap(values, mean)
    middle, least, most = mean_interval(values)
    assert (low, high) == (pytest.approx(least, abs=0.02), pytest.approx(most, abs=0.02)) and low < middle < high
    assert (low, high) == bootstrap(values, mean)  # a seed of its own
