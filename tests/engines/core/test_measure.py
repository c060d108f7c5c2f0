"""The two measurements of a model by itself."""

import math

import pytest
import torch

import engines
from tests.engines.fakes import TableCausal, TableMasked


def test_logits_behind_a_text_are_the_models_own():
    model = TableCausal(memory=None)
    found = engines.next_logits(model, [1, 2, 3], [0, 5])
    wanted = model.logits([1, 2, 3])[0][[0, 5]].tolist()
    assert found == {"alone": pytest.approx(wanted), "together": pytest.approx(wanted)}
    assert [len(fed) for _, fed in model.calls] == [2, 1, 3]  # a row by itself behind the text, then all at once


def test_on_a_network_both_ways_agree_in_float32():
    model = engines.load_model("tiny-ar-s", dtype="float32")
    found = engines.next_logits(model, model.tokenizer.encode_prompt("sort: Mia, Leo"), list(range(20)))
    torch.testing.assert_close(torch.tensor(found["alone"]), torch.tensor(found["together"]), atol=1e-4, rtol=0)


@pytest.mark.parametrize(("ids", "tokens"), [([], [1]), ([1, 99], [1]), ([1], [-1])])
def test_what_is_no_text_is_refused(ids, tokens):
    with pytest.raises(engines.UserError, match="ids from 0 to 7"):
        engines.next_logits(TableCausal(), ids, tokens)


def test_the_likelihood_of_a_text_is_the_chain_of_its_tokens():
    model, text = TableCausal(memory=None), [1, 2, 3, 4, 5]
    rows = model.logits(text[:2], text[:3], text[:4]).double().log_softmax(-1)
    found, greedy = engines.log_likelihood(model, text, 2)
    assert found == pytest.approx(float(rows[[0, 1, 2], text[2:]].sum())) and not greedy
    assert [len(fed) for _, fed in model.calls] == [4]  # one forward


def test_the_likelihoods_of_all_next_tokens_sum_to_one_and_greedy_is_one_of_them():
    model = TableCausal(memory=None)
    found = [engines.log_likelihood(model, [3, 1, token], 2) for token in range(8)]
    assert sum(math.exp(score) for score, _ in found) == pytest.approx(1)
    best = max(range(8), key=lambda token: found[token][0])
    assert [greedy for _, greedy in found] == [token == best for token in range(8)]


def test_a_likelihood_needs_a_causal_model_and_a_text_that_fits():
    with pytest.raises(engines.UserError, match="needs a causal model"):
        engines.log_likelihood(TableMasked(), [1, 2], 1)
    with pytest.raises(engines.UserError, match="start=2 leaves nothing to score in a text of 2 tokens"):
        engines.log_likelihood(TableCausal(), [1, 2], 2)
    with pytest.raises(engines.UserError, match="has room for 4 in all"):
        engines.log_likelihood(TableCausal(max_positions=4), [1, 2, 3, 4, 5, 6], 1)


def test_row_costs_are_of_the_rows_asked_for():
    model = TableCausal(memory=1)
    found = engines.row_costs(model, rows=(1, 4), repeats=3, past=10)
    assert list(found) == [1, 4] and all(seconds > 0 for seconds in found.values())
    assert [(len(cached), len(fed)) for cached, fed in model.calls] == [(0, 10)] + [
        (10, n) for _ in range(4) for n in (1, 4)
    ]
    with pytest.raises(engines.UserError, match="masked; this measurement needs a causal model"):
        engines.row_costs(TableMasked())


def test_what_a_network_chooses_by_itself_does_not_go_through_our_cache(monkeypatch):
    model = engines.load_model("tiny-ar-s")
    trace = engines.run("greedy", model, "add: 4 + 5", params={"max_new_tokens": 8})
    ids, start = [*trace.header.prompt_ids, *trace.output_ids], len(trace.header.prompt_ids)
    monkeypatch.setattr(type(model), "extend", None)
    assert engines.network_choices(model, ids, start) == trace.output_ids
    assert engines.network_choices(TableCausal(), ids, start) is None
