"""DySpec: slots that are used up and what rounds cost. Trees and their exact distribution are golden cases."""

import pytest
import torch

import engines
from engines.core.sampling import draw
from engines.core.trees import children, row_depths
from engines.methods.speculative import dyspec
from engines.methods.speculative._verify import Draft
from tests.engines.methods.speculative.toys import pair


def decode(models, edits=(), **params):
    params = {"max_new_tokens": 24, "temperature": 1.0, **params}
    return engines.run("dyspec", models, [1, 2, 3], params=params, edits=edits)


def growth(q):
    """A tree to grow with one distribution behind every row."""
    rng = torch.Generator().manual_seed(0)
    return dyspec.Growth(Draft(0), lambda rows: q.expand(len(rows), -1), lambda row, k, R: draw(R, rng))


def test_equal_slots_go_to_the_one_that_opened_first():
    """Beside before below: with a fair coin both slots are worth a half."""
    grown = dyspec.Growth(
        Draft(0), lambda rows: torch.tensor([[0.5, 0.5, 0.0]] * len(rows)), lambda row, k, R: int(R.argmax())
    )
    dyspec.greedy(grown, 3, 99)
    assert grown.draft.parents[1:] == [0, 0, 1] and grown.value[1:] == [1.0, 0.5, 0.5]


def test_a_distribution_that_is_used_up_closes_its_slot():
    for build in (lambda grown: dyspec.greedy(grown, 20, 3), lambda grown: dyspec.layers(grown, 20, 3, 1e-6)):
        build(grown := growth(torch.tensor([0.0, 0.6, 0.0, 0.4], dtype=torch.float64)))
        draft = grown.draft
        assert grown.drafted == 2 + 4 + 8 and set(draft.tokens[1:]) == {1, 3}
        assert all(len({draft.tokens[row] for row in rows}) == len(rows) for rows in children(draft.parents))
    dyspec.greedy(sure := growth(torch.eye(4)[2]), 5, 99)
    assert sure.draft.parents == list(range(-1, 5)) and sure.facts()["estimated_accept"] == 5


def test_layers_cost_one_forward_each_and_single_nodes_at_most_one():
    models = pair(2)
    for step in decode(models, threshold=0.05).steps:
        depths = row_depths(step.tree.parents)
        assert step.forwards.get("draft", 0) == step.facts["layers"] == max(depths)
        assert step.facts["widest"] == max((depths.count(d) for d in range(1, max(depths) + 1)), default=0)
    for step in decode(models, construction="greedy").steps:
        parents = step.tree.parents
        below = step.tree.values[1:]
        assert min([1.0, *below]) == pytest.approx(step.facts["least_slot"]) and below == sorted(below, reverse=True)
        assert step.forwards.get("draft", 0) == len(set(parents) - {-1})  # a leaf is not read
        assert len(parents) in (1, 13)
