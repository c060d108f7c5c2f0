"""The study of kept operators: what follows by construction, what was measured, refusals."""

from __future__ import annotations

import pytest

import engines


@pytest.fixture(scope="module")
def study():
    return engines.study("kept-operators", prompts=1, tokens=4)


def test_what_follows_by_construction(study):
    modes = {row[0]: row for row in study.table("modes").rows}
    assert list(modes) == ["none", "G only", "KV", "KV+G"]
    assert modes["none"][3:] == [1.0, None, 0.0] and modes["KV"][3:] == modes["KV+G"][3:]
    assert modes["KV+G"][2] == modes["G only"][2] == 0.0 < modes["KV"][2] < modes["none"][2]
    sources = {row[0]: row for row in study.table("sources").rows}
    assert sources["own, of the whole text"][2:] == [1.0, 0.0]


def test_the_operator_matters_and_hardly_depends_on_the_text(study):
    loss = {row[0]: row[1] for row in study.table("sources").rows}
    far = abs(loss["of another prompt"] - loss["own, of the whole text"])
    assert far < 0.1 < loss["identity"] - loss["own, of the whole text"]
    for row in study.table("layers").rows:
        assert 0 < row[1] < row[2] and row[6] >= row[5] > 0, "training made the spread smaller"


def test_the_curve_is_the_one_of_the_card(study):
    figures = {one.name: one for one in study.figures}
    assert set(figures) == {"time", "spread", "loss"}
    (spread,) = figures["spread"].series
    assert spread.x[0] == 0 and len(spread.x) == len(spread.y) > 10


def test_what_is_refused():
    with pytest.raises(engines.UserError, match="a power-law model is needed"):
        engines.study("kept-operators", model="tiny-ar-m")
