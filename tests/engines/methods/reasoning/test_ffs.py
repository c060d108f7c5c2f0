"""First Finish Search: what must hold of the rules, and of the loop on a shipped model."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import engines
from engines.kit import distribution, draw
from engines.methods.reasoning._votes import Vote
from engines.methods.reasoning.ffs import Trace, chosen, cutoff, election, first, votes
from tests.engines.fakes import TableCausal

VOTE = "vote", Vote

CHAIN = "6*4*5*1+4+4"
TRACES = st.lists(
    st.builds(Trace, st.integers(1, 30), st.none() | st.sampled_from(["1", "2", "3"])), min_size=1, max_size=8
)


@pytest.fixture(scope="module")
def model():
    return engines.load_model("tiny-reasoner", dtype="float32")


def race(model, n=4, seed=0, **params):
    return engines.run("ffs", model, CHAIN, params={"n": n, "max_new_tokens": 64, **params}, seed=seed)


def lanes(trace):
    """Tokens of every path, in the order of their ids."""
    found: dict[int, list[int]] = {}
    for step in trace.steps:
        for one in step.branches:
            before = found.get(one.id, [])
            found[one.id] = before[: one.length - len(one.tokens)] + one.tokens
    return [found[id] for id in sorted(found)]


@given(TRACES)
def test_the_shortest_k_are_between_the_first_and_all(traces):
    n, winner = len(traces), first(traces)
    ended = [trace for trace in traces if trace.answer is not None]
    answers = [trace.answer for trace in ended]
    assert votes(traces, n) == {answer: answers.count(answer) for answer in answers}
    if winner is None:
        assert not answers and chosen(votes(traces, 1)) is None
        return
    least = min(trace.length for trace in ended)
    assert traces[winner].length == least == cutoff(traces, 1)
    tied = sum(trace.length == least for trace in ended) > 1
    assert tied or chosen(votes(traces, 1)) == traces[winner].answer
    assert [cutoff(traces, k) for k in range(1, n + 1)] == sorted(cutoff(traces, k) for k in range(1, n + 1))
    vote = election(range(n), traces, winner, 1)
    assert vote.answers[vote.tallies[0].winner] == traces[winner].answer
    assert vote.tallies[1].shares == [float(trace.answer is not None) for trace in traces]


def test_one_path_is_plain_sampling(model):
    """Token by token from the model itself, with the seed's own generator."""
    ids, rng = model.tokenizer.encode_prompt(CHAIN), torch.Generator().manual_seed(3)
    drawn: list[int] = []
    while not drawn or (drawn[-1] not in model.eos_ids and len(drawn) < 64):
        z = model.extend(ids + drawn, model.new_cache(256), last_only=True).logits[-1]
        drawn.append(draw(distribution(z, 1.0), rng))
    assert race(model, n=1, seed=3).output_ids == drawn


def test_all_stop_where_the_first_ends_and_letting_them_finish_changes_no_output(model):
    stopped, finished = race(model), race(model, let_finish=True)
    (winner,) = [one for one in stopped.steps[-1].branches if one.fate == "chosen"]
    paths, n = lanes(stopped), winner.length
    assert list(map(len, paths)) == [n] * 4 and len(stopped.steps) == stopped.totals.forwards == n
    assert stopped.steps[-1].facts["tokens_of_all_paths"] == 4 * n and stopped.output_ids[:n] == paths[winner.id]
    assert all(not path or path[-1] not in model.eos_ids for i, path in enumerate(paths) if i != winner.id)
    assert stopped.output_ids == finished.output_ids and stopped.text == finished.text
    assert [step.commits for step in finished.steps[: n - 1]] == [step.commits for step in stopped.steps[: n - 1]]
    lengths = list(map(len, lanes(finished)))
    assert min(lengths) == n and max(lengths) == len(finished.steps)
    assert f"wins with {finished.totals.tokens} tokens and its end mark" in finished.steps[-1].note


def test_a_path_does_not_depend_on_the_others(model):
    """Its tokens are its own stream's, and one more lane never makes the wait longer."""
    few, many = race(model, n=2, let_finish=True), race(model, n=4, let_finish=True)
    assert lanes(many)[:2] == lanes(few)
    waits = [len(race(model, n=n).steps) for n in (1, 2, 3, 4)]
    assert waits == sorted(waits, reverse=True)


def test_where_none_ends_none_wins_and_more_votes_than_paths_are_refused(model):
    """A model that never sets an end mark: all are cut, the first is shown, and the vote is empty."""
    trace = engines.run("ffs", TableCausal(), [1, 2], params={"n": 3, "max_new_tokens": 5})
    vote = trace.steps[-1].record(*VOTE)
    assert vote.answers == [] and [t.winner for t in vote.tallies] == [-1] * 3
    assert len(trace.steps) == len(trace.output_ids) == 5 and "none wins" in trace.steps[-1].note
    with pytest.raises(engines.UserError, match="k=5 paths are waited for and n=4 run"):
        race(model, k=5)


@pytest.mark.parametrize("let_finish", [False, True])
def test_the_first_to_end_wins_whether_its_answer_can_be_read_or_not(let_finish):
    """The end mark is likely everywhere and the texts hold no number: ids 1 and 2 are letters."""
    speechless = TableCausal(vocab_size=3, eos_ids=(0,))
    speechless.table.rows[:] = torch.tensor([1.0, 0.0, 0.0])
    params = {"n": 3, "max_new_tokens": 40, "answer": "marked", "let_finish": let_finish}
    trace = engines.run("ffs", speechless, [1, 2], params=params)
    last, vote = trace.steps[-1], trace.steps[-1].record(*VOTE)
    assert len(trace.output_ids) == min(map(len, lanes(trace))) and trace.output_ids[-1] == 0
    assert "wins with" in last.note and "no answer can be read in it" in last.note
    assert vote.answers == [] and vote.tallies[0].shares.count(1.0) == 1 and vote.tallies[0].winner == -1
    assert "chosen" in [branch.fate for step in trace.steps for branch in step.branches]
