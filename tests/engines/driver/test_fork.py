"""Forks: run again to a step, change something there, go on. On tables of logits, so that every state is known."""

import msgspec
import pytest

import engines
from engines.core.trace import Commits, check_consistency
from tests.engines.fakes import TableCausal, TableMasked, board
from tests.engines.fakes import commits as written

P = 3  # prompt tokens
EOS = 7
CAUSAL, MASKED = TableCausal(eos_ids=(EOS,), never=(EOS,)), TableMasked(eos_ids=(EOS,), never=(EOS,))


def causal(slug="greedy", **options):
    return engines.run(slug, CAUSAL, [1, 2, 3], params={"max_new_tokens": 12}, **options)


def masked(slug="llada", seed=0, **params):
    return engines.run(slug, MASKED, [1, 2, 3], params={"max_new_tokens": 16, "block_length": 4, **params}, seed=seed)


def fork(trace, step, **options):
    made = engines.fork(trace, step, model=CAUSAL if trace.header.canvas is None else MASKED, **options)
    check_consistency(engines.Trace.from_json(made.to_json()))
    assert board(made) == made.output_ids
    return made


# --- the same method goes on ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [causal, masked])
def test_every_step_can_be_forked_and_the_trace_says_from_where(make):
    trace = make()
    for step in range(len(trace.steps) + 1):
        made = fork(trace, step, edit=engines.Edit(forbid={P + 15: [0]}))
        assert written(made)[:step] == written(trace)[:step]
        assert made.header.origin == engines.Origin(
            engines.digest(trace), step, trace.header.method, trace.header.title, engines.Edit(forbid={P + 15: [0]})
        )
        assert made.header.edits[0].after_step == step - 1 if made.header.edits else step == len(trace.steps)


@pytest.mark.parametrize("make", [causal, masked])
def test_an_edit_before_the_first_step(make):
    trace = make()
    made = fork(trace, 0, edit=engines.Edit(force={P: 5}))
    first = made.steps[0].commits
    assert (first.positions[0], first.tokens[0], first.causes[0]) == (P, 5, "forced")
    assert made.output_ids[0] == 5 and len(made.output_ids) == len(trace.output_ids) and made.end.reason == "complete"


def test_a_fork_of_a_fork_keeps_the_edits_that_came_before_it():
    trace = masked()
    one = fork(trace, 4, edit=engines.Edit(force={P + 9: 5}))
    two = fork(one, 8, edit=engines.Edit(force={P + 10: 6}))
    assert [e.after_step for e in two.header.edits] == [3, 7] and two.output_ids[9:11] == [5, 6]
    earlier = fork(two, 6, edit=engines.Edit(force={P + 10: 4}))
    assert [e.after_step for e in earlier.header.edits] == [3, 5] and earlier.output_ids[9:11] == [5, 4]
    assert not earlier.end.message


def test_a_run_that_its_budget_stopped_goes_on():
    trace = masked()
    short = engines.run("llada", MASKED, [1, 2, 3], params=trace.header.params, max_steps=5)
    assert fork(short, 5).output_ids == trace.output_ids


def test_changed_parameters_act_from_the_fork_on():
    trace = masked("threshold", threshold=1.01)
    made = fork(trace, 4, params={"threshold": 0.0})
    assert written(made)[:4] == written(trace)[:4] and len(written(made)[4]) > 1
    assert made.header.params == trace.header.params
    assert made.header.edits[0].edit.params == {"threshold": 0.0}
    assert not made.end.message


def test_a_change_that_nobody_reads_is_said():
    made = fork(masked(), 4, params={"block_length": 8, "temperature": 0.5})
    assert made.end.message == "The method did not look at block_length again after the change: it had no effect."


# --- another method takes over ----------------------------------------------------------------------------------------


def test_a_causal_method_writes_what_is_left_and_the_prompt_stays_the_prompt():
    trace = causal()
    made = fork(trace, 5, method="token-recycling", edit=engines.Edit(force={P + 5: 4}))
    assert made.output_ids[:6] == [*trace.output_ids[:5], 4] and len(made.output_ids) == 12
    assert made.header.prompt_ids == [1, 2, 3] and made.steps[5].tree is not None and made.steps[4].tree is None
    assert made.header.title == "Greedy autoregressive, then Token Recycling" and made.header.baseline is None
    assert made.header.method == "greedy" and made.header.edits[0].edit.method == "token-recycling"
    assert set(made.header.emits) >= {"tree", "scores"} and fork(made, len(made.steps)).output_ids == made.output_ids


