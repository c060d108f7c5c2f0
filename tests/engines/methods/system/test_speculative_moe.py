"""Speculative MoE: placements that are permutations, swaps that never lose, greedy decoding under every placement,
counts of other weights refused, and the study with its two processes."""

import itertools

import numpy as np
import pytest

import engines
from engines.methods.system.speculative_moe import PLACES, moved, plan, put, seconds
from engines.methods.system.speculative_moe import exchanges as ours
from engines.models.measures import placement

PROMPT = "story: Mia, boat"


def counts(V=200, N=16, seed=0):
    rng = np.random.default_rng(seed)
    return np.stack([rng.multinomial(40, rng.dirichlet(np.ones(N) * 0.2)) for _ in range(V)])


def decode(**params):
    model = engines.load_model("tiny-moe", dtype="float32")
    return engines.run("speculative-moe", model, PROMPT, params={"max_new_tokens": 12, **params})


def test_a_placement_holds_each_expert_once_and_no_device_bears_much_more_than_the_others():
    for G in (1, 2, 4, 8):
        assert np.bincount(placement.grouped(counts(), G), minlength=G).tolist() == [16 // G] * G
        assert np.bincount(placement.in_order(16, G), minlength=G).tolist() == [16 // G] * G
    T = counts()
    T[7] = 0  # rows of unknown ids stay in their ordinary place
    assert put(plan(T, 4, "both"), [7, 7, 7], 5, 4).tolist() == [1, 2, 3]  # positions 5, 6 and 7 in turn
    assert plan(T, 4, "grouped").R is None and plan(T, 4, "ordinary").R is None
    T = counts(seed=4)
    C = placement.grouped(T, 4)
    R = ours.balanced_table(T, C, 4)
    a = T.sum(1)
    held = [a[g == R].sum() for g in range(4)]
    assert max(held) <= placement.MOST * a.sum() / 4 + a.max()
    assert (R >= 0).all() and (ours.balanced_table(np.zeros((3, 16), int), C, 4) == ours.NOWHERE).all()


@pytest.mark.parametrize("seed", range(4))
def test_swaps_judged_together_are_the_swaps_tried_one_after_the_other(seed):
    rng = np.random.default_rng(100 + seed)
    T = rng.poisson(rng.gamma(0.3, 3, (40, 16)))
    A, load, C = placement.affinity(T.astype(float)), T.sum(0).astype(float), placement.in_order(16, 4)
    limit, by_hand, kept = (1.15 * load.sum() / 4 if seed % 2 else np.inf), C.copy(), 0
    for i, j in np.random.default_rng(seed).integers(0, 16, (800, 2)):
        tried = by_hand.copy()
        tried[[i, j]] = by_hand[[j, i]]
        before, after = ([load[c == g].sum() for g in (by_hand[i], by_hand[j])] for c in (by_hand, tried))
        gains = placement.inside(A, tried) > placement.inside(A, by_hand) + 1e-9
        if by_hand[i] != by_hand[j] and gains and max(after) <= max(limit, *before):
            by_hand, kept = tried, kept + 1
    assert kept > 3
    assert placement.swapped(A, C, load, 800, seed, limit).tolist() == by_hand.tolist()


def test_an_expert_that_is_off_is_no_call_and_bytes_are_modelled_as_seconds():
    off = ours.exchange(np.array([[0, -1], [3, 2]]), np.array([0, 0]), np.array([0, 0, 1, 1]), 2)
    assert (off.lar, off.remote, off.visits.tolist()) == (1 / 3, 2, [[0, 1], [0, 0]])
    one = ours.exchange(np.array([[1], [0]]), np.array([0, 0]), np.array([0, 1]), 2)
    assert seconds(one, 100, 1.0, 10.0) == pytest.approx(2e-5 + 300 / 1e9)
    assert [(i.start, i.end) for i in moved([one], 100)] == [(0, 0), (0, 300)]


def test_the_text_is_greedy_decoding_s_under_every_placement():
    model = engines.load_model("tiny-moe", dtype="float32")
    greedy = engines.run("greedy", model, PROMPT, params={"max_new_tokens": 12}).output_ids
    for place, G in itertools.product(PLACES, (1, 4)):
        assert decode(placement=place, devices=G).output_ids == greedy


def test_the_record_holds_where_things_are_and_what_travelled():
    run = decode()
    kinds = [(one.kind, one.role) for one in run.steps[0].routing]
    assert kinds == [("expert", ""), ("device", ""), ("device", "experts")]
    assert all(len(step.routing) == 2 for step in run.steps[1:])  # the placement is told once
    for step in run.steps:
        assert max(i.end for i in step.intervals) == step.facts["bytes_moved"]
        assert 0 <= step.facts["lar"] <= 1 and step.facts["imbalance"] >= 1
    with pytest.raises(engines.UserError, match=r"expert-counts tiny-blockffn"):
        engines.run("speculative-moe", "tiny-blockffn", PROMPT)
    alone = decode(devices=1)
    assert all(s.facts["lar"] == 1 and s.facts["bytes_moved"] == s.facts["exchange_us"] == 0 for s in alone.steps)
