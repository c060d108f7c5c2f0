"""A*-decoding: what must hold of any frontier, and the loop on a shipped reasoner."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import engines
from engines.kit import distribution, draw
from engines.methods.search import _policy
from engines.methods.search.a_star_decoding.frontier import COSTS, Frontier

CHAIN = "8+9*3+0-8"
REWARDS = st.lists(st.tuples(st.integers(0, 5), st.floats(0, 1)), min_size=1, max_size=25)


@pytest.fixture(scope="module")
def model() -> engines.Model:
    return engines.load_model("tiny-reasoner", dtype="float32")


def searched(model, seed=0, **params):
    return engines.run("a-star-decoding", model, CHAIN, params={"max_new_tokens": 64, **params}, seed=seed)


def tree(trace):
    """The last record of every path, with its parent."""
    return {one.id: one for step in trace.steps for one in step.branches}


def grown(rule, rewards, shift=0.0):
    """A frontier fed with rewards below what was popped: (pops, pushed states)."""
    frontier, pops = Frontier(rule), []
    states = [frontier.push(0.5 - shift)]
    for _, r in rewards:
        state = frontier.pop()
        pops.append(state.number)
        states += [frontier.push(one - shift, state) for one in (r, (r * 7) % 1)]
    return pops, states


@given(REWARDS)
def test_a_way_never_gets_cheaper(rewards):
    for rule in COSTS:
        for state in grown(rule, rewards)[1]:
            if state.parent is None:
                continue
            assert state.g >= state.parent.g
            if rule == "increase" and state.h <= state.parent.h:
                assert state.g == state.parent.g
            if rule == "consistent":
                assert state.f >= state.parent.f - 1e-12
            if rule == "zero":
                assert state.g == 0


@given(st.lists(st.tuples(st.just(0), st.integers(0, 64).map(lambda n: n / 64)), min_size=1, max_size=20))
def test_a_constant_changes_no_order(rewards):
    """Eighths of h more for every state, the question's too: exact in floating point."""
    for rule in COSTS:
        assert grown(rule, rewards)[0] == grown(rule, rewards, shift=0.125)[0]


def test_a_single_child_is_plain_sampling(model):
    ids, rng, drawn = model.tokenizer.encode_prompt(CHAIN), torch.Generator().manual_seed(5), []
    while not drawn or (drawn[-1] not in model.eos_ids and len(drawn) < 64):
        z = model.extend(ids + drawn, model.new_cache(256), last_only=True).logits[-1]
        drawn.append(draw(distribution(z, 1.2), rng))
    assert searched(model, seed=5, k=1, budget=64, temperature=1.2).output_ids == drawn


def test_a_constant_reward_returns_the_first_chain(model, monkeypatch):
    """The deeper comes first among equals, so that the search never turns."""
    monkeypatch.setattr(_policy.StepReward, "score", lambda self, texts: [0.5] * len(texts))
    trace = searched(model, k=3, budget=64)
    found = tree(trace)
    expanded = [step.facts["expansions"] for step in trace.steps]
    depth, one = 0, next(one for one in trace.steps[-1].branches if one.fate == "chosen")
    while one.parent >= 0:
        depth, one = depth + 1, found[one.parent]
    assert depth == max(expanded) and all(path.scores["g"] == 0 for path in found.values() if path.scores)


def test_the_budget_is_kept_and_calls_are_counted(model):
    for budget in (1, 3, 20):
        trace = searched(model, budget=budget)
        last, found = trace.steps[-1].facts, tree(trace)
        scored = [one for one in found.values() if one.parent >= 0 and one.scores]
        assert last["expansions"] <= budget and last["prm_calls"] == len(scored)
        assert sum(one.fate == "chosen" for one in found.values()) == 1
    short = searched(model, budget=1)
    assert "The budget is spent" in short.steps[-1].note and "#" in short.text


def test_a_perfect_judge_finds_a_right_answer_that_is_in_the_tree(model):
    for seed in range(4):
        trace = searched(model, seed=seed, reward="exact", budget=40)
        ended = [one for one in tree(trace).values() if one.fate in ("finished", "chosen") and one.scores.get("h") == 0]
        right = engines.tasks.check(engines.tasks.recognise(CHAIN), trace.text).correct
        assert right or not ended


def test_the_answer_is_the_way_of_the_chosen_state(model):
    trace = searched(model)
    found = tree(trace)
    one, tokens = next(one for one in found.values() if one.fate == "chosen"), []
    start = len(trace.header.prompt_ids)
    assert one.length == len(trace.output_ids) or trace.output_ids[-1] in model.eos_ids
    while one.parent >= 0:
        ids = [b for step in trace.steps for b in step.branches if b.id == one.id and b.tokens]
        tokens = [t for b in ids for t in b.tokens] + tokens
        one = found[one.parent]
    assert tokens == trace.output_ids and start == trace.header.prompt_ids.index(trace.header.prompt_ids[-1]) + 1


def test_without_a_queue_the_search_never_turns_back(model):
    trace = searched(model, queue="children", temperature=1.4)
    found = tree(trace)
    expanded = [one for one in found.values() if one.fate == "expanded"]
    assert len({one.parent for one in expanded}) == len(expanded)


def test_bad_input_says_what_is_allowed(model):
    with pytest.raises(engines.UserError, match=r"python -m engines\.training prm tiny-ar-s"):
        engines.run("a-star-decoding", "tiny-ar-s", "subtract: 9 - 4", params={"max_new_tokens": 8})
    with pytest.raises(engines.UserError, match="chains of digits"):
        engines.run("a-star-decoding", model, "subtract: 9 - 4")
    small = _policy.StepReward(engines.models.parts.load_part("prm", [model.record]).tensors)
    with pytest.raises(engines.UserError, match="has 129 tokens and the reward model reads 128"):
        small.score([[1] * 129])
