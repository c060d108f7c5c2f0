"""The ParallelBench section without a browser, and once in one."""

from __future__ import annotations

import json

import gradio as gr
import pytest
from playwright.sync_api import expect

from engines import UserError
from engines import parallelbench as bench
from engines.tasks import TASKS
from explorer.bench.quality import PARALLELBENCH
from explorer.page import parallelbench as page
from explorer.page.theme import colours

PARTS = bench.recorded(PARALLELBENCH)
POINTS = [point for part in PARTS for point in part.points]
EXACT, NETWORK = "oracle", "tiny-dlm"


def of(task, **more):
    return [
        p for p in POINTS if p.task == task and all(getattr(p.setting, name) == value for name, value in more.items())
    ]


def names(figure):
    return {trace.name: trace for trace in figure.data}


def test_models_differ_in_shape_and_colour_and_colours_are_tokens():
    looks = page.looks(POINTS)
    assert looks[EXACT][1] == "diamond" and looks[NETWORK][1] == "circle" and looks[EXACT][0] != looks[NETWORK][0]
    assert all(colour in json.dumps(colours()) for colour, _ in looks.values())


def test_dots_are_measured_and_the_line_is_the_closed_form():
    found = of("shuffle")
    drawn = names(page.accuracy_figure("shuffle", found, found))
    assert set(drawn) == {"derived, closed form"} | {
        f"{model}, {how}" for model in (EXACT, NETWORK) for how in ("taken by argmax", "sampled")
    }
    line, forms = drawn["derived, closed form"], bench.derived("shuffle", bench.ITEMS)
    assert (line.mode, list(line.x), list(line.y)) == (
        "lines",
        [f.per_forward for f in forms],
        [f.chance for f in forms],
    )
    dots = drawn["oracle, sampled"]
    sampled = [p for p in found if p.model == EXACT and p.setting.sampled]
    assert (
        dots.mode == "markers"
        and dots.marker.symbol == "diamond-open"
        and drawn["oracle, taken by argmax"].marker.symbol == "diamond"
    )
    assert list(dots.y) == [p.share for p in sampled] and list(dots.x) == [p.tokens_per_forward for p in sampled]
    assert [y + e for y, e in zip(dots.y, dots.error_y.array, strict=True)] == pytest.approx(
        [p.interval[1] for p in sampled]
    )
    assert [y - e for y, e in zip(dots.y, dots.error_y.arrayminus, strict=True)] == pytest.approx(
        [p.interval[0] for p in sampled]
    )


def test_without_a_closed_form_the_line_lists_answers_or_is_not_there():
    found = of("latin")
    how, x, y = page.curve("latin", found)
    assert how == "all answers listed" and x == sorted(x) and y == sorted(y, reverse=True) and y[0] == 1
    assert page.curve("sudoku", of("sudoku"))[:2] == (
        "closed form",
        [1, 2, 4, 5, 10, 20],
    )  # as far as the longest board's dots
    assert page.curve("sentence", of("sentence")) is None
    drawn = page.bound_figure("sentence", of("sentence"), of("sentence"))
    assert not drawn.data and "not listed" in drawn.layout.title.text
    bounds = names(page.bound_figure("shuffle", of("shuffle", order="random"), of("shuffle")))
    assert set(bounds) == {"derived, closed form", "oracle, taken by argmax", "oracle, sampled"}
    assert list(bounds["oracle, sampled"].y) == pytest.approx(list(bounds["derived, closed form"].y))


def test_the_list_and_the_view_are_of_the_chosen_task_and_order():
    *_, rows, view = page.drawn(PARTS, POINTS, "sort", "entropy")
    assert len(rows) == len(of("sort", order="entropy")) > 0
    for number, model, setting, exact, *_ in rows:
        point = page.point_of([number, model], POINTS)
        assert (point.model, point.setting.label, exact) == (
            model,
            setting,
            f"{point.right}/{point.tried}",
        ) and point.task == "sort"
    lines = json.loads(view)["rows"]
    titles = (TASKS["sort"].title, bench.ALL)
    assert [line[:2] for line in lines] == [[part.model.name, title] for part in PARTS for title in titles]
    for task, order in (("story", "entropy"), ("sort", "worst"), (None, None), ([], "entropy"), ("sort", {})):
        with pytest.raises(gr.Error, match="choose a task"):
            page.drawn(PARTS, POINTS, task, order)


@pytest.mark.parametrize("row", [None, [], "0", ["-1"], ["²"], [None], [str(len(POINTS))], ["<img>"], {"0": 0}, [1.5]])
def test_what_is_no_row_plays_nothing(row):
    with pytest.raises(UserError, match="is no point"):
        page.point_of(row, POINTS)


def test_a_row_plays_its_first_wrong_or_right_prompt():
    point = bench.Point("some", "copy", POINTS[0].setting, "==.=", 1.0, 1.0)
    assert (
        page.prompt_of(point, page.WRONG) == 2
        and page.prompt_of(point, page.RIGHT) == page.prompt_of(point, "else") - 2 == 0
    )
    right = bench.Point("some", "copy", POINTS[0].setting, "==", 1.0, 1.0)
    assert page.prompt_of(right, page.WRONG) == 0


@pytest.mark.pages
def test_a_chosen_row_is_run_and_played(visit):
    screen = visit()
    screen.tab("Sweeps")
    screen.tab("ParallelBench")
    expect(screen.page.locator("#parallelbench .js-plotly-plot")).to_have_count(2)
    label = next(p.setting.label for p in of("shuffle", sampled=True) if p.setting.per_forward == bench.ITEMS)
    screen.page.locator("#pb-points").get_by_text(label, exact=True).last.click()
    screen.says(f"Run again: {label[:1].lower()}{label[1:]}")
    screen.wait(0, "done")
    expect(screen.player(1)).to_be_hidden()
    expect(screen.page.locator("#results .facts")).to_have_attribute("data-rows", "1")


def test_a_refused_run_is_a_sentence():
    from explorer.page.catalogue import Catalogue
    from explorer.page.handlers import Handlers
    from explorer.page.limits import Limits
    from explorer.runs.gallery import Gallery

    handlers = Handlers(
        Gallery(PARALLELBENCH.parent / "none"), Catalogue.read(public=False), Limits(1000, 100, 60, False)
    )

    def refuse(**budget):
        assert budget == {"max_steps": 100, "max_seconds": 60}
        raise UserError("this one does not fit")

    shown = list(handlers.showing.run_again(refuse, "a setting", gr.Request()))
    assert (
        "Running a setting." in shown[0][1]
        and json.loads(shown[-1][1])["kind"] == "error"
        and "This one does not fit" in shown[-1][1]
    )
