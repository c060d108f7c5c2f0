"""The sweep behind `decoding-explorer sweep`: what it runs, what it counts, and how it compares with the curve."""

from functools import partial
from itertools import islice

import pytest

import engines
from engines.tasks import TASKS, check
from explorer.bench import grid, quality
from explorer.bench.quality import Point
from explorer.bench.sweep import Sweep
from explorer.bench.workers import in_turn
from explorer.page.curves import live_figure, sweep_figure

ENDS = {"creditdecoding": "stop_at_end", "learn2pd": "eotp", "localleap": "early_stop"}


def point(forwards, right, tried=10, **more):
    return Point("some", {}, {"copy": (right, tried)}, forwards, forwards * 30, 2.0, **more)


@pytest.mark.parametrize(
    ("right", "tried", "low", "high"),
    [(0, 10, 0.0, 0.2775), (5, 10, 0.2366, 0.7634), (81, 263, 0.2553, 0.3662), (10, 10, 0.7225, 1.0)],
)
def test_intervals_are_wilsons(right, tried, low, high):
    """Reference values: Newcombe, Statistics in Medicine 17 (1998), table I, and the closed forms at 0 and 1."""
    assert engines.wilson(right, tried) == (pytest.approx(low, abs=5e-5), pytest.approx(high, abs=5e-5))


def test_the_curve_is_read_between_its_points_and_a_method_is_above_it_only_where_its_interval_is():
    points = [point(16, 10, control=True), point(4, 8, on_curve=True), point(2, 4, on_curve=True)]
    assert [quality.at_same_forwards(point(x, 0), points) for x in (16, 10, 4, 3, 2)] == pytest.approx(
        [1.0, 0.9, 0.8, 0.6, 0.4]
    )
    assert [quality.at_same_forwards(point(x, 0), points) for x in (1.9, 17)] == [None, None]

    def of(right, forwards, **more):
        return quality.Point("m", {}, {"copy": (right, 50)}, forwards, 1.0, 1.0, **more)

    curve = [of(50, 16.0, control=True), of(30, 4.0, on_curve=True)]
    found = {right: of(right, 4.0) for right in (44, 33, 27, 15)}
    said = [quality.against_curve(p, [*curve, p]) for p in found.values()]
    assert said == ["above", "not told apart", "not told apart", "below"]
    assert quality.against_curve(of(50, 99.0), curve) == quality.against_curve(curve[1], curve) == "-"


def test_every_sweep_has_one_control_in_front_and_the_curve_behind_it():
    for kind in ("masked", "block"):
        fitting = [i.slug for i in engines.list_methods() if i.kind == kind and len(i.needs) == 1]
        assert sum(engines.get_method(slug).info.curve is not None for slug in fitting) == 1
        runs = quality.plan(kind, fitting)
        assert [control for *_, control in runs] == [True] + [False] * (len(runs) - 1)
        assert sum(on_curve for _, _, on_curve, _ in runs) >= 5 and {slug for slug, *_ in runs} == set(fitting)
        assert len({(slug, str(params)) for slug, params, *_ in runs}) == len(runs)
    with pytest.raises(engines.UserError, match="greedy cannot be swept on this model, which is masked"):
        quality.plan("masked", ["greedy"])
    alone = [("greedy", {}, False, True), ("prompt-lookup", {}, False, False)]
    assert quality.plan("causal", ["prompt-lookup"]) == alone, "without a curve the baseline is the control"
    with pytest.raises(engines.UserError, match="no method is chosen"):
        quality.plan("causal", [])


def test_points_count_what_the_engines_say():
    model = engines.load_model("tiny-dlm")
    sweep = Sweep(model, quality.plan("masked", ["threshold"]), ["copy", "insert any"], 2)
    values = [one.params.get("threshold") for one in sweep.settings]
    assert values == [None, 0.99, 0.95, 0.9, 0.8, 0.7, 0.5] and sweep.total == 28
    assert [i for i, _ in sweep.run(partial(in_turn, model, stopped=lambda: False), None)] == list(range(28))
    points = list(sweep.points().values())
    assert [p.control for p in points] == [True] + [False] * 6
    exact, forwards, fed, tokens = {}, 0, 0, 0
    for task in ("copy", "insert any"):
        examples = list(islice(TASKS[task].generate("held-out", quality.SEED), 2))
        length = quality.canvas(task, model)
        params = {"max_new_tokens": length, "threshold": 0.8}
        traces = [engines.run("threshold", model, e.prompt, params=params) for e in examples]
        exact[task] = (sum(check(e, t.text).correct for e, t in zip(examples, traces, strict=True)), 2)
        forwards += sum(t.totals.forwards for t in traces)
        fed += sum(t.totals.tokens_fed for t in traces)
        tokens += sum(t.totals.tokens for t in traces)
        longest = max(len(model.tokenizer.encode(" " + e.answer)) for e in examples)
        assert length % 16 == 0 and length > longest
    assert points[4] == Point(
        "threshold", {"threshold": 0.8}, exact, forwards / 4, fed / 4, tokens / forwards, on_curve=True
    )
    table = quality.rows(points)
    assert table[4]["of control"] == round(forwards / 4 / points[0].forwards, 3) and table[0]["of control"] == 1
    assert table[4]["against it"] == "-"
    assert table[4]["many answers"] == f"{exact['insert any'][0] / 2:.1%}" and table[4]["curve there"] == "-"


