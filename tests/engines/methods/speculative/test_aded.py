"""ADED: a table that learns, and drafts that follow it. The table's rule and the search are golden cases."""

import itertools

import pytest
import torch

import engines
from engines.methods.speculative.aded.trigrams import Table, search
from tests.engines.fakes import TableCausal

BOAT = "python: class Boat(name: str, speed: int, crew: int)"


def decode(model, prompt=(1, 2, 3), **params):
    return engines.run("aded", model, list(prompt), params={"max_new_tokens": 40, **params})


def small():
    return TableCausal(memory=1, vocab_size=5)


@pytest.fixture
def filled():
    """A table over every kind of pair."""
    rng = torch.Generator().manual_seed(0)
    return Table.of([torch.randint(6, (80,), generator=rng).tolist() for _ in range(3)], 12)


def test_adaptation_pays_on_a_text_that_repeats_itself():
    """The aha of the method: with increment 0 nothing is ever drafted, with it a cycle is accepted."""
    trace, empty = decode(small(), node_limit=64), decode(small(), increment=0.0)
    assert trace.totals.forwards < 25 and [step.tokens_fed for step in empty.steps] == [3] + [1] * 39
    assert not any(step.memory or step.facts["table_size"] for step in empty.steps)
    early, late = ([step.facts["accepted"] for step in part] for part in (trace.steps[:4], trace.steps[-4:-1]))
    assert sum(early) < sum(late) and trace.steps[-1].facts["learned_weight"] > trace.steps[0].facts["learned_weight"]
    firsts = [decode(small(), [*range(5)] * 10, window=3, learn_from_prompt=yes).steps[0] for yes in (False, True)]
    assert [step.facts["table_size"] for step in firsts] == [1, 5]  # the prompt can be learned as a whole


def test_the_shipped_store_fills_the_table_and_changes_no_text():
    model = engines.load_model("tiny-ar-m", dtype="float32")
    cold, warm = (engines.run("aded", model, BOAT, params={"corpus": corpus}) for corpus in ("none", "store"))
    assert warm.output_ids == cold.output_ids and warm.totals.forwards < cold.totals.forwards
    assert warm.steps[0].facts["table_size"] > 1000 > cold.steps[0].facts["table_size"]
    assert any(entry.source == "corpus" for step in warm.steps for entry in step.memory)
    with pytest.raises(engines.UserError, match="no store in the tokens of table"):
        decode(TableCausal(), corpus="store")


def test_the_record_shows_the_pairs_read_and_taught():
    trace = decode(small(), window=4)
    text = trace.header.prompt_ids + trace.output_ids
    for step in trace.steps:
        tree, before = step.tree, text[: step.tree.start + 1]
        assert {tuple(m.key) for m in step.memory if m.written} == set(itertools.pairwise(before[-4:-1]))
        assert any(m.read for m in step.memory) == (len(tree.tokens) > 1)
        for m in step.memory:
            assert m.source == "adapted" and m.weights == sorted(m.weights, reverse=True)
            assert len(m.tokens) == len(m.weights) > 0
            assert not (m.read and m.key == before[-2:]) or set(m.tokens) >= {tree.tokens[1]}


def test_what_was_learnt_stands_beside_what_was_loaded():
    """A copy of the weights keeps what the table was; the same search in it, same draws, is the baseline."""
    model = engines.load_model("tiny-ar-m", dtype="float32")
    given = {"corpus": "store", "max_new_tokens": 40}
    trace, plain = (engines.run("aded", model, BOAT, params={**given, **more}) for more in ({}, {"increment": 0.0}))
    learnt, whole = 0, trace.header.prompt_ids + trace.output_ids
    for step in trace.steps:
        search, text = step.records["table_search"], whole[: step.tree.start + 1]
        assert search["pair"] == text[-2:] and search["tokens"][0] == text[-1]
        assert all(w >= old >= 0 for w, old in zip(search["weights"], search["loaded"], strict=True))
        assert len(search["ends"]) == len(search["scores"]) == len(search["rollouts"]) in (0, 60)
        assert all(len(path) <= 4 for path in search["fixed"])
        learnt += search["weights"] != search["loaded"]
    assert learnt > 3
    for step in plain.steps:
        search = step.records["table_search"]
        assert search["weights"] == search["loaded"]
        paths = {tuple(path[: n + 1]) for path in search["fixed"] for n in range(min(len(path), search["room"]))}
        assert len(paths) == len(step.tree.tokens) - 1  # nothing was learnt, so the baseline is the run itself
    short = decode(TableCausal(memory=1), prompt=[1], max_new_tokens=3)
    assert "table_search" not in short.steps[0].records and "table_search" in short.steps[1].records


def test_each_iteration_is_told_with_what_it_gained(filled):
    done, rng = [], torch.Generator().manual_seed(0)
    uniforms = iter(lambda: float(torch.rand((), generator=rng)), None)
    nodes = search(filled, [1, 2], 50, 3, uniforms, done=done)
    assert len(done) == 50
    for iteration in done:
        text = [1, 2, *iteration.node.path, *iteration.rollout]
        weights = [filled.weight(*text[i : i + 3]) for i in range(len(text) - 2)]
        assert iteration.score == pytest.approx(1 + sum(weights)) and all(weights) and len(text) <= 5
    assert nodes[0].score == pytest.approx(sum(iteration.score for iteration in done))
