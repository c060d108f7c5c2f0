"""Distributions of the shared mathematics, on small random tables."""

import math

import pytest
import torch

from engines.core import sampling as s
from tests.engines.fakes import chi_square_p

Z = torch.randn(6, 9, generator=torch.Generator().manual_seed(0)) * 2


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def test_token_probability_is_the_softmax():
    tokens = Z.argmin(-1)
    assert torch.allclose(s.token_probability(Z, tokens), Z.double().softmax(-1).gather(-1, tokens[:, None])[:, 0])
    assert s.token_probability(Z[:0], tokens[:0]).shape == (0,)


def test_token_probability_of_sure_rows_is_the_softmax_to_the_last_bit():
    """Near 1 a rounding error decides which of several sure positions is the surest, so even a correct detour is
    wrong."""
    z = torch.randn(500, 40, generator=rng(2)) + 30
    tokens = z[:, :8].argmax(-1)
    z[torch.arange(500), tokens] += torch.linspace(8, 20, 500)
    softmax = z.softmax(-1).gather(-1, tokens[:, None])[:, 0]
    assert torch.equal(s.token_probability(z, tokens, torch.float32), softmax)
    detour = (z.gather(-1, tokens[:, None])[:, 0] - z.logsumexp(-1)).exp()
    assert (detour - softmax).abs().max() > 1e-7 and not torch.equal(detour.argsort(), softmax.argsort())
    double = z.double().softmax(-1).gather(-1, tokens[:, None])[:, 0]
    assert torch.equal(s.token_probability(z, tokens), double)


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


def test_gumbel_draws_of_some_rows_are_those_of_the_whole_board():
    z, rows = torch.randn(40, 6, generator=rng()), torch.tensor([0, 7, 8, 39])
    for temperature in (0, 0.7):
        one, other = rng(3), rng(3)
        assert torch.equal(
            s.gumbel_argmax(z[rows], temperature, one, rows, 40), s.gumbel_argmax(z, temperature, other)[rows]
        )
        assert torch.equal(one.get_state(), other.get_state())


def test_draw_has_the_distribution_and_never_a_zero():
    p = torch.tensor([0.0, 0.5, 0.0, 0.3, 0.2, 0.0])
    one = rng(2)
    drawn = torch.tensor([s.draw(p, one) for _ in range(4000)])
    assert chi_square_p(drawn.bincount(minlength=6), p) > 0.001


@pytest.mark.parametrize(
    ("v", "index"), [(0.0, 1), (0.4999, 1), (0.5, 3), (0.7999, 3), (0.81, 4), (1.0, 4), (1 - 1e-17, 4)]
)
def test_inverse_cdf_at_its_steps(v, index):
    assert s.inverse_cdf(torch.tensor([0.0, 0.5, 0.0, 0.3, 0.2, 0.0], dtype=torch.float64), v) == index


def test_equal_distributions_accept_everything_and_disjoint_distributions_nothing():
    p = torch.tensor([0.5, 0.5, 0, 0], dtype=torch.float64)
    q = p.flip(0)
    assert [s.accept_probability(p, p, t) for t in (0, 1)] == [1, 1] and s.residual(p, p) is None
    assert [s.accept_probability(p, q, t) for t in (2, 3)] == [0, 0]
    assert torch.equal(s.residual(p, q), p)


def test_a_token_that_the_target_rules_out_is_never_kept():
    p, q = torch.tensor([0.0, 1.0]), torch.tensor([0.0, 1.0])
    assert s.accept_probability(p, q, 0) == 0
    assert s.accept_probability(p, torch.tensor([1.0, 0.0]), 0) == 0


def test_point_candidates_are_accepted_as_often_as_the_target_draws_them():
    p = Z[0].double().softmax(-1)
    chances = s.point_rejection(p, [3, 1, 4])
    alive, total = 1.0, 0.0
    for chance in chances:
        total, alive = total + alive * chance, alive * (1 - chance)
    assert math.isclose(total, float(p[[3, 1, 4]].sum()), rel_tol=1e-9)
    assert s.point_rejection(p, [3, 3])[1] == 0


def test_expected_tokens_counts_the_geometric_sum():
    for alpha in (0.0, 0.3, 0.999, 1.0):
        assert math.isclose(s.expected_tokens(alpha, 5), sum(alpha**i for i in range(6)), rel_tol=1e-6)


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
