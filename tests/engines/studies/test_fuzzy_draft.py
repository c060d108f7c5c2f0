"""Fuzzy against exact: agreement that falls with N, times that follow from the schedule, and bad input."""

from types import SimpleNamespace

import pytest

import engines
from engines.methods.system.easyspec.fuzzy import ATTENTION, WHOLE, Times
from engines.studies.fuzzy_draft import SIZES, Row, told


def test_agreement_falls_with_n_and_every_column_says_where_it_comes_from():
    found = engines.study("fuzzy-draft", model="tiny-ar-m", prompts="story: Mia, boat | add: 457 + 86", tokens=8)
    rows = found.table("sizes").rows
    assert [tuple(row[:2]) for row in rows] == [(way, N) for way in (ATTENTION, WHOLE) for N in SIZES]
    for _, _, share, low, high, overlap, ms, ratio in rows:
        assert 0 <= low <= share <= high <= 1 and 0 < overlap < 1.001 and ms > 0 and ratio >= 0.999
    overlap = {tuple(row[:2]): row[5] for row in rows}
    assert overlap[ATTENTION, 2] > overlap[ATTENTION, 4] and overlap[WHOLE, 2] > overlap[WHOLE, 4]
    assert [series.provenance for series in found.figure("time").series] == ["modelled"] * 2


def test_the_modelled_time_follows_from_the_parts():
    times = Times()
    at = 0.0
    for layer in range(6):
        for name, long in ((f"attention {layer + 1}", 2.0), (f"feed-forward {layer + 1}", 1.0)):
            times.parts.append((name, at, at + long))
            at += long
    times.parts.append(("head", at, at + 3.0))
    rows = {(way, N): Row(1, [0.5]) for way in (ATTENTION, WHOLE) for N in SIZES}
    found = told(rows, 1, 1, [times], SimpleNamespace(ends=1), None)
    ratio = {tuple(row[:2]): row[7] for row in found.table("sizes").rows}
    assert ratio[ATTENTION, 2] == pytest.approx(21 / 17)  # two pairs save an attention each
    assert ratio[ATTENTION, 4] == pytest.approx(21 / 15) == found.receipts[0].result
    assert ratio[WHOLE, 4] == pytest.approx(21 / 12)
