"""A*-decoding: what must hold of any frontier, and the loop. The order of the pops is a golden case."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import engines
from engines.methods.search import _policy
from engines.methods.search.a_star_decoding.frontier import COSTS, Frontier

CHAIN = "8+9*3+0-8"


@pytest.fixture(scope="module")
def model():
    return engines.load_model("tiny-reasoner", dtype="float32")


def searched(model, seed=0, **params):
    return engines.run("a-star-decoding", model, CHAIN, params={"max_new_tokens": 64, **params}, seed=seed)


def tree(trace):
    """The last record of every path, with its parent."""
    return {one.id: one for step in trace.steps for one in step.branches}


def way(trace):
    """The chosen path and those above it, the deepest first."""
    found = tree(trace)
    one = next(one for one in found.values() if one.fate == "chosen")
    while one.parent >= 0:
        yield one
        one = found[one.parent]


def grown(rule, rewards, shift=0.0):
    """A frontier fed with rewards below what was popped: (pops, pushed states)."""
    frontier, pops = Frontier(rule), []
    states = [frontier.push(0.5 - shift)]
    for r in rewards:
        state = frontier.pop()
        pops.append(state.number)
        states += [frontier.push(one - shift, state) for one in (r, (r * 7) % 1)]
    return pops, states


@given(st.lists(st.integers(0, 64).map(lambda n: n / 64), min_size=1, max_size=25))
def test_a_way_never_gets_cheaper_and_a_constant_changes_no_order(rewards):
    """Eighths of h more for every state, the question's too: exact in floating point."""
    for rule in COSTS:
        pops, states = grown(rule, rewards)
        assert pops == grown(rule, rewards, shift=0.125)[0]
        for state in (state for state in states if state.parent is not None):
            assert state.g >= state.parent.g
            if rule == "increase" and state.h <= state.parent.h:
                assert state.g == state.parent.g
            if rule == "consistent":
                assert state.f >= state.parent.f - 1e-12
            if rule == "zero":
                assert state.g == 0


def test_a_constant_reward_returns_the_first_chain(model, monkeypatch):
    """The deeper comes first among equals, so that the search never turns."""
    monkeypatch.setattr(_policy.StepReward, "score", lambda self, texts: [0.5] * len(texts))
    trace = searched(model, k=3, budget=64)
    assert len([*way(trace)]) == max(step.facts["expansions"] for step in trace.steps)
    assert all(path.scores["g"] == 0 for path in tree(trace).values() if path.scores)


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
    trace, tokens = searched(model), []
    for one in way(trace):
        written = [b.tokens for step in trace.steps for b in step.branches if b.id == one.id]
        tokens = [token for part in written for token in part] + tokens
    assert tokens == trace.output_ids
    (last, *_) = way(trace)
    assert last.length == len(trace.output_ids) or trace.output_ids[-1] in model.eos_ids


def test_without_a_queue_the_search_never_turns_back(model):
    found = tree(searched(model, queue="children", temperature=1.4)).values()
    expanded = [one.parent for one in found if one.fate == "expanded"]
    assert len(set(expanded)) == len(expanded)
