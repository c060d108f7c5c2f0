"""RSD: what is drawn and recorded. The trees and RSD-C's exact distribution are golden cases."""

import math

import pytest
import torch

import engines
from engines.core.trees import children, row_depths
from engines.methods.speculative import rsd
from engines.methods.speculative._verify import Draft
from engines.methods.speculative.rsd.draws import Draws
from tests.engines.methods.speculative.toys import pair


def decode(models, seed=0, **params):
    return engines.run("rsd", models, [1, 2, 3], params={"max_new_tokens": 24, **params}, seed=seed)


def test_what_the_drafter_rules_out_is_never_drawn_and_near_ties_do_not_blow_up():
    q = torch.tensor([0.0, 0.7, 0.0, 0.3])
    for u in (torch.tensor([1.0, 0.0, 1.0, 0.5]), torch.full((4,), 0.5)):
        assert sorted(rsd.gumbel_topk(q, u, 3)[0]) == [1, 3]
        assert all(map(math.isfinite, rsd.gumbel_topk(q, u, 3)[1]))
    for seed in range(20):
        draft, rng = Draft(0), torch.Generator().manual_seed(seed)
        rsd.beams(draft, 4, 2, lambda rows: q.expand(len(rows), 4), lambda _, rng=rng: torch.rand(4, generator=rng))
        assert set(draft.tokens[1:]) == {1, 3} and len(draft) == 1 + 2 + 4
    q, u = torch.full((1, 4), 0.25).double(), torch.tensor([[0.5, 0.5, math.nextafter(0.5, 1), 0.1]]).double()
    _, psi = rsd.perturb(torch.zeros(1), torch.tensor([-3.0]), q, u)
    assert torch.isfinite(psi[0, [2, 3]]).all() and psi.max() == -3.0 and not psi.isnan().any()


def test_branching_is_read_or_refused():
    assert rsd.factors(" 2-2-1 ") == [2, 2, 1]
    for bad in ("", "2--1", "0-2", "2,2", "a", "-1", "7-7", "9" * 1999, "٣"):
        with pytest.raises(engines.UserError, match="is not a tree; give children per level such as 2-2-1"):
            decode(pair(), branching=bad)


def test_the_whole_vocabulary_as_siblings_is_always_accepted():
    for temperature in (0.0, 1.0):
        trace = decode(pair(4), variant="C", branching="5-5", temperature=temperature)
        assert all(len(step.commits.tokens) == 3 for step in trace.steps)
    assert {step.tree.emitted_source for step in trace.steps} == {"target"}
    assert any(step.facts["rescued"] for step in trace.steps)


def test_repeated_siblings_are_counted_and_never_kept():
    draft = Draft(0, replacement=True)
    for parent, token in ((0, 1), (0, 1), (2, 3), (1, 3), (0, 2), (1, 3)):
        draft.add(parent, token)
    assert rsd.repeated(draft) == 3
    trace = decode(pair(2), replacement=True, temperature=1.0, draft_temperature=0.4, variant="C", branching="4-2")
    assert sum(step.facts["repeated"] for step in trace.steps) > 0
    for tree in (step.tree for step in trace.steps):
        keys = list(zip(tree.parents, tree.tokens, strict=True))
        assert not any(kept and keys[row] in keys[:row] for row, kept in enumerate(tree.accepted))


def test_siblings_stand_in_draw_order_and_a_level_costs_one_drafter_forward_but_the_last_none():
    models = pair(2)
    trace = decode(models, width=3, length=3)
    calls = iter(models["draft"].calls)
    for step in trace.steps:
        tree, depths = step.tree, row_depths(step.tree.parents)
        assert tree.values[:2] == [None, *([0.0] * (len(tree.tokens) > 1))]  # the best beam keeps the root's
        for rows in children(tree.parents):
            assert [tree.values[row] for row in rows] == sorted((tree.values[row] for row in rows), reverse=True)
            assert len({tree.tokens[row] for row in rows}) == len(rows)
        fed = [len(tokens) for _, tokens in (next(calls) for _ in range(step.forwards.get("draft", 0)))]
        assert len(fed) == step.facts["levels"] == max(depths)
        assert fed[1:] == [depths.count(level) for level in range(1, max(depths))] == [3] * (max(depths) - 1)
    assert trace.steps[0].facts["levels"] == 3 > trace.steps[-1].facts["levels"]  # no deeper than the answer goes


@pytest.mark.parametrize(("temperature", "replacement"), [(0.6, False), (0.6, True), (0, False)])
def test_the_record_of_draws_is_what_the_tests_went_by(temperature, replacement):
    """Each chance is min(1, p/q) of what is recorded as left of both."""
    params = {"max_new_tokens": 40, "temperature": temperature, "replacement": replacement}
    for step in engines.run("rsd", "tiny-ar-l", "story: Mia, boat", params=params).steps:
        nodes = step.record("draws", Draws).nodes
        assert sum(len(node.draws) for node in nodes) == sum(chance is not None for chance in step.tree.chances)
        for node in nodes:
            assert [draw.accepted for draw in node.draws[:-1]] == [False] * (len(node.draws) - 1)
            assert bool(node.left) != node.draws[-1].accepted
            for draw in node.draws:
                i = node.tokens.index(draw.token)
                assert draw.accepted == (draw.chance == 1.0 if draw.drawn is None else draw.drawn < draw.chance)
                if temperature and draw.draft[i] > 1e-4:
                    assert draw.chance == pytest.approx(min(1, draw.target[i] / draw.draft[i]), rel=0.02, abs=1e-3)
