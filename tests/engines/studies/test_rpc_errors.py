"""The study of RPC's theory: laws of two confidences, and rules told apart on given samples."""

import random

import pytest

import engines
from engines.methods.reasoning._votes import RULES
from engines.studies import rpc_errors
from engines.studies.rpc_errors import COUNTING, SIZES, counting_error, differences, summing_error


@pytest.fixture(autouse=True)
def few_subsets(monkeypatch):
    """An accuracy is a share of a few subsets here."""
    monkeypatch.setattr(rpc_errors, "SUBSETS", 4)


@pytest.mark.parametrize("n", [1, 3, 8])
def test_the_laws_are_what_samples_show(n):
    """Three paths to the right answer, the rest elsewhere. One falls like 1 / n, the other exponentially."""
    paths, rng, draws = [0.3, 0.15, 0.05], random.Random(n), 20_000
    p, counting, summing = sum(paths), 0.0, 0.0
    for _ in range(draws):
        seen = rng.choices(range(4), [*paths, 1 - p], k=n)
        counting += (sum(one < 3 for one in seen) / n - p) ** 2
        summing += (sum(paths[one] for one in set(seen) if one < 3) - p) ** 2
    assert counting / draws == pytest.approx(counting_error(p, n), rel=0.05)
    assert summing / draws == pytest.approx(summing_error(paths, n), rel=0.05)
    assert summing_error([1.0], 1) == counting_error(1.0, 1) == 0


def test_the_study_tells_rules_errors_and_what_was_covered():
    found = engines.study("rpc-errors", problems=2, samples=32)
    rows = found.table("rules").rows
    assert [row[0] for row in rows] == list(SIZES)
    assert rows[0][1] == rows[0][2] == rows[0][3] == rows[0][4]  # one path: all rules agree
    assert all(0 <= value <= 1 for row in rows for value in row[1:5])
    assert [row[5] for row in rows] == sorted((row[5] for row in rows), reverse=True)
    assert len({row[7] for row in rows}) == 1 and 0 < found.receipts[0].result <= 1
    assert all(len(one.low) == len(SIZES) for one in found.figure("accuracy").series)
    apart = found.table("apart").rows
    assert [row[:2] for row in apart] == [[n, rule] for n in SIZES for rule in RULES if rule != COUNTING]
    assert all(low <= more <= high for *_, more, low, high in apart)
    assert all(row[2:] == [0, 0, 0] for row in apart[:3])  # one path: all rules agree


def test_rules_are_told_apart_by_the_same_problems():
    """Both rules vary widely from problem to problem; on each of them one is a tenth ahead."""
    easy, hard = dict.fromkeys(RULES, 0.9), dict.fromkeys(RULES, 0.1)
    ahead = [{**one, RULES[1]: one[RULES[1]] + 0.1 + 0.01 * (i % 2)} for i, one in enumerate([easy, hard] * 4)]
    found = {rule: (more, low, high) for _, rule, more, low, high in differences({8: ahead})}
    more, low, high = found[RULES[1]]
    assert more == pytest.approx(0.105) and 0.09 < low < high < 0.12
    assert found[RULES[0]] == (0, 0, 0)
