"""BM25 by hand: one passage of two has the word."""

import math

import pytest

from engines.tools.retrieval import K1, B, bm25


def test_a_score_by_hand_and_the_order_of_passages():
    have, lack = bm25("the KEY?", ["a key of brass", "nothing"])
    weight = math.log(1 + (2 - 1 + 0.5) / (1 + 0.5))
    assert have == pytest.approx(weight * (K1 + 1) / (1 + K1 * (1 - B + B * 4 / 2.5))) and lack == 0
    once, twice, long = bm25("key", ["key box", "key key", "key " + "box " * 20])
    assert twice > once > long > 0
    assert bm25("key", ["", ""]) == [0, 0] and bm25("", ["key"]) == [0] and bm25("key", []) == []
