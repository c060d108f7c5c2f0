"""DySpec: slots whose values add up, greedy and layered growth of one tree, and the exact distribution."""

import math
import zlib

import pytest
import torch

import engines
from engines.core.sampling import draw, inverse_cdf
from engines.core.trees import children, row_depths
from engines.methods.speculative import dyspec
from engines.methods.speculative._verify import Draft
from tests.engines.fakes import chi_square_p
from tests.engines.methods.speculative.toys import Toy, V, check_rows, pair


def decode(models, slug="dyspec", **params):
    return engines.run(slug, models, [1, 2, 3], params={"max_new_tokens": 24, **params})


def growth(toy, draft, seed=0):
    """A tree to grow whose draws depend on (context, number of the sibling) alone."""

    def pick(row, k, R):
        rng = torch.Generator().manual_seed(zlib.crc32(repr((seed, draft.path(row), k)).encode()))
        return inverse_cdf(R, float(torch.rand((), generator=rng, dtype=torch.float64)))

    return dyspec.Growth(draft, toy.distributions(draft), pick)


def paths(grown):
    return sorted(grown.draft.path(row) for row in range(1, len(grown.draft)))


# --- slots


@pytest.mark.parametrize("seed", range(4))
def test_values_never_rise_and_every_slot_splits_in_two(seed):
    toy = Toy(seed)
    for m in (1, 4, 9):
        grown = growth(toy, Draft(0), seed)
        left = dyspec.greedy(grown, m, 99)
        assert grown.drafted == m and grown.value == sorted(grown.value, reverse=True)
        assert left == sorted(left, reverse=True) and left[0] <= grown.value[-1]
        if m < V:  # no distribution is used up yet
            assert sum(left) == pytest.approx(1)
        below = children(grown.draft.parents)
        for row in range(1, len(grown.draft)):
            parent = grown.draft.parents[row]
            q, before = toy.q(grown.draft.path(parent)), below[parent][: below[parent].index(row)]
            used = sum(float(q[grown.draft.tokens[sibling]]) for sibling in before)
            assert grown.value[row] == pytest.approx(grown.reach[parent] * (1 - used))
            assert grown.reach[row] == pytest.approx(grown.reach[parent] * float(q[grown.draft.tokens[row]]))
        assert grown.facts()["estimated_accept"] == pytest.approx(
            sum(math.prod(_chances(toy, path)) for path in paths(grown))
        )


def _chances(toy, path):
    return [float(toy.q(path[:i])[token]) for i, token in enumerate(path)]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("m", [3, 8])
def test_layers_above_a_threshold_give_the_greedy_tree(seed, m):
    toy = Toy(seed)
    one, other, wider = (growth(toy, Draft(0), seed) for _ in range(3))
    left = dyspec.greedy(one, m, 99)
    while (
        left[0] > 0.999 * one.value[-1]
    ):  # the last token of a distribution opens a slot of the same value: no threshold lies between
        m, one = m + 1, growth(toy, Draft(0), seed)
        left = dyspec.greedy(one, m, 99)
    dyspec.layers(other, 99, 99, (one.value[-1] + left[0]) / 2)
    assert paths(one) == paths(other)
    dyspec.layers(wider, 99, 99, 0.9 * left[0])
    assert len(paths(wider)) > m and set(map(tuple, paths(one))) < set(map(tuple, paths(wider)))


def test_equal_slots_go_to_the_one_that_opened_first():
    """Beside before below: with a fair coin both slots are worth a half."""
    draft = Draft(0)
    coin = torch.tensor([0.25, 0.25, 0.25, 0.25], dtype=torch.float64)
    half = torch.tensor([0.5, 0.5, 0.0, 0.0], dtype=torch.float64)
    grown = dyspec.Growth(
        draft,
        lambda rows: torch.stack([coin if draft.path(row) else half for row in rows]),
        lambda row, k, R: int(R.argmax()),
    )
    dyspec.greedy(grown, 3, 99)
    assert draft.parents[1:] == [0, 0, 1] and grown.value[1:] == [1.0, 0.5, 0.5]


