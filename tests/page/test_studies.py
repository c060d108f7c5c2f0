"""The Studies section without a browser, and once in one."""

import json
from types import SimpleNamespace

import gradio as gr
import pytest
from playwright.sync_api import expect

import engines
from engines.core.params import Int
from engines.core.study import Axis, Column, Figure, Played, Receipt, Series, Study, Table, declaration, study
from explorer.page import studies as page

VISITOR = SimpleNamespace(session_hash="one")
HOSTILE = "<img src=x onerror=window.hit=1>"


def asked(study, **inputs):
    """What the form sends."""
    return page.Asked(study, inputs).text()


def ended(studies, value):
    """The last of what a run shows."""
    return list(studies.run(value, VISITOR))[-1]


@study("own", "Own", "arXiv:0000.00000", summary="A line.", inputs=[Int("n", 3, 1, 9, help="Points.")])
def own(p, progress):
    progress(0, 1)
    xs = [float(x) for x in range(1, p.n + 1)]
    bars = Series("bars", xs, [x + 1 for x in xs], "published", "bars", base=xs)
    return Study(
        [
            Table("t", "First", [Column("n", "", "given"), Column("half", "m", "derived", 2)], [[3, 1.5], [1, None]]),
            Table("u", HOSTILE, [Column("word")], [[HOSTILE]] * 300),
        ],
        [
            Figure("f", HOSTILE, Axis("x", log=True), Axis("y"), [Series(HOSTILE, xs, xs, "derived", low=xs, high=xs)]),
            Figure("g", "Bars", Axis("x", labels=["a", "b"]), Axis("y"), [bars]),
        ],
        [Receipt("half", "n / 2", {"n": p.n}, p.n / 2, "m")],
        ["A note."],
    )


@study("slow", "Slow", "", summary="Runs a model.", inputs=[Int("n", 3, 1, 9, help="")], runs_models=True)
def slow(p, progress):
    raise AssertionError("it runs a model")


def STOP():
    raise AssertionError("replaced by the test")


@pytest.fixture
def registered(monkeypatch):
    known = {"own": own, "slow": slow, "steps": steps}
    monkeypatch.setattr(declaration, "_registry", lambda: (known, ()))


def test_a_run_fills_table_figure_and_receipts(registered):
    record, line, tables, rows, figures, plot, receipts, runs = ended(page.Studies(False), asked("own", n=5))
    assert not runs["visible"]
    assert engines.read_study(record).inputs == {"n": 5} and "done in" in json.loads(line)["text"]
    assert tables["choices"] == [("First", "t"), (HOSTILE, "u")] and tables["value"] == "t"
    shown = json.loads(rows)
    assert shown["columns"] == ["n (given)", "half, m (derived)"] and shown["rows"] == [["3", "1.50"], ["1", "-"]]
    assert figures["value"] == "f" and list(plot.data[0].x) == [1, 2, 3, 4, 5]
    assert "<img" not in plot.to_json() and plot.layout.xaxis.type == "log" and set(plot.data[0].error_y.array) == {0}
    told = json.loads(receipts)
    assert told["rows"] == [["half", "n / 2; n = 5: 2.5 m", "derived"], ["note", "A note.", ""]]
    assert "n=5" in told["caption"] and "<" not in receipts + rows


def test_another_table_and_another_figure_of_the_same_record(registered):
    studies = page.Studies(False)
    record, *_ = ended(studies, asked("own", n=2))
    rows = json.loads(studies.table(record, "u", VISITOR))
    assert len(rows["rows"]) == page.SHOWN and "first 200 of 300 rows" in rows["caption"]
    bars = studies.figure(record, "g", VISITOR)
    assert bars.data[0].type == "bar" and list(bars.data[0].base) == [1, 2] and list(bars.data[0].y) == [1, 1]
    for bad in (("", "t"), (record, "nope"), (record, 3), ("{}", "t")):
        for ask in (studies.table, studies.figure):
            with pytest.raises(gr.Error):
                ask(*bad, VISITOR)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ('{"study": "own", "inputs": {"n": 99}}', "n=99 is out of range"),
        ('{"study": "own", "inputs": {"progress": 1}}', "there is no input 'progress'; it has n."),
        ('{"study": "nope"}', "does not run"),
        ('{"study": "own", "more": 1}', "unknown field 'more'"),
        ("{", "it is not JSON"),
        ("[" * 100_000, "it is not JSON"),
        (None, "could not be read"),
    ],
)
def test_bad_input_is_a_sentence_on_the_status_line(registered, value, said):
    _, line, *_ = ended(page.Studies(False), value)
    assert said in json.loads(line)["text"] and json.loads(line)["kind"] == "error"


