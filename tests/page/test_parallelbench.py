"""The ParallelBench section without a browser, and once in one."""

import json

import gradio as gr
import pytest

from engines import UserError
from engines import parallelbench as bench
from engines.tasks import TASKS
from explorer.bench.quality import PARALLELBENCH
from explorer.page import parallelbench as page
from tests.page.conftest import desk

PARTS = bench.recorded(PARALLELBENCH)
POINTS = [point for part in PARTS for point in part.points]
EXACT, NETWORK = "oracle", "tiny-dlm"


def of(task, **more):
    return [
        p for p in POINTS if p.task == task and all(getattr(p.setting, name) == value for name, value in more.items())
    ]


def names(figure):
    return {trace.name: trace for trace in figure.data}


def test_dots_are_measured_and_the_line_is_the_closed_form():
    found = of("shuffle")
    drawn = names(page.accuracy_figure("shuffle", found, found))
    assert set(drawn) == {"derived, closed form"} | {
        f"{model}, {how}" for model in (EXACT, NETWORK) for how in ("taken by argmax", "sampled")
    }
    line, forms = drawn["derived, closed form"], bench.derived("shuffle", bench.ITEMS)
    assert (list(line.x), list(line.y)) == ([f.per_forward for f in forms], [f.chance for f in forms])
    dots = drawn["oracle, sampled"]
    sampled = [p for p in found if p.model == EXACT and p.setting.sampled]
    assert (line.mode, dots.mode, dots.marker.symbol) == ("lines", "markers", "diamond-open")
    assert list(dots.y) == [p.share for p in sampled] and list(dots.x) == [p.tokens_per_forward for p in sampled]
    for p, y, up, down in zip(sampled, dots.y, dots.error_y.array, dots.error_y.arrayminus, strict=True):
        assert (y - down, y + up) == pytest.approx(p.interval)


def test_without_a_closed_form_the_line_lists_answers_or_is_not_there():
    how, x, y = page.curve("latin", of("latin"))
    assert how == "all answers listed" and x == sorted(x) and y == sorted(y, reverse=True) and y[0] == 1
    assert page.curve("sentence", of("sentence")) is None
    drawn = page.bound_figure("sentence", of("sentence"), of("sentence"))
    assert not drawn.data and "not listed" in drawn.layout.title.text


def test_the_list_and_the_view_are_of_the_chosen_task_and_order():
    *_, rows, view = page.drawn(PARTS, POINTS, "sort", "entropy")
    assert len(rows) == len(of("sort", order="entropy")) > 0
    for number, model, setting, exact, *_ in rows:
        point = page.point_of([number, model], POINTS)
        assert (point.task, point.model, point.setting.label) == ("sort", model, setting)
        assert exact == f"{point.right}/{point.tried}"
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
    def point(marks):
        return bench.Point("some", "copy", POINTS[0].setting, marks, 1.0, 1.0)

    found = [page.prompt_of(point("==.="), which) for which in (page.WRONG, page.RIGHT, "else")]
    assert found == [2, 0, 2] and page.prompt_of(point("=="), page.WRONG) == 0


def test_a_refused_run_is_a_sentence():
    def refuse(**budget):
        assert budget == {"max_steps": 100, "max_seconds": 60}
        raise UserError("this one does not fit")

    first, *_, last = desk().run_again(refuse, "a setting", gr.Request())
    assert "Running a setting." in first[1]
    assert json.loads(last[1])["kind"] == "error" and "This one does not fit" in last[1]
