"""Chains of operations: what is asked, what is right, and the traces of thought about them."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.tasks import CHAINS, Example, check, recognise, split_of
from engines.tasks.chains import answer_of, steps_of
from engines.training.tiny.overthinker import CHARACTERS, example, trace

CHAIN = st.builds(
    lambda first, rest: f"{first}" + "".join(f"{sign}{digit}" for sign, digit in rest),
    st.integers(0, 9),
    st.lists(st.tuples(st.sampled_from("+-*"), st.integers(0, 9)), min_size=3, max_size=5),
)


@given(CHAIN)
def test_the_answer_is_the_last_digit_from_left_to_right(chain):
    value = chain[0]
    for sign, digit in zip(chain[1::2], chain[2::2], strict=True):
        value = f"({value}{sign}{digit})"
    right = str(eval(value) % 10)
    assert recognise(f" {chain} ") == Example("chain", f" {chain} ", right)
    assert check(Example("chain", chain, right), f"c4+8=2;#{right}").correct
    assert not check(Example("chain", chain, right), "c4+8=2;").correct


@pytest.mark.parametrize("other", ["4+8", "4+8-9*77", "4/8-9*7", "sum: 4+8-9*7", "4+8-9*7?", "", "4+8-9*7+1+1+1"])
def test_what_is_no_chain_is_not_taken_for_one(other):
    found = recognise(other)
    assert found is None or found.task != CHAINS.slug


def test_generated_chains_keep_to_their_split():
    for split in ("train", "held-out"):
        made = CHAINS.generate(split, 1)
        for one in (next(made) for _ in range(20)):
            assert split_of(one.prompt) == split
            assert one.answer == str(steps_of(one.prompt.removeprefix("chain: "))[-1][3])


def test_an_answer_is_what_stands_behind_the_last_mark():
    assert [answer_of(text) for text in ("c1+1=2;#2;w1+1=2;#3", "#", "", "#x#4")] == ["3", "", "", "4"]


def test_long_traces_are_worse_by_construction():
    """The overthinker's own statistics: more second looks, fewer right answers; and nothing outside its alphabet."""
    rng, right = random.Random(0), {}
    for _ in range(4000):
        chain, answer = CHAINS.make(rng, 4)
        written = trace(chain, rng)
        assert set(written) <= set(CHARACTERS)
        right.setdefault(min(3, written.count("w")), []).append(answer_of(written) == answer)
    shares = [sum(right[n]) / len(right[n]) for n in range(4)]
    assert shares == sorted(shares, reverse=True) and shares[0] > 0.99 and shares[3] < 0.9
    assert example(rng, "1+1+1+1")[0] == "^1+1+1+1?"