def test_a_distribution_that_is_used_up_closes_its_slot():
    for build in (lambda grown: dyspec.greedy(grown, 20, 3), lambda grown: dyspec.layers(grown, 20, 3, 1e-6)):
        draft = Draft(0)
        distribution = torch.tensor([0.0, 0.6, 0.0, 0.4], dtype=torch.float64)
        rng = torch.Generator().manual_seed(0)
        grown = dyspec.Growth(
            draft,
            lambda rows, distribution=distribution: distribution.expand(len(rows), 4),
            lambda row, k, R, rng=rng: draw(R, rng),
        )
        build(grown)
        assert grown.drafted == 2 + 4 + 8 and set(draft.tokens[1:]) == {1, 3}
        assert all(len({draft.tokens[row] for row in rows}) == len(rows) for rows in children(draft.parents))
    sure = dyspec.Growth(Draft(0), lambda rows: torch.eye(4)[[2] * len(rows)], lambda row, k, R: int(R.argmax()))
    dyspec.greedy(sure, 5, 99)
    assert sure.draft.parents == list(range(-1, 5)) and sure.facts()["estimated_accept"] == 5


def test_the_budget_stops_the_drawing_and_the_best_nodes_go_first():
    toy = Toy(2)
    grown = growth(toy, Draft(0))
    dyspec.layers(grown, 6, 2, 1e-3)
    assert grown.drafted == 6 and max(grown.depth) == 2
    first = [row for row in range(1, 7) if grown.depth[row] == 1]
    read = {grown.draft.parents[row] for row in range(1, 7) if grown.depth[row] == 2}
    assert max(first, key=lambda row: grown.reach[row]) in read and set(grown.draft.distributions) < set(range(7))


# --- the distribution


def grown_by(toy, construction):
    def grow(draft, rng):
        grown = dyspec.Growth(draft, toy.distributions(draft), lambda row, k, R: draw(R, rng))
        if construction == "greedy":
            dyspec.greedy(grown, 4, 99)
        else:
            dyspec.layers(grown, 5, 99, 0.2)
        return draft

    return grow


@pytest.mark.parametrize(("construction", "rounds"), [("threshold", 1500), ("greedy", 1200)])
def test_two_tokens_have_the_targets_distribution(construction, rounds):
    toy = Toy(5)
    assert chi_square_p(toy.counts(grown_by(toy, construction), rounds), toy.joint()) > 1e-3


# --- whole runs


@pytest.mark.parametrize("construction", ["threshold", "greedy"])
def test_every_row_is_judged_in_its_own_context(construction):
    models = pair(6)
    trace = decode(models, temperature=1.0, draft_temperature=0.8, construction=construction)
    assert check_rows(trace, models, 0.8) > 50
    assert all(step.facts["drafted"] <= 12 and step.facts["layers"] <= 8 for step in trace.steps)
    for step in trace.steps:
        below = [value for value in step.tree.values if value is not None]
        assert step.tree.values[0] is None and step.tree.value_name == "value of its slot"
        assert min([1.0, *below]) == pytest.approx(step.facts["least_slot"]) and (
            construction == "threshold" or below == sorted(below, reverse=True)
        )


def test_layers_cost_one_forward_each_and_single_nodes_at_most_one():
    models = pair(2)
    for step in decode(models, temperature=1.0, threshold=0.05).steps:
        depths = row_depths(step.tree.parents)
        assert step.forwards.get("draft", 0) == step.facts["layers"] == max(depths)
        assert step.facts["widest"] == max((depths.count(d) for d in range(1, max(depths) + 1)), default=0)
    for step in decode(models, temperature=1.0, construction="greedy").steps:
        parents = step.tree.parents
        assert step.forwards.get("draft", 0) == len(set(parents) - {-1}) and len(parents) in (
            1,
            13,
        )  # a leaf is not read


def test_an_edit_moves_the_shape():
    edit = engines.Edit(params={"budget": 3, "construction": "greedy", "threshold": 0.5})
    trace = engines.run(
        "dyspec", pair(4), [1, 2, 3], params={"max_new_tokens": 24, "temperature": 1.0}, edits=[(1, edit)]
    )
    assert all(step.facts["drafted"] <= 3 for step in trace.steps[2:]) and any(
        step.facts["drafted"] > 3 for step in trace.steps[:2]
    )
