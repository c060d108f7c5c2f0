"""Entropy Adaptive Decoding: who writes, how long, at which cost. The rule itself is a golden case."""

import itertools

import pytest

import engines
from tests.engines.fakes import TableCausal, lane

PROMPT = [1, 2, 3]


def pair(seed=0, **options):
    return {
        "large": TableCausal(seed=seed, parameters=30, name="large", **options),
        "small": TableCausal(seed=seed + 50, parameters=10, scale=1.0, **options),
    }


def decode(models, edits=(), **params):
    return engines.run("ead", models, PROMPT, params={"max_new_tokens": 40, **params}, edits=edits)


def alone(model):
    return engines.run("greedy", model, PROMPT, params={"max_new_tokens": 40}).output_ids


def writers(trace):
    return [step.choice.chosen for step in trace.steps]


@pytest.mark.parametrize(("window", "d_min"), [(1, 7), (5, 1)])
def test_the_ends_of_tau_are_one_model_alone(window, d_min):
    models = pair(eos_ids=(7,))
    for who, given in (("small", {"tau": 16.0}), ("large", {"tau": -0.01, "start": "large"})):
        trace = decode(models, window=window, d_min=d_min, **given)
        assert trace.output_ids == alone(models[who]) and set(trace.totals.forwards_by_role) == {who}


@pytest.mark.parametrize(("window", "d_min", "start"), [(1, 1, "small"), (1, 3, "large"), (5, 3, "small")])
def test_stays_costs_and_what_the_record_says_of_decisions(window, d_min, start):
    """The rule itself is golden."""
    trace = decode(pair(), tau=0.8, window=window, d_min=d_min, start=start)
    who, read = writers(trace), []
    assert who[0] == start and len(who) == 40
    stays = [len(list(group)) for _, group in itertools.groupby(who)]
    assert all(n >= d_min for n in stays[:-1])
    for i, step in enumerate(trace.steps):
        read.append(step.choice.raw)
        assert step.choice.value == pytest.approx(sum(read[-window:]) / len(read[-window:]))
        assert step.choice.threshold == 0.8 and (i + 1 == len(who) or step.choice.switched == (who[i + 1] != who[i]))
        assert sum(step.forwards.values()) == step.forwards[who[i]] == 1
        assert lane(step, "entropy")[3 + i] == pytest.approx(step.choice.raw, abs=0.02)


@pytest.mark.parametrize("edits", [[], [(9, engines.Edit(force={6: 0, 7: 2}))], [(12, engines.Edit(force={15: 4}))]])
def test_the_model_that_takes_over_has_read_the_whole_text(edits):
    """Each forward's cache and input together are a prefix of the text, and the cost of catching up is counted."""
    models = pair(memory=None)
    trace = decode(models, edits, tau=1.2, window=1, d_min=2)
    seen = {role: iter(model.calls) for role, model in models.items()}
    ids = list(PROMPT)
    assert len(set(writers(trace))) == 2
    for step in trace.steps:
        before, written = [*ids], step.commits
        for position, token, cause in zip(written.positions, written.tokens, written.causes, strict=True):
            if cause == "withdrawn":
                before = before[:position]
            elif cause == "forced":
                before.append(token)
        cached, fed = next(seen[step.choice.chosen])
        assert cached + fed == before
        assert step.tokens_fed == len(fed) and (not step.index or step.facts["catch_up_tokens"] == len(fed) - 1)
        ids = [*before, written.tokens[-1]]
    assert ids == PROMPT + trace.output_ids and all(next(rest, None) is None for rest in seen.values())


def test_an_end_mark_of_either_model_ends_the_text():
    for large_eos, small_eos in (((5,), ()), ((), (5,))):
        models = {"large": TableCausal(parameters=30, eos_ids=()), "small": TableCausal(seed=9, parameters=10)}
        models["large"].eos_ids, models["small"].eos_ids = frozenset(large_eos), frozenset(small_eos)
        trace = decode(models, tau=1.2, d_min=1, window=1)
        assert trace.output_ids.index(5) == len(trace.output_ids) - 1


def test_padded_vocabularies_are_cut_before_the_softmax():
    small, wide = TableCausal(seed=4, vocab_size=8), TableCausal(seed=4, vocab_size=11)
    wide.tokenizer = small.tokenizer
    trace = decode({"large": wide, "small": small}, tau=-0.01, start="large")
    assert max(trace.output_ids) < 8 and all(step.choice.raw <= 3 + 1e-5 for step in trace.steps)
    assert all(max(max(row) for row in step.candidates.tokens.array().tolist()) < 8 for step in trace.steps)
