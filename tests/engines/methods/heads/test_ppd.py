"""PPD: the search for trees, rows and budget of every step, and one forward in training and decoding."""

from types import SimpleNamespace

import pytest
import torch

import engines
import tests.golden.checkers.heads  # noqa: F401 - registers its checker
from engines.core.kinds.layered import CountedLayered
from engines.core.meter import Meter
from engines.methods.heads._template import filled, parents_of
from engines.methods.heads.ppd import above, forward, layout
from engines.methods.heads.ppd.dynamic_tree import FIRST, SMALLEST, ranked_paths, search, trees_of
from engines.methods.speculative._turn import Target
from engines.methods.speculative._verify import Draft
from engines.training.heads.prompt_tokens import Embeddings, PromptTraining

A = [[0.4, 0.2, 0.1, *[0.02] * 7], [0.3, 0.1, 0.1, *[0.02] * 7], [0.2, 0.1, 0.05, *[0.02] * 7]]


def decode(model, prompt="add: 457 + 86", slug="ppd", seed=0, **params):
    return engines.run(slug, model, prompt, params={"max_new_tokens": 16, **params}, seed=seed)


@pytest.mark.parametrize("budget", [20, 33])
def test_rows_states_and_target_calls(model, budget):
    trace = decode(model, budget=budget)
    state = 0
    for step in trace.steps:
        f, tails = step.facts, step.tree.tails
        assert f["state"] == state and f["prompt_rows"] == sum(tails) and tails[0] == 3 and min(tails) >= 1
        assert f["rows"] - 1 + f["prompt_rows"] - 3 <= budget
        assert step.forwards["target"] == 1
        assert step.work["target"] == model.num_layers * step.tokens_fed >= 6 * (f["rows"] + f["prompt_rows"])
        last = max(i for i, kept in enumerate(step.tree.accepted) if kept)
        assert f["next_state"] == tails[last] and 1 <= len(step.commits.tokens) <= 4
        state = f["next_state"]


def test_a_prompt_token_sees_its_own_candidate_only():
    trees = search(A, 24)
    rows = layout(trees.states[2], 3)
    for (path, j), up in zip(rows, above(rows), strict=True):
        assert up < 0 or rows[up] == ((path, j - 1) if j else (path[:-1], 0))
    assert len(rows) == 1 + 3 + sum(1 + node.prompts for node in trees.states[2])


def test_prompt_rows_change_no_candidates_logits(model):
    """A tree with prompt tokens, whatever they hold, and the same tree without: one walk, logits within 1e-4."""
    p, ids = SimpleNamespace(max_new_tokens=24, temperature=0.0), model.tokenizer.encode_prompt("add: 457 + 86")
    rows, e = layout(search(A, 40).states[2], 3), 5 * torch.randn(3, 128, generator=torch.Generator().manual_seed(3))
    known = [path for path, j in rows if not j]
    tokens = filled(known, ids[-1], [list(range(30 + 10 * d, 40 + 10 * d)) for d in range(3)])
    draft = Draft.of(tokens, parents_of(known)[1], "draft")
    counted = CountedLayered(model, "target", Meter())
    ours, h = forward(Target(counted, ids, p, rows=99), ids, draft, rows, e, torch.Generator())
    plain = Target(counted, ids, p, rows=99).verify(ids, draft, torch.Generator())
    assert torch.allclose(ours.z, plain.z, atol=1e-4) and ours.verdict.path == plain.verdict.path
    assert len(rows) > len(known) + len(known) // 2 and h.shape == (3, 128)


def test_training_and_decoding_have_one_forward(model):
    """What all cuts of a text have at their prompt rows in training, each cut seeing its own, is what decoding reads
    behind the text up to the cut."""
    p, ids = 0.3 * torch.randn(3, 128, generator=torch.Generator().manual_seed(4)), [1, 7, 30, 12, 44, 9, 21, 60]
    read = SimpleNamespace(logits=lambda states: states)  # the states as they are, float32
    training = SimpleNamespace(network=Embeddings(p), body=model.model.base_model, teacher=read)
    cuts = torch.tensor([2, 5, 7])
    with torch.no_grad():
        said = PromptTraining.said(training, SimpleNamespace(tokens=torch.tensor(ids)), cuts)  # [3, 3, d]
    counted, params = CountedLayered(model, "target", Meter()), SimpleNamespace(max_new_tokens=9, temperature=0.0)
    for cut, wanted in zip(cuts.tolist(), said, strict=True):
        text = ids[: cut + 1]
        rows, draft = layout([], 3), Draft(text[-1])
        _, h = forward(Target(counted, text, params, rows=9), text, draft, rows, p, torch.Generator())
        assert torch.allclose(h, wanted, atol=1e-4)


@pytest.mark.parametrize("B", [20, 24, 40])
def test_the_search_keeps_its_budget_and_its_chances(B):
    trees = search(A, B)
    for tree, row in zip(trees.states, trees.transition, strict=True):
        assert len(tree) + sum(node.prompts for node in tree) <= B and all(1 <= node.prompts <= 3 for node in tree)
        assert sum(row) == pytest.approx(1)
    assert len(trees.states[0]) == FIRST and trees.score < trees.score_no_wasted_step


def test_with_room_for_all_every_candidate_keeps_all_prompt_tokens():
    trees = trees_of([ranked_paths(A, s)[:12] for s in (1, 2, 3)], 48)
    assert {node.prompts for tree in trees.states for node in tree} == {3}


def test_the_same_random_numbers_give_plain_samplings_text(model):
    ours, plain = (
        decode(model, temperature=1.2, seed=2),
        decode(model, "add: 457 + 86", "medusa", 2, temperature=1.2, nodes=0),
    )
    assert ours.output_ids == plain.output_ids


def test_a_search_in_too_small_a_budget_is_refused():
    with pytest.raises(ValueError, match=str(SMALLEST)):
        search(A, SMALLEST - 1)