def test_recorded_sweeps_are_of_the_weights_and_methods_that_are_here():
    found = quality.recorded()
    assert found
    for one in found:
        assert one.model.sha256 == engines.load_model(one.model.name).record.sha256
        methods = {p.method for p in one.points}
        assert methods == {slug for slug, *_ in quality.plan(one.model.kind, [*methods])}
        for p in one.points:
            usual = {param.name: param.default for param in engines.get_method(p.method).info.params}
            assert not {**usual, **p.params}.get(ENDS.get(p.method)), "all go to the board's end"
            assert set(p.exact) == set(one.tasks) == set(TASKS)
            assert p.tried == one.prompts_per_task * len(one.tasks) and 0 <= p.share <= 1


@pytest.mark.exhaustive
def test_a_recorded_point_is_what_a_run_gives_again():
    """One task of the recorded control and of the curve, run again: the same marks."""
    one = next(one for one in quality.recorded() if one.model.kind == "masked")
    model = engines.load_model(one.model.name)
    sweep = Sweep(model, quality.plan("masked", [])[:2], ["copy"], one.prompts_per_task)
    list(sweep.run(partial(in_turn, model, stopped=lambda: False), None))
    assert [p.exact["copy"] for p in sweep.points().values()] == [p.exact["copy"] for p in one.points[:2]]


def edited(params, forwards, right, **more):
    return Point("token-editing", params, {"copy": (right, 20)}, forwards, 1.0, 16 / forwards, **more)


CONTROL = [
    Point("llada", {}, {"copy": (20, 20)}, 16.0, 1.0, 1.0, control=True),
    Point("threshold", {"threshold": 0.9}, {"copy": (19, 20)}, 4.0, 1.0, 4.0, on_curve=True),
]
PAIRS = [
    edited({"threshold": t, "editing_threshold": e}, forwards, right)
    for (t, e), forwards, right in zip(
        [(0.9, 0.5), (0.9, 1.01), (0.3, 0.5), (0.3, 1.01)], (6.0, 4.0, 7.0, 2.0), (18, 19, 15, 8), strict=True
    )
]


def test_every_pair_of_two_parameters_runs_and_a_method_with_one_of_them_over_that_alone():
    plan = quality.plan("masked", ["token-editing"], {"threshold": [0.3, 0.9], "editing_threshold": [0.5, 1.01]})
    own = [one.params for one in plan if not (one.on_curve or one.control)]
    assert own == [{"threshold": t, "editing_threshold": e} for t in (0.3, 0.9) for e in (0.5, 1.01)]
    plan = quality.plan("masked", ["factor", "prophet"], {"factor": [0.5, 1.0], "block_length": [8, 16]})
    own = [one for one in plan if not (one.on_curve or one.control)]
    assert [one.params for one in own if one.method == "prophet"] == [{"block_length": 8}, {"block_length": 16}]
    assert len([one for one in own if one.method == "factor"]) == 4


def test_there_is_a_curve_for_each_value_of_the_second_parameter_along_the_first():
    found = grid.curves(dict(enumerate([*CONTROL, *PAIRS])))
    assert [(one.label, one.along, one.values) for one in found] == [
        ("token-editing editing_threshold=0.5", "threshold", ["0.3", "0.9"]),
        ("token-editing editing_threshold=1.01", "threshold", ["0.3", "0.9"]),
    ]
    assert [[number for number, _ in one.points] for one in found] == [[4, 2], [5, 3]]
    assert grid.apart([*CONTROL, *PAIRS]) == "editing_threshold"
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
    bottom, top = figure.layout.yaxis.range
    assert 0 <= bottom <= min(p.interval[0] for p in points) and top > max(p.share for p in points)
    assert f"axis from {bottom:g}" in figure.layout.yaxis.title.text or not bottom
