"""The study of PPD's row budget: each is run, and the best follows from what rows cost."""

import pytest

import engines
from engines.methods.heads.ppd.dynamic_tree import search
from engines.studies import row_budget
from engines.studies.row_budget import BUDGETS, Point

A = [[0.4, 0.2, 0.1, *[0.02] * 7], [0.3, 0.1, 0.1, *[0.02] * 7], [0.2, 0.1, 0.05, *[0.02] * 7]]


def test_each_budget_is_run_and_the_best_is_the_one_with_the_largest_gain():
    found = engines.study("row-budget", model="tiny-ar-m", prompt="add: 457 + 86", tokens=8, repeats=1)
    rows = found.table("budgets").rows
    assert [row[0] for row in rows] == list(BUDGETS)
    for B, total, released, real, tokens, ms, gain in rows:
        assert 1 < total <= 1 + 3 + B and released < real < 3 and 1 <= tokens <= 4 and ms > 0 and gain > 0
    assert [row[3] for row in rows] == sorted(row[3] for row in rows)  # more rows are never worse before they cost
    receipt = found.receipts[0]
    given = receipt.inputs
    assert receipt.result == pytest.approx((1 + given["f"]) * given["t(1)"] / given["t(B)"])
    assert receipt.result == max(row[6] for row in rows)


@pytest.mark.parametrize(("slope", "best"), [(0.0, 64), (5.0, 20)])
def test_time_that_does_not_grow_asks_for_the_largest_budget_and_steep_time_for_the_smallest(slope, best):
    points = [Point(B, search(A, B), 1.0 + B, 40 + slope * (B - 20), 1.0) for B in BUDGETS]
    assert f"B = {best}," in row_budget.study_of(points, 40.0, None).receipts[0].name
