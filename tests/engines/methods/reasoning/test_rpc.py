"""RPC: what must hold of any votes, and the sampling loop on tables."""

import math
import random

import numpy as np
import pytest

import engines
from engines.methods.reasoning._votes import RULES, Ballot, Vote, Voter, answer_of, same
from engines.tools import weibull as _weibull
from tests.engines.fakes import TableCausal, board

VOTE = "vote", Vote

EOS = 0


def ballot(*given):
    """Of (answer, P) or (answer, P, text)."""
    return Ballot([Voter(i, (*one, str(i))[2], one[0], math.log(one[1])) for i, one in enumerate(given)])


def winners(one):
    return [one.answers[one.tally(rule).winner] for rule in RULES]


def test_the_fit_finds_two_modes_and_leaves_hopeless_input_alone():
    rng = np.random.default_rng(0)
    x = np.concatenate([0.9 * rng.weibull(25, 120), 0.4 * rng.weibull(8, 80)])
    m = _weibull.fit(x)
    assert m.w == pytest.approx(0.6, abs=0.06) and m.lam == pytest.approx((0.9, 0.4), abs=0.03)
    high = m.high(x)
    assert high[:120].min() > 0.5 > high[120:].mean()
    for none in ([0.5], [0.5, 0.5, 0.5], [0.5, 0.0], [0.5, math.nan], []):
        assert _weibull.fit(np.array(none)) is None


@pytest.mark.parametrize("seed", range(4))
def test_what_holds_of_any_votes(seed):
    rng = random.Random(seed)
    given = [(rng.choice("ABC"), rng.uniform(0.05, 0.95)) for _ in range(12)]
    one = ballot(*given)
    assert not any(gone and one.mean <= P for gone, P in zip(one.removed, one.P, strict=True))
    for rule in RULES[:3]:
        assert sum(one.scores(rule)) == pytest.approx(sum(one.tally(rule).shares))
    one.removed = [False] * len(given)
    assert one.scores("RPC") == one.scores("perplexity consistency")
    turned = ballot(*given[::-1])
    for rule in RULES[1:]:  # the fit may stop elsewhere where the order of its sums changes
        expected = dict(zip(one.answers, one.scores(rule), strict=True))
        assert dict(zip(turned.answers, turned.scores(rule), strict=True)) == pytest.approx(expected)
    scaled = ballot(*[(a, P * 0.3) for a, P in given])
    assert winners(scaled)[1] == winners(one)[1]


def test_where_pruning_leaves_nothing_the_sum_of_all_decides_and_ties_are_told():
    one = ballot(("A", 0.5), ("B", 0.5))
    assert one.tally("self-consistency").tied and one.tally("self-consistency").winner == 0
    one.removed = [True, True]
    assert one.scores("RPC") == one.scores("perplexity consistency")


def test_voters_without_an_answer_take_no_part():
    with_, without = ballot(("A", 0.9), ("B", 0.4)), ballot(("A", 0.9), ("", 0.01), ("B", 0.4))
    assert without.of == [0, -1, 1] and without.mean == with_.mean and without.removed[1] is False
    for rule in RULES:
        assert without.scores(rule) == with_.scores(rule) and without.tally(rule).shares[1] == 0
    nobody = ballot(("", 0.5), ("", 0.4))
    assert [nobody.tally(rule).winner for rule in RULES] == [-1] * 4


def test_answers_are_taken_out_and_equal_numbers_are_equal():
    assert answer_of("c4+8=2;#2;w4+8=2;#3", "auto") == "3"
    assert answer_of("4-4-0=0\nanswer 4570", "auto") == answer_of("4-4-0=0\nanswer 4570", "last number") == "4570"
    assert answer_of(r"so \boxed{12}, 7 times", "marked") == "12"
    assert answer_of("The answer is 12.", "auto") == "12" and answer_of("12 or 13", "marked") == ""
    assert answer_of("Ada, Leo\n\n", "auto") == "Ada, Leo" and answer_of("", "last line") == ""
    assert same("0.5") == same("1/2") != same("0.50001") and same("1,000") == same("1000") and same("1/0") == "1/0"
    assert same("Ada  Leo") == same("ada leo")


def decode(seed=0, model=None, **params):
    model = model or TableCausal(vocab_size=5, seed=3, memory=None, eos_ids=(EOS,))
    params = {"max_new_tokens": 12, "n": 6, "answer": "last number", **params}
    return engines.run("rpc", model, [1, 2, 3], params=params, seed=seed)


def test_weights_are_the_models_probabilities_at_temperature_one():
    model = TableCausal(vocab_size=5, seed=3, memory=None, eos_ids=(EOS,))
    for weight in ("per token", "whole path"):
        trace = decode(model=model, temperature=0.7, weight=weight)
        vote, texts = trace.steps[-1].record(*VOTE), {}
        for step in trace.steps:
            for branch in step.branches:
                texts[branch.id] = texts.get(branch.id, []) + branch.tokens
        for id, P in zip(vote.voters, vote.weights, strict=True):
            ids, total = [1, 2, 3, *texts[id]], 0.0
            for i in range(3, len(ids)):
                total += float(model.logits(ids[:i])[0].double().log_softmax(-1)[ids[i]])
            expected = math.exp(total / (len(ids) - 3 if weight == "per token" else 1))
            assert pytest.approx(expected, rel=1e-5) == P


def test_the_rule_chooses_the_text_and_the_paths_stay_the_same():
    runs = {rule: decode(seed=4, rule=rule, n=16) for rule in RULES}
    votes = [trace.steps[-1].record(*VOTE) for trace in runs.values()]
    for (rule, trace), vote in zip(runs.items(), votes, strict=True):
        assert vote.weights == votes[0].weights and vote.of == votes[0].of
        assert vote.tallies[0].rule == rule and board(trace) == trace.output_ids
        text = " ".join(map(str, trace.output_ids[:-1]))
        assert answer_of(text, "last number") == vote.answers[vote.tallies[0].winner]
        assert all(t.running[-1] == t.winner and len(t.running) == 16 for t in vote.tallies)


def test_lanes_do_not_depend_on_each_other_and_a_path_that_is_cut_off_has_no_answer():
    few, many = (
        [[t for s in decode(n=n).steps for b in s.branches if b.id == i for t in b.tokens] for i in range(2)]
        for n in (2, 5)
    )
    assert few == many
    assert {t.winner for t in decode(n=1, max_new_tokens=40).steps[-1].record(*VOTE).tallies} == {0}
    vote = decode(max_new_tokens=1, n=8).steps[-1].record(*VOTE)
    assert set(vote.of) == {-1}  # an end mark alone is no answer, and another token no end
