"""The view of bytes by purpose: columns and limits of a step, what is cut off below, and that every part says whether
it was measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import engines
from engines.core.trace import Trace
from tests.player.handmade import intervals

Open = Callable[..., Any]
Call = Callable[..., Any]


def part(lane: str, start: int, end: int, label: str = "", **more: Any) -> dict[str, Any]:
    return {"lane": lane, "start": start, "end": end, "label": label, "measured": True, "unit": "bytes", **more}


INTERVALS = intervals(
    [
        part("arena: weights", 0, 900),
        part("arena: cache", 900, 1000, measured=False),
        part("process", 0, 5000, "resident memory"),
        part("budget", 0, 1200, "limit"),
        part("draft", 0, 3, unit="seconds"),
    ]
)


def test_lanes_are_columns_and_limits(js: Call) -> None:
    source = "(({ groups, limits }) => ({ groups: [...groups], limits }))(M.columns(intervals))"
    found = js("views/arena.js", source, intervals=INTERVALS)
    assert found["limits"] == [1200] and [name for name, _ in found["groups"]] == ["arena", "process"]
    arena, process = (parts for _, parts in found["groups"])
    assert [(one["name"], one["measured"]) for one in arena] == [("weights", True), ("cache", False)]
    assert process == [{"name": "resident memory", "start": 0, "end": 5000, "measured": True}]


def test_a_part_that_is_most_of_it_is_cut_off_below(js: Call) -> None:
    def ground(*ends: int) -> int:
        parts = [{"start": a, "end": b} for a, b in zip((0, *ends), ends, strict=False)]
        return js("views/arena.js", "M.ground(parts)", parts=parts)

    assert (ground(900, 1000), ground(400, 1000), ground(900), ground()) == (900, 0, 0, 0)


@pytest.fixture(scope="module")
def trace() -> Trace:
    params = {"max_new_tokens": 16, "budget": 26.0, "batch": 2}
    return engines.run("specmemo", "tiny-ar-l", "story: Mia, boat", params=params)


@pytest.mark.parametrize("options", [{}, {"viewport": {"width": 390, "height": 800}}, {"color_scheme": "dark"}])
def test_each_part_says_measured_or_modelled(opened: Open, trace: Trace, options: dict[str, Any]) -> None:
    page = opened([trace], folded=True, **options).page
    view = page.locator('[data-view="Arena"]')
    view.locator("summary").click()
    for t, step in enumerate(trace.steps, 1):
        page.evaluate("t => handles[0].seek(t)", t)
        said = view.locator(".dx-readout").first.inner_text()
        assert "% of the budget of 26.0 MB" in said and "22.6 MB, weights, are not drawn" in said
        parts = [i for i in step.intervals if i.unit == "bytes" and i.label != "limit"]
        rows = [text.split("\n")[-1] for text in view.locator("div > i + span").locator("..").all_inner_texts() if text]
        assert rows.count("measured") == sum(i.measured for i in parts)
        assert rows.count("modelled") == sum(not i.measured for i in parts)


def test_a_run_without_bytes_does_not_show_it(opened: Open) -> None:
    trace = engines.run("easyspec", "tiny-ar-m", "add: 45 + 86", params={"max_new_tokens": 12})
    page = opened([trace]).page
    page.evaluate("handles[0].seek(1)")
    assert not page.locator('[data-view="Arena"]').is_visible()