def test_strangers_run_arithmetic_only(registered):
    assert [info.slug for info in page.Studies(True).offered()] == ["own", "steps"]
    _, line, *_ = ended(page.Studies(True), asked("slow", n=3))
    assert "does not run on this page" in json.loads(line)["text"]


@study("steps", "Steps", "", summary="Points, one by one.", inputs=[Int("n", 3, 1, 9, help="")])
def steps(p, progress):
    for n in range(1, p.n + 1):
        STOP()
        progress(n, p.n, lambda n=n: points(n))
    return points(p.n)


def points(n):
    xs = [float(x) for x in range(1, n + 1)]
    runs = [Played("greedy", f"model-{x:g}", {"max_new_tokens": 8}) for x in xs]
    figure = Figure("steps", "Steps", Axis("x"), Axis("y"), [Series("s", xs, xs, "measured", "points", runs=runs)])
    return Study([Table(name, name, [Column("n", "", "given")], [[n]]) for name in ("t", "u")], [figure])


def test_what_is_measured_is_shown_as_it_comes_and_a_stop_keeps_it(registered, monkeypatch):
    monkeypatch.setattr(page, "EVERY", 0.0)
    studies, seen = page.Studies(False), []
    assert "no study runs" in json.loads(studies.stop(VISITOR))["text"].lower()

    def look():
        if len(seen) == 1:  # the visitor turns to another table while the study runs
            studies.table(points(1).to_json(), "u", VISITOR)
        if len(seen) == 2:  # a stranger's stop stops nothing
            studies.stop(SimpleNamespace(session_hash="two"))
        if len(seen) == 3:
            studies.stop(VISITOR)
        seen.append(1)

    monkeypatch.setattr(f"{__name__}.STOP", look)
    shown = list(studies.run(asked("steps", n=9), VISITOR))
    said = [json.loads(line)["text"] for _, line, *_ in shown]
    assert all("under way" in one for one in said[:-1]) and "stopped after 4 of 9 parts" in said[-1]
    assert shown[-1][2]["value"] == "u" and len(shown[-1][5].data[0].x) == 4
    kept = engines.read_study(shown[-1][0])
    assert kept.table().rows == [[4]] and kept.notes == ["Stopped or under way: 4 of 9 parts."]
    monkeypatch.setattr(f"{__name__}.STOP", lambda: None)
    assert "done in" in json.loads(ended(studies, asked("steps", n=2))[1])["text"]


def test_a_point_fills_the_first_slot_with_its_run(registered, monkeypatch):
    monkeypatch.setattr(f"{__name__}.STOP", lambda: None)
    record, *_, plot, _, runs = ended(page.Studies(False), asked("steps", n=2))
    assert runs["visible"] and runs["choices"] == [("s, x = 1", "steps.0.0"), ("s, x = 2", "steps.0.1")]
    assert list(plot.data[0].customdata) == ["steps.0.0", "steps.0.1"]
    for place in ("steps.0.1", '{"dot": "steps.0.1", "n": 3}'):
        form, line, _, tabs = page.play(record, place)
        assert json.loads(form) == {"method": "greedy", "model": "model-2", "params": {"max_new_tokens": 8}}
        assert tabs.selected == "explore" and "greedy on model-2" in json.loads(line)["text"]
    for bad in ("steps.0.7", "", None, 3, '{"dot": 1}', "{", "[" * 9999, '{"dot": null, "n": 0}'):
        *_, line, _ = page.play(record, bad)
        assert json.loads(line)["kind"] == "error"
    with pytest.raises(gr.Error):
        page.play("", "steps.0.0")


def test_a_study_is_set_and_run(visit):
    screen = visit()
    screen.tab("Sweeps")
    screen.tab("Studies")
    view, start = screen.page, screen.page.locator("#study-run")
    form = view.locator("#study-form")
    form.get_by_label("Study").select_option("parallelbench")
    prompts = form.locator("#study-parallelbench-prompts")
    prompts.fill("1")
    start.click()
    expect(view.locator("#study-status")).to_contain_text("done in", timeout=180_000, ignore_case=True)
    expect(start).to_be_visible()
    expect(view.locator("#study-rows table")).to_contain_text("nats (derived)")
    expect(view.locator("#study-receipts table")).to_contain_text("n! / n^n")
    expect(view.locator("#study-plot .js-plotly-plot")).to_be_visible()
