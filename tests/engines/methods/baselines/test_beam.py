"""Beam search: what transformers writes, the best of all texts where the beam is wide enough, and forks."""

import itertools

import pytest

import engines
from tests.engines.fakes import TableCausal, board
from tests.engines.methods.speculative.peers import theirs

PROMPT = [1, 2, 3]


def decode(model, edits=(), **params):
    return engines.run("beam", model, PROMPT, params={"max_new_tokens": 5, **params}, edits=edits)


def sum_of(model, tokens):
    text, total = list(PROMPT), 0.0
    for token in tokens:
        total += float(model.logits(text)[0].double().log_softmax(-1)[token])
        text.append(token)
    return total


def chosen(trace):
    (branch,) = [b for b in trace.steps[-1].branches if b.fate == "chosen"]
    return branch


@pytest.mark.parametrize("seed", range(4))
def test_a_beam_as_wide_as_the_tree_finds_the_best_text(seed):
    model = TableCausal(vocab_size=4, memory=3, seed=seed)
    trace = decode(model, width=16, max_new_tokens=3)
    best = max(itertools.product(range(4), repeat=3), key=lambda tokens: sum_of(model, tokens))
    assert trace.output_ids == list(best)
    assert chosen(trace).scores["log p"] == pytest.approx(sum_of(model, best), abs=1e-3)


@pytest.mark.parametrize("prompt", ["sort: Zoe, Mia, Leo, Ada, Kim", "what"])
@pytest.mark.parametrize(("width", "penalty"), [(1, 1.0), (2, 0.0), (3, 1.0), (5, 2.0)])
def test_it_writes_what_transformers_writes(prompt, width, penalty):
    model = engines.load_model("tiny-ar-s", dtype="float32")
    ids = list(model.tokenizer.encode_prompt(prompt))
    given = {"max_new_tokens": 20, "width": width, "length_penalty": penalty}
    ours = engines.run("beam", model, ids, params=given).output_ids
    assert ours == theirs(model, ids, 20, num_beams=width, length_penalty=penalty, early_stopping=False)


def test_one_forward_for_all_beams_and_nothing_is_fed_twice():
    trace = decode(TableCausal(vocab_size=8, memory=2), width=3, max_new_tokens=12)
    assert all(step.forwards == {"target": 1} for step in trace.steps)
    assert [step.tokens_fed for step in trace.steps] == [3, *[3] * 11]
    assert all(sum(b.fate == "alive" for b in step.branches) <= 3 for step in trace.steps)


def test_paths_that_an_edit_makes_the_same_are_one_again():
    model = TableCausal(vocab_size=8, memory=2)
    trace = decode(model, edits=[(3, engines.Edit(force={3: 6}))], max_new_tokens=8)
    after = trace.steps[4]
    assert trace.output_ids[0] == 6 and board(trace) == trace.output_ids
    assert after.note.startswith("1 beam extended")
    assert chosen(trace).scores["log p"] == pytest.approx(
        sum_of(model, trace.output_ids) - sum_of(model, trace.output_ids[:1]), abs=1e-3
    ), "a forced token adds nothing"


def test_equal_scores_go_to_the_lower_id():
    flat = TableCausal()
    flat.table.rows[:] = 0.0
    assert decode(flat, max_new_tokens=4).output_ids == [0, 0, 0, 0]
