"""RSD: siblings without replacement in draw order, stochastic beams, the exact distribution, and what is recorded."""

import math

import msgspec
import pytest
import torch

import engines
from engines.core.trees import children, row_depths
from engines.methods.speculative import rsd
from engines.methods.speculative._verify import Draft
from engines.methods.speculative.rsd.draws import Draws
from tests.engines.fakes import chi_square_p
from tests.engines.methods.speculative.toys import Toy, V, check_rows, pair


def decode(models, slug="rsd", seed=0, **params):
    return engines.run(slug, models, [1, 2, 3], params={"max_new_tokens": 24, **params}, seed=seed)


def uniforms(rng, size=V):
    return lambda row: torch.rand(size, dtype=torch.float64, generator=rng)


def fan(toy, b, draft, rng):
    rsd.fan(draft, b, toy.distributions(draft), uniforms(rng))
    return draft


def beams(toy, W, D, draft, rng):
    rsd.beams(draft, W, D, toy.distributions(draft), uniforms(rng))
    return draft


# --- noise and trees


def test_what_the_drafter_rules_out_is_never_drawn():
    q = torch.tensor([0.0, 0.7, 0.0, 0.3])
    for u in (torch.tensor([1.0, 0.0, 1.0, 0.5]), torch.full((4,), 0.5)):
        assert sorted(rsd.gumbel_topk(q, u, 3)[0]) == [1, 3]
        assert all(map(math.isfinite, rsd.gumbel_topk(q, u, 3)[1]))
    for seed in range(20):
        draft = Draft(0)
        rsd.beams(draft, 4, 2, lambda rows: q.expand(len(rows), 4), uniforms(torch.Generator().manual_seed(seed)))
        assert set(draft.tokens[1:]) == {1, 3} and len(draft) == 1 + 2 + 4


@pytest.mark.parametrize("seed", range(5))
def test_siblings_differ_and_stand_in_draw_order(seed):
    toy, rng = Toy(seed), torch.Generator().manual_seed(seed)
    one, other = Draft(0), Draft(0)
    perturbed = rsd.fan(one, [3, 2, 2], toy.distributions(one), uniforms(rng))
    phi, psi = rsd.beams(other, 4, 3, toy.distributions(other), uniforms(rng))
    assert len(one) == 1 + 3 + 6 + 12 and len(other) == 1 + 4 + 4 + 4
    for draft, scores in ((one, perturbed), (other, psi)):
        assert rsd.repeated(draft) == 0
        for rows in children(draft.parents):
            assert [scores[row] for row in rows] == sorted((scores[row] for row in rows), reverse=True)
    for row in range(1, len(other)):
        assert phi[row] == pytest.approx(
            sum(math.log(toy.q(other.path(row)[:i])[x]) for i, x in enumerate(other.path(row)))
        )
    for row, below in enumerate(children(other.parents)):
        assert not below or psi[below[0]] == psi[row]  # the best child kept has its parent's score


def test_near_ties_do_not_blow_up():
    q = torch.full((1, 4), 0.25, dtype=torch.float64)
    u = torch.tensor([[0.5, 0.5, math.nextafter(0.5, 1), 0.1]], dtype=torch.float64)
    _, psi = rsd.perturb(torch.zeros(1), torch.tensor([-3.0]), q, u)
    assert torch.isfinite(psi[0, [2, 3]]).all() and psi.max() == -3.0 and not psi.isnan().any()


def test_one_branch_is_a_chain_with_the_same_noise():
    models = pair(1)
    runs = [
        decode(models, temperature=1.0, **shape)
        for shape in (
            {"variant": "C", "branching": "1-1-1"},
            {"variant": "S", "width": 1},
            {"width": 1, "replacement": True},
        )
    ]
    trees = [
        [msgspec.structs.replace(step.tree, values=[]) for step in run.steps] for run in runs
    ]  # the score of a beam is another quantity
    assert trees[0] == trees[1] == trees[2]
    assert all(tree.parents == list(range(-1, len(tree.parents) - 1)) for tree in trees[0]) and any(
        step.facts["accepted"] for step in runs[0].steps
    )


def test_branching_is_read_or_refused():
    assert rsd.factors(" 2-2-1 ") == [2, 2, 1]
    for bad in ("", "2--1", "0-2", "2,2", "a", "-1", "7-7", "9" * 1999, "٣"):
        with pytest.raises(engines.UserError, match="is not a tree; give children per level such as 2-2-1"):
            rsd.factors(bad)
    with pytest.raises(engines.UserError, match="is not a tree"):
        decode(pair(), branching="none")


# --- the distribution


@pytest.mark.parametrize(("tree", "rounds"), [("S", 1500), ("C", 1200), ("independent", 1200)])
def test_two_tokens_have_the_targets_distribution(tree, rounds):
    toy = Toy(3)

    def grow(draft, rng):
        draft.replacement = tree == "independent"
        return beams(toy, 3, 2, draft, rng) if tree == "S" else fan(toy, [2, 2], draft, rng)

    assert chi_square_p(toy.counts(grow, rounds), toy.joint()) > 1e-3


