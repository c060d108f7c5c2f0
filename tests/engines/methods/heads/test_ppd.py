"""PPD: golden rows and tree search, the greedy text whatever the embeddings hold, rows and budget of every step."""

import pytest
import torch

import engines
import engines.golden.heads  # the checkers
from engines.golden.verify import verify_file
from engines.methods.heads._dynamic_tree import FIRST, SMALLEST, search
from engines.methods.heads.ppd import above, layout
from engines.models import parts
from tests.engines.conftest import GOLDEN

A = [[0.4, 0.2, 0.1, *[0.02] * 7], [0.3, 0.1, 0.1, *[0.02] * 7], [0.2, 0.1, 0.05, *[0.02] * 7]]


@pytest.fixture(scope="module")
def model():
    return engines.load_model("tiny-ar-m", dtype="float32")


def decode(model, prompt="add: 457 + 86", slug="ppd", seed=0, **params):
    return engines.run(slug, model, prompt, params={"max_new_tokens": 24, **params}, seed=seed)


@pytest.mark.parametrize("topic", ["ppd_buffers", "ppd_dynamic_tree"])
def test_the_golden_cases_pass(topic):
    report = verify_file(GOLDEN / "heads" / f"{topic}.json", GOLDEN)
    assert (report.state, report.covered, report.mismatch) == ("passed", report.cases, "")


@pytest.mark.parametrize("prompt", ["add: 457 + 86", "copy: Ada, Ada, Ada, Ada"])
def test_the_text_is_the_greedy_one_in_fewer_calls(model, prompt):
    ours, plain = decode(model, prompt), decode(model, prompt, "greedy")
    assert ours.output_ids == plain.output_ids
    assert ours.totals.forwards_by_role["target"] < plain.totals.forwards_by_role["target"]


def test_random_embeddings_only_slow_it_down(model, monkeypatch):
    rng = torch.Generator().manual_seed(1)
    tensors = {"p": torch.randn(3, 128, generator=rng), "accuracy": torch.tensor(A)}
    monkeypatch.setattr(parts, "load_part", lambda name, bases, **_: parts.Part(name, "", "0" * 64, tensors, {}))
    ours, plain = decode(model), decode(model, slug="greedy")
    assert ours.output_ids == plain.output_ids
    assert len(decode(model).steps) > 0.7 * len(plain.steps)


@pytest.mark.parametrize("budget", [20, 33])
def test_rows_states_and_target_calls(model, budget):
    trace = decode(model, budget=budget)
    state = 0
    for step in trace.steps:
        f, values = step.facts, step.tree.values
        assert f["state"] == state and f["prompt_rows"] == sum(values) and values[0] == 3 and min(values) >= 1
        assert f["rows"] - 1 + f["prompt_rows"] - 3 <= budget
        assert step.forwards["target"] == 1 and step.work["target"] >= 6 * (f["rows"] + f["prompt_rows"])
        last = max(i for i, kept in enumerate(step.tree.accepted) if kept)
        assert f["next_state"] == values[last] and 1 <= len(step.commits.tokens) <= 4
        state = f["next_state"]


def test_a_prompt_token_sees_its_own_candidate_only():
    trees = search(A, 24)
    rows = layout(trees.states[2], 3)
    for (path, j), up in zip(rows, above(rows), strict=True):
        assert up < 0 or rows[up] == ((path, j - 1) if j else (path[:-1], 0))
    assert len(rows) == 1 + 3 + sum(1 + node.prompts for node in trees.states[2])


@pytest.mark.parametrize("B", [20, 24, 40])
def test_the_search_keeps_its_budget_and_its_chances(B):
    trees = search(A, B)
    for tree, row in zip(trees.states, trees.transition, strict=True):
        assert len(tree) + sum(node.prompts for node in tree) <= B and all(1 <= node.prompts <= 3 for node in tree)
        assert sum(row) == pytest.approx(1)
    assert len(trees.states[0]) == FIRST and trees.score < trees.score_no_wasted_step


def test_with_room_for_all_every_candidate_keeps_all_prompt_tokens():
    from engines.methods.heads._dynamic_tree import ranked_paths, trees_of

    trees = trees_of([ranked_paths(A, s)[:12] for s in (1, 2, 3)], 48)
    assert {node.prompts for tree in trees.states for node in tree} == {3}


def test_the_same_random_numbers_give_plain_samplings_text(model):
    ours, plain = (
        decode(model, temperature=1.2, seed=2),
        decode(model, "add: 457 + 86", "medusa", 2, temperature=1.2, nodes=0),
    )
    assert ours.output_ids == plain.output_ids


def test_bad_input_is_one_sentence(model):
    with pytest.raises(ValueError, match=str(SMALLEST)):
        search(A, SMALLEST - 1)
    with pytest.raises(engines.UserError, match="budget"):
        decode(model, budget=10)
    with pytest.raises(engines.UserError, match=r"training prompt-tokens tiny-ar-s"):
        decode("tiny-ar-s")
