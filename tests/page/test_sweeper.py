"""*Run a sweep*: what it refuses without a browser, and in one a sweep that runs, is cancelled, goes on, and opens what
failed."""

import re

import gradio as gr
import pytest
from playwright.sync_api import expect

from engines import UserError
from explorer.bench import workers
from explorer.bench.cells import Outcome
from explorer.page import sweeper as page
from explorer.page.run_limits import Limits
from explorer.page.sweep_section import offer
from tests.page.conftest import desk

MODEL = "tiny-dlm"
OK = [MODEL, ["factor"], "factor", "0.5,1", page.NO_SECOND, ["sort"], 2, 0, 60, 100, True]


def sweeper(tmp_path, public=False) -> page.Sweeper:
    return page.Sweeper(desk(tmp_path, public))


def test_the_total_is_said_before_it_starts(tmp_path):
    one = sweeper(tmp_path)
    checked = one.read(OK)
    assert checked.total == len(checked.settings) * 2
    assert [s.params for s in checked.settings[-2:]] == [{"factor": 0.5}, {"factor": 1.0}]
    said = one.planned(*OK)
    assert f"{len(checked.settings)} settings × 1 task × 2 prompts = {checked.total} runs" in said
    assert "no estimate" in said and "60 s at the latest" in said
    for s in checked.settings:
        one._pace.note(MODEL, s.method, Outcome(True, 1, 1, 1, 0.5))
    assert f"About {checked.total * 0.5:.0f} s, estimated from {len(checked.settings)} timed runs" in one.planned(*OK)


@pytest.mark.parametrize(
    ("place", "value", "sentence"),
    [
        (0, "no-such", "unknown model 'no-such'"),
        (1, [], "no method is chosen"),
        (2, "wings", "none of these methods has the parameter 'wings'"),
        (3, "0.1:9", "is not a number"),
        (3, "", "there are no values for factor"),
        (4, "factor=0.5", "factor is chosen twice; choose another second parameter, or none"),
        (5, ["fly"], "there is no task 'fly'"),
        (6, 0, "prompts per task: 0 is not allowed"),
        (7, -1, "seed=-1 is not allowed"),
        (8, float("nan"), "the most seconds: nan is not allowed"),
        (9, 1e9, "the most runs: 1000000000.0 is not allowed"),
    ],
)
def test_what_cannot_be_swept_is_a_sentence(tmp_path, place, value, sentence):
    one = sweeper(tmp_path)
    values = [value if i == place else v for i, v in enumerate(OK)]
    with pytest.raises(UserError, match=sentence):
        one.read(values)
    assert '"error"' in one.planned(*values)


def test_a_public_host_takes_little_and_short_answers_and_keeps_it_in_memory(tmp_path):
    one = sweeper(tmp_path, public=True)
    assert isinstance(one.kept, page.Memory) and one.limits.sweep_runs <= 300 and one.limits.sweep_seconds <= 60
    with pytest.raises(UserError, match="at most 240 are taken here"):
        one.read([*OK[:6], 100, 0, 60, 200, True])
    with pytest.raises(UserError, match="the most seconds: 600"):
        one.read([*OK[:8], 600, 100, True])
    short = page.Sweeper(desk(tmp_path, limits=Limits(1000, 100, 60, True, new_tokens=20)))
    with pytest.raises(UserError, match="512"):
        short.read([MODEL, ["factor"], "max_new_tokens", "16,512", *OK[4:8], 10, 10, False])


@pytest.mark.parametrize("row", [None, [], ["-1"], ["0"], ["x"], [None]])
def test_rows_of_no_sweep_open_nothing(tmp_path, row):
    one = sweeper(tmp_path)
    with pytest.raises(UserError, match="is no run of this sweep"):
        one.again(row, None, gr.Request())
    for value in (row, '{"dot": 0}', '{"dot": "<img>"}', "[" * 100, "{}"):
        with pytest.raises(gr.Error, match="is no point"):
            one.dot(value, gr.Request())


def test_controls_follow_the_model_and_the_methods(tmp_path):
    one = sweeper(tmp_path)
    for model in (model for model in one.handlers.catalogue.models if one.methods(model.name)):
        found = offer(one, model.name)
        assert found["chosen"] and found["name"] in found["names"]
        values = [model.name, found["chosen"], found["name"], found["text"], *OK[4:6], 1, 0, 60, 100, True]
        assert one.read(values).total >= 1  # what is offered first can be run
    causal = offer(one, "tiny-ar-l", ["greedy"])
    assert causal["names"] == [page.DEFAULTS, "max_new_tokens"] and causal["name"] == page.DEFAULTS


def test_a_second_parameter_makes_pairs_and_a_curve_for_each_of_its_values(tmp_path):
    one = sweeper(tmp_path)
    own = [s.params for s in one.read([*OK[:4], "block_length = 8,16", *OK[5:]]).settings[-4:]]
    assert own == [{"factor": f, "block_length": b} for f in (0.5, 1.0) for b in (8, 16)]
    with pytest.raises(UserError, match="12 × 9 = 108 pairs of values; at most 96"):
        one.read([*OK[:3], "0.1:1:12", "block_length=1:64:9", *OK[5:]])


def test_a_failure_of_ours_ends_the_sweep_and_not_the_page(tmp_path, monkeypatch):
    one = sweeper(tmp_path)
    monkeypatch.setattr(workers, "in_turn", lambda *a, **k: 1 / 0)
    shown = list(one.run(gr.Request(), *OK))
    assert "Starting" in shown[0][0] and "error of ours" in shown[-1][0]
    assert "No sweep is running" in one.stop(gr.Request())[0]


def said(screen, text: str, seconds: float = 120) -> None:
    expect(screen.page.locator("#sweep-status .status")).to_contain_text(text, timeout=1000 * seconds)


def test_a_sweep_is_cancelled_goes_on_and_opens_what_failed(visit, slowly, monkeypatch):
    screen = visit()
    screen.tab("Sweeps")
    screen.tab("Run a sweep")
    screen.page.locator("#sweep-prompts input").fill("2")
    screen.page.locator("#sweep-prompts input").press("Tab")
    said(screen, "× 2 tasks × 2 prompts = ")
    screen.press("Start sweep")
    said(screen, "; about")
    screen.press("Cancel sweep")
    said(screen, "Stopped with")
    assert slowly.running == 0
    monkeypatch.undo()  # no pauses any more
    screen.press("Start sweep")
    said(screen, "Done: ")
    status = screen.page.locator("#sweep-status .status")
    expect(status).to_have_text(re.compile(r"Done: [1-9]\d* .*, [1-9]\d* "))
    assert sum(int(part.split()[0]) for part in status.text_content().removeprefix("Done: ").split(", ")) == 40
    expect(screen.page.locator("#sweep-figures .js-plotly-plot")).to_have_count(2)
    dots = screen.page.locator("#sweep-figures .js-plotly-plot").first.locator(".scatterlayer .point")
    expect(dots).to_have_count(10)
    dots.nth(7).click(force=True)  # behind the control's seven: the lowest threshold
    expect(screen.page.locator("#sweep-live").get_by_text("wrong. Choose a prompt")).to_contain_text("1 of 4 wrong")
    screen.page.locator("#sweep-cells").get_by_text("wrong from word").last.click()
    screen.says("which wrote the first wrong word")
    expect(screen.player(0).locator(".dx-mark")).to_contain_text("✗ wrong from word")
    expect(screen.player(0).locator(".dx-first")).to_have_count(1)