def test_the_whole_vocabulary_as_siblings_is_always_accepted():
    models = pair(4)
    trace = decode(models, variant="C", branching="5-5", temperature=1.0)
    assert all(len(step.commits.tokens) == 3 and step.tree.emitted_source == "target" for step in trace.steps)
    assert any(step.facts["rescued"] for step in trace.steps)
    greedy = decode(models, variant="C", branching="5-5")
    assert all(len(step.commits.tokens) == 3 for step in greedy.steps)


def test_repeated_siblings_are_counted_and_never_kept():
    draft = Draft(0, replacement=True)
    for parent, token in ((0, 1), (0, 1), (2, 3), (1, 3), (0, 2), (1, 3)):
        draft.add(parent, token)
    assert rsd.repeated(draft) == 3
    trace = decode(pair(2), replacement=True, temperature=1.0, draft_temperature=0.4, variant="C", branching="4-2")
    assert sum(step.facts["repeated"] for step in trace.steps) > 0
    for tree in (step.tree for step in trace.steps):
        keys = list(zip(tree.parents, tree.tokens, strict=True))
        assert not any(
            kept and key in keys[:row] for row, (key, kept) in enumerate(zip(keys, tree.accepted, strict=True))
        )
    assert any("wasted" in step.note for step in trace.steps)


# --- whole runs

SHAPES = [
    {"variant": "S"},
    {"variant": "S", "width": 8, "length": 6},
    {"variant": "C"},
    {"variant": "S", "replacement": True},
    {"variant": "C", "replacement": True},
]


@pytest.mark.parametrize("shape", SHAPES)
def test_every_row_is_judged_in_its_own_context(shape):
    models = pair(6)
    assert check_rows(decode(models, temperature=1.0, draft_temperature=1.3, **shape), models, 1.3) > 50


def test_one_drafter_forward_per_level_and_none_for_the_last():
    models = pair(2)
    trace = decode(models, width=3, length=3)
    for tree in (step.tree for step in trace.steps):
        assert tree.value_name == "perturbed log-probability" and tree.values[:2] == [
            None,
            *([0.0] * (len(tree.tokens) > 1)),
        ]  # the best beam keeps the root's
        for rows in children(tree.parents):
            assert [tree.values[row] for row in rows] == sorted((tree.values[row] for row in rows), reverse=True)
    calls = iter(models["draft"].calls)
    for step in trace.steps:
        depths = row_depths(step.tree.parents)
        fed = [len(tokens) for _, tokens in (next(calls) for _ in range(step.forwards.get("draft", 0)))]
        assert len(fed) == step.facts["levels"] == max(depths)
        assert fed[1:] == [depths.count(level) for level in range(1, max(depths))] == [3] * (max(depths) - 1)
    assert trace.steps[0].facts["levels"] == 3 > trace.steps[-1].facts["levels"]  # no deeper than the answer goes


@pytest.mark.parametrize(
    "params", [{"temperature": 0.6}, {"temperature": 0.6, "replacement": True}, {"temperature": 0}]
)
def test_the_record_of_draws_is_what_the_tests_went_by(params):
    """Each chance is min(1, p/q) of what is recorded as left of both; a refusal leaves p where it lies above q; without
    replacement the refused token is gone from q."""
    prompt, params = "story: Mia, boat", {"max_new_tokens": 40, **params}
    traces = [engines.run("rsd", "tiny-ar-l", prompt, params=params, seed=seed) for seed in range(4)]
    refused = 0
    for step in (step for trace in traces for step in trace.steps):
        told, tree = step.record("draws", Draws), step.tree
        assert sum(len(node.draws) for node in told.nodes) == sum(chance is not None for chance in tree.chances)
        for node in told.nodes:
            assert [draw.accepted for draw in node.draws[:-1]] == [False] * (len(node.draws) - 1)
            assert bool(node.left) != node.draws[-1].accepted
            shares = [*(draw.target for draw in node.draws), *([node.left] if node.left else [])]
            for draw, after in zip(node.draws, [*node.draws[1:], None], strict=True):
                p, q = (side[node.tokens.index(draw.token)] for side in (draw.target, draw.draft))
                if q > 1e-4 and params["temperature"]:
                    assert draw.chance == pytest.approx(min(1, p / q), rel=0.02, abs=1e-3)
                assert draw.accepted == (draw.chance == 1.0 if draw.drawn is None else draw.drawn < draw.chance)
                if after and params["temperature"]:
                    refused += 1
                    i = node.tokens.index(draw.token)
                    assert after.draft[i] == pytest.approx(q if params.get("replacement") else 0, abs=2e-6)
            for draw, left in zip(node.draws, shares[1:], strict=False):
                if params["temperature"]:
                    above = [max(0, a - b) for a, b in zip(draw.target, draw.draft, strict=True)]
                    assert [share > 0 for share in left] == [share > 2e-6 for share in above] or max(above) < 1e-4
    assert refused or not params["temperature"]
