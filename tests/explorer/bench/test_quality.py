"""The sweep behind `decoding-explorer sweep`: what it runs, what it counts, and how it compares with the curve."""

import json
from functools import partial
from itertools import islice

import pytest

import engines
from engines.core.params import Params
from engines.tasks import TASKS, check
from explorer import cli
from explorer.bench import quality
from explorer.bench.quality import Point
from explorer.bench.sweep import Sweep
from explorer.bench.workers import in_turn
from explorer.page.curves import sweep_figure


def point(forwards, right, tried=10, **more):
    return Point("some", {}, {"copy": (right, tried)}, forwards, forwards * 30, 2.0, **more)


@pytest.mark.parametrize(
    ("right", "tried", "low", "high"),
    [(0, 10, 0.0, 0.2775), (5, 10, 0.2366, 0.7634), (81, 263, 0.2553, 0.3662), (10, 10, 0.7225, 1.0)],
)
def test_intervals_are_wilsons(right, tried, low, high):
    """Reference values: Newcombe, Statistics in Medicine 17 (1998), table I, and the closed forms at 0 and 1."""
    assert engines.wilson(right, tried) == (pytest.approx(low, abs=5e-5), pytest.approx(high, abs=5e-5))


def test_the_curve_is_read_between_its_points_and_not_beyond():
    points = [point(16, 10, control=True), point(4, 8, on_curve=True), point(2, 4, on_curve=True)]
    assert [quality.at_same_forwards(point(x, 0), points) for x in (16, 10, 4, 3, 2)] == pytest.approx(
        [1.0, 0.9, 0.8, 0.6, 0.4]
    )
    assert [quality.at_same_forwards(point(x, 0), points) for x in (1.9, 17)] == [None, None]


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


def test_a_method_is_above_the_curve_only_where_its_interval_is():
    """40 of 50 at half the cost, where the curve has 30 of 50, and so on: the bar decides, not the dot."""

    def of(right, forwards, **more):
        return quality.Point("m", {}, {"copy": (right, 50)}, forwards, 1.0, 1.0, **more)

    curve = [of(50, 16.0, control=True), of(30, 4.0, on_curve=True)]
    found = {right: of(right, 4.0) for right in (44, 33, 27, 15)}
    said = [quality.against_curve(p, [*curve, p]) for p in found.values()]
    assert said == ["above", "not told apart", "not told apart", "below"]
    assert quality.against_curve(of(50, 99.0), curve) == quality.against_curve(curve[1], curve) == "-"


def test_the_command_prints_a_table_and_writes_every_task(tmp_path, capsys):
    out = tmp_path / "points.json"
    assert cli.main(["sweep", "--model", "tiny-blockdlm", "--task", "copy", "--prompts", "1", "--json", str(out)]) == 0
    said = capsys.readouterr()
    assert "tiny-blockdlm, 1 held-out prompts of 1 tasks, seed 0" in said.out and "threshold=0.5" in said.out
    n = len(quality.plan("block", [i.slug for i in engines.list_methods() if i.kind == "block"]))
    assert f"{n} settings on 1 prompts of 1 tasks: {n} runs" in said.err
    assert f"{n} runs made, 0 taken from before, 0 left" in said.err
    written = json.loads(out.read_text())
    assert len(written["points"]) == n and written["model"]["sha256"]
    assert all(set(p["exact"]) == {"copy"} for p in written["points"])
    assert written["code"] == engines.code_version() and written["seed"] == written["left"] == 0
    assert cli.main(["sweep", "--model", "tiny-dlm", "--json", str(tmp_path / "none" / "points.json")]) == 2
    assert "there is no folder" in capsys.readouterr().err


def test_recorded_sweeps_are_of_the_weights_and_methods_that_are_here():
    found = quality.recorded()
    assert found
    for one in found:
        assert one.model.sha256 == engines.load_model(one.model.name).record.sha256
        assert {p.method for p in one.points} == {
            slug for slug, *_ in quality.plan(one.model.kind, [p.method for p in one.points])
        }
        for p in one.points:
            assert set(p.exact) == set(one.tasks) == set(TASKS)
            assert p.tried == one.prompts_per_task * len(one.tasks) and 0 <= p.share <= 1


ENDS = {"creditdecoding": "stop_at_end", "learn2pd": "eotp", "localleap": "early_stop"}  # off: to the board's end


def test_recorded_sweeps_have_one_rule_for_the_end():
    """A method that ends at the end mark saves forwards that the plain threshold beside it could save as well."""
    for one in quality.recorded():
        for p in one.points:
            usual = {param.name: param.default for param in engines.get_method(p.method).info.params}
            if name := ENDS.get(p.method):
                assert not {**usual, **p.params}[name], p.label


@pytest.mark.exhaustive
def test_a_recorded_point_is_what_a_run_gives_again():
    """One task of the recorded control and of the curve, run again: the same marks."""
    one = next(one for one in quality.recorded() if one.model.kind == "masked")
    model = engines.load_model(one.model.name)
    sweep = Sweep(model, quality.plan("masked", [])[:2], ["copy"], one.prompts_per_task)
    list(sweep.run(partial(in_turn, model, stopped=lambda: False), None))
    assert [p.exact["copy"] for p in sweep.points().values()] == [p.exact["copy"] for p in one.points[:2]]


def test_a_fixed_number_of_steps_follows_the_canvas():
    for info in engines.list_methods():
        if info.kind in ("masked", "block") and len(info.needs) == 1:
            for length in (16, 32, 48, 96):
                found = quality.fitted(info, length)
                assert found["max_new_tokens"] == length
                if check_all := engines.get_method(info.slug).check:  # what is declared together fits together
                    check_all(Params(**({p.name: p.default for p in info.params} | found)))


def test_the_figure_shows_every_point_and_says_where_its_axis_begins():
    found = quality.recorded()[0]
    drawn = sweep_figure(found.points, "a title")
    bottom, top = drawn.layout.yaxis.range
    assert 0 <= bottom <= min(low for low, _ in (p.interval for p in found.points))
    assert top > max(p.share for p in found.points) + 0.05
    assert f"axis from {bottom:g}" in drawn.layout.yaxis.title.text and drawn.layout.yaxis.tickvals[0] == bottom
    title = sweep_figure(found.points, "a title", "504 prompts").layout.title
    assert (title.text, title.subtitle.text) == ("a title", "504 prompts")
    poor = [point(16, 10, control=True), point(4, 1, on_curve=True)]
    assert sweep_figure(poor, "a title").layout.yaxis.range[0] == 0


def test_labels_of_near_points_of_the_curve_stand_apart():
    rising = [point(4, 4, on_curve=True), point(5, 8, on_curve=True), point(6, 10, on_curve=True)]
    flat = [point(7, 10, on_curve=True), point(8, 10, on_curve=True), point(16, 10, control=True)]
    places = sweep_figure(rising + flat, "a title").data[0].textposition
    assert places == ("bottom center", "middle left", "top left", "bottom right", "top left", "top left")
