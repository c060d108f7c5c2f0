"""Times of the pair: both write as much, bytes and limits follow from the sizes, and bad input is refused."""

import pytest

import engines
from engines.studies.encode_once import Times, best, drawn


def test_an_untrained_pair_is_measured_and_marked_so():
    found = engines.study("encode-once", lengths="16, 48", width=96, new=4, turns=1, trained=False)
    rows = found.table("cpu").rows
    assert [row[:3] for row in rows] == [["untrained, width 96", 144 * 96**2 + 512 * 96, n] for n in (16, 48)]
    for _, _, n, a, b, change, c, d, faster, ours, twin in rows:
        assert min(a, b, c, d) > 0 and change == pytest.approx(100 * (a / b - 1)) and faster == pytest.approx(d / c)
        assert twin == 4 * ours == 2 * 12 * (n + 4) * 96 * 4
    assert {column.provenance for column in found.table("wall").columns} == {"given", "derived", "measured"}
    limits = {receipt.name: receipt.result for receipt in found.receipts if receipt.provenance == "derived"}
    assert sorted(limits.values()) == pytest.approx([2 / 3, 144 / 42, 4.0])
    assert found.models == []


def test_the_pairs_have_equal_weights_and_the_best_of_each_is_taken():
    one, two = drawn(96)
    assert sum(one.weights.values()) == sum(two.weights.values())
    assert best([Times(3, 1, 5, 2), Times(2, 4, 6, 1)]) == Times(2, 1, 5, 1)