def test_a_masked_method_keeps_the_board_and_a_fixed_schedule_shrinks_with_it():
    trace = masked("threshold", threshold=1.01)
    for step in (1, 6, 11):
        made = fork(trace, step, method="llada", params={"block_length": 4})
        assert len(made.steps) == len(trace.steps), "one token per forward before and after: no forward is idle"
        assert all(len(one) == 1 for one in written(made))
    half = fork(trace, 6, method="llada", params={"block_length": 4, "steps": 8})
    assert [len(one) for one in written(half)[6:]] == [2, 2, 2, 2, 2]


def test_the_same_method_may_begin_anew():
    made = fork(masked(), 4, method="llada", params={"block_length": 16, "steps": 4})
    assert [len(one) for one in written(made)[4:]] == [4, 4, 4] and not made.end.message
    assert made.header.title == "LLaDA base, then LLaDA base"


def test_a_method_that_starts_at_once_is_a_run_of_its_own():
    trace = masked()
    made = fork(trace, 0, method="threshold", params={"block_length": 4})
    assert made.header.method == "threshold" and made.header.origin.method == "llada" and made.header.edits == []
    assert made.output_ids == masked("threshold").output_ids


def test_a_live_run_can_switch():
    one = engines.stream("greedy", CAUSAL, [1, 2, 3], params={"max_new_tokens": 12})
    for _ in range(3):
        next(one)
    step = one.send(engines.Edit(method="token-recycling"))
    assert step.tree is not None and one.header.title.endswith("then Token Recycling")
    list(one)
    assert board(one.trace()) == one.trace().output_ids and len(one.trace().output_ids) == 12


# --- what is refused or said ------------------------------------------------------------------------------------------


def test_a_replay_that_parts_says_where():
    trace = causal()
    step = trace.steps[3]
    trace.steps[3] = msgspec.structs.replace(
        step, commits=Commits(step.commits.positions, [(step.commits.tokens[0] + 1) % 7], ["greedy"])
    )
    made = fork(trace, 6, edit=engines.Edit(forbid={P + 11: [0]}))
    assert made.header.origin.diverged == 3
    assert made.end.message.startswith("the replay diverged from the recording at step 4 (“·")
    assert f"at position {P + 3}" in made.end.message
    assert not fork(trace, 3).end.message, "what came after the fork is not compared"
    other = engines.fork(causal(), 8, model=TableCausal(seed=5, eos_ids=(EOS,)))
    assert other.header.origin.diverged is not None and "diverged" in other.end.message


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"step": 99}, "this run has 12 steps"),
        ({"step": -1}, "from 0 to 12"),
        ({"step": 1.5}, "whole number"),
        ({"edit": engines.Edit(remask=[P])}, "no masks"),
        ({"edit": engines.Edit(force={0: 1})}, "cannot be forced"),
        ({"edit": engines.Edit(force={P: 10**6})}, "not in the vocabulary"),
        ({"params": {"max_new_tokens": 40}}, "settled when a run begins"),
        ({"params": {"nothing": 1}}, "unknown parameter"),
        ({"method": "threshold"}, "needs a masked model and this run has a causal one"),
        ({"method": "no-such"}, "unknown method"),
        ({"method": "speculative-sampling"}, "role 'draft'"),
        ({"method": "token-recycling", "params": {"nothing": 1}}, "unknown parameter"),
        ({"step": 12, "method": "token-recycling"}, "nothing is left"),
    ],
)
def test_forks_that_cannot_be(options, sentence):
    with pytest.raises(engines.UserError, match=sentence):
        engines.fork(causal(), **{"step": 4, "model": CAUSAL, **options})


def test_a_trace_without_tokens_cannot_be_checked():
    with pytest.raises(engines.UserError, match="detail=none"):
        engines.fork(causal(detail="none"), 2, model=CAUSAL)


def test_a_model_that_is_not_here_is_named():
    with pytest.raises(engines.UserError, match="'table', which is not available here"):
        engines.fork(causal(), 2)


def test_forcing_the_last_open_place_completes_a_board_that_is_taken_over():
    trace = masked("threshold", threshold=1.01)
    last = len(trace.steps) - 1
    place = trace.steps[last].commits.positions[0]
    made = fork(trace, last, method="llada", params={"block_length": 4}, edit=engines.Edit(force={place: 4}))
    assert made.output_ids[place - P] == 4
    assert not made.steps[last].forwards
    assert "completed the answer" in made.steps[last].note


def test_traces_of_before_are_read_as_ever():
    text = causal().to_json()
    assert '"origin"' not in text and engines.Trace.from_json(text).header.origin is None
