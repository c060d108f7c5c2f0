"""Sweeps of two parameters: every pair runs, and figures have a curve for each value of the second, control and
intervals included."""

from __future__ import annotations

import pytest

from explorer.bench import grid, quality
from explorer.bench.quality import Point
from explorer.page.curves import live_figure, sweep_figure


def point(params, forwards, right, **more):
    return Point("token-editing", params, {"copy": (right, 20)}, forwards, 1.0, 16 / forwards, **more)


CONTROL = [
    Point("llada", {}, {"copy": (20, 20)}, 16.0, 1.0, 1.0, control=True),
    Point("threshold", {"threshold": 0.9}, {"copy": (19, 20)}, 4.0, 1.0, 4.0, on_curve=True),
]
PAIRS = [
    point({"threshold": t, "editing_threshold": e}, forwards, right)
    for (t, e), forwards, right in zip(
        [(0.9, 0.5), (0.9, 1.01), (0.3, 0.5), (0.3, 1.01)], (6.0, 4.0, 7.0, 2.0), (18, 19, 15, 8), strict=True
    )
]


def test_every_pair_of_two_parameters_runs():
    plan = quality.plan("masked", ["token-editing"], {"threshold": [0.3, 0.9], "editing_threshold": [0.5, 1.01]})
    own = [one.params for one in plan if not (one.on_curve or one.control)]
    assert own == [{"threshold": t, "editing_threshold": e} for t in (0.3, 0.9) for e in (0.5, 1.01)]


def test_a_method_with_one_of_the_two_is_swept_over_that_one_alone():
    plan = quality.plan("masked", ["factor", "prophet"], {"factor": [0.5, 1.0], "block_length": [8, 16]})
    own = [one for one in plan if not (one.on_curve or one.control)]
    assert [one.params for one in own if one.method == "prophet"] == [{"block_length": 8}, {"block_length": 16}]
    assert len([one for one in own if one.method == "factor"]) == 4


def test_a_curve_for_each_value_of_the_second_along_the_first():
    found = grid.curves(dict(enumerate([*CONTROL, *PAIRS])))
    assert [(one.label, one.along, one.values) for one in found] == [
        ("token-editing editing_threshold=0.5", "threshold", ["0.3", "0.9"]),
        ("token-editing editing_threshold=1.01", "threshold", ["0.3", "0.9"]),
    ]
    assert [[number for number, _ in one.points] for one in found] == [[4, 2], [5, 3]]
    assert grid.apart([*CONTROL, *PAIRS]) == "editing_threshold"


def test_one_parameter_is_one_curve_and_a_single_setting_stays_a_dot():
    swept = grid.curves(dict(enumerate(PAIRS[::2])))
    assert [(one.label, one.along) for one in swept] == [("token-editing", "threshold")]
    alone = grid.curves({3: PAIRS[0]})
    assert [(one.label, one.along, one.values) for one in alone] == [(PAIRS[0].label, "", [])]
    assert grid.apart(PAIRS[::2]) == grid.apart(CONTROL) == ""


@pytest.mark.parametrize("drawn", ["recorded", "live"])
def test_figures_join_what_belongs_together_with_intervals_and_control(drawn):
    points = [*CONTROL, *PAIRS]
    figure = sweep_figure(points, "a title") if drawn == "recorded" else live_figure(dict(enumerate(points)), "a", True)
    control, *curves = figure.data
    assert len(control.x) == 2 and len(curves) == 2
    for trace, at in zip(curves, ((4, 2), (5, 3)), strict=True):
        own = [points[i] for i in at]
        assert "lines" in trace.mode and list(trace.y) == [p.share for p in own]
        assert list(trace.error_y.array) == [p.interval[1] - p.share for p in own]
        assert list(trace.error_y.arrayminus) == [p.share - p.interval[0] for p in own]
    assert len({(one.line.dash, one.line.color) for one in curves}) == 2
