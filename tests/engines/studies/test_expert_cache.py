"""Caches and batches for experts: one stream for every rule, Belady as the bound, grouped batches, and bad input."""

import pytest

import engines
from engines.methods.routing.read_me.experts import BELADY, LOOKAHEAD, LRU
from engines.studies.expert_cache import batches, rate


def test_belady_bounds_every_rule_on_the_same_stream():
    found = engines.study("expert-cache", model="tiny-ar-m", requests=6, tokens=24, batch=3)
    rows = found.table("hits").rows
    assert [row[0] for row in rows] == [1, 2, 3]
    for _, drawn, lru, ahead, belady in rows:
        assert belady >= max(drawn, lru, ahead) and min(drawn, lru, ahead) >= 0
    assert len(set(rows[-1][1:])) == 1  # every expert has a slot
    assert sum(share for _, share in found.table("experts").rows) == pytest.approx(1)
    stays, grouped = found.receipts
    assert 0 <= stays.result <= 1 and grouped.result <= 1
    for receipt in found.receipts:
        assert {name.strip() for name in receipt.formula.split("/")} <= receipt.inputs.keys(), receipt.sentence
    kept = next(one for one in found.receipts if one.formula == "kept / all")
    assert kept.result == kept.inputs["kept"] / kept.inputs["all"]


def test_look_ahead_knows_the_rest_of_the_round_and_no_more():
    stream = [0, 1, 2, 0, 2, 1] * 5
    assert rate(stream, 2, LOOKAHEAD, len(stream), 0) == rate(stream, 2, BELADY, 1, 0)
    assert rate(stream, 2, LOOKAHEAD, 3, 0) <= rate(stream, 2, BELADY, 3, 0)
    assert rate([0, 0, 0, 0], 1, LRU, 2, 0) == 0.75


def test_every_token_is_served_once_and_grouping_needs_fewer_experts():
    experts = [[0, 1, 0], [1, 1, 1], [2, 0, 2], [0, 0, 1]]
    assert batches(experts, 4, by_expert=False) == pytest.approx((3 + 2 + 3) / 3)
    assert batches(experts, 2, by_expert=True) <= batches(experts, 2, by_expert=False)
    assert batches([[0]], 1, by_expert=True) == 1
