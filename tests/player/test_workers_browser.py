"""The view of tiles by worker: the ways of a step from its lanes, what it says beside them, and a chosen head."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from playwright.sync_api import expect

import engines
from engines.methods.system.lean_attention.partition import SCHEDULES, makespan, schedule, tiles
from tests.player.handmade import intervals
from tests.player.pictures import INSIDE

Open = Callable[..., Any]
Call = Callable[..., Any]


def piece(lane: str, start: float, end: float, label: str, unit: str = "tiles") -> dict[str, Any]:
    return {"lane": lane, "start": start, "end": end, "label": label, "measured": unit != "tiles", "unit": unit}


INTERVALS = intervals(
    [
        piece("lean: 1", 0, 2, "head 1, tiles 1–2, m 3.10, l 1.2"),
        piece("lean: 2", 0, 1, "head 1, tiles 3–3, m 2.00, l 4"),
        piece("lean: 2", 1, 2, "head 2, tiles 1–1, m -1.5, l 2"),
        piece("plain: 1", 0, 3, "head 1, tiles 1–3"),
        piece("thread 1", 0.1, 0.2, "head 1, tiles 1–2", "seconds"),
    ]
)


def test_the_ways_of_a_step_are_read_from_its_lanes(js: Call) -> None:
    lean, plain = js("views/tiles.js", "M.ways(intervals)", intervals=INTERVALS)
    assert (lean["name"], lean["long"], lean["workers"], lean["tiles"], lean["merges"]) == ("lean", 2, 2, 4, 1)
    assert lean["done"] and not plain["done"] and plain["merges"] == 0
    assert lean["pieces"][1]["found"] == "m 2.00, l 4" and lean["pieces"][1]["first"] == 3
    assert js("views/tiles.js", "M.ways()") == []


TITLES = {
    "lean": ("② the pieces stacked, one worker each (stream-K)", "② stacked"),
    "plain": ("instead: one worker per head", "one worker per head"),
    "flash_decoding": ("instead: every head cut in the same way (fixed split)", "fixed split"),
}


@given(heads=st.integers(1, 64), N=st.integers(1, 2**20), slots=st.integers(1, 128), b=st.sampled_from([16, 64, 256]))
def test_what_sliders_share_out_is_what_the_engine_would(js: Call, heads: int, N: int, slots: int, b: int) -> None:
    t = tiles(N, b)
    made = {one["name"]: one for one in js("views/tiles.js", "M.modelled(h, t, W)", h=heads, t=t, W=slots)}
    for kind in SCHEDULES:
        pieces = schedule(kind, [t] * heads, slots)
        assert made[kind]["long"] == makespan(pieces) and made[kind]["tiles"] == heads * t
        assert [(p["worker"] - 1, p["head"] - 1, p["first"] - 1, p["last"]) for p in made[kind]["pieces"]] == pieces


@pytest.mark.parametrize("width", [1280, 820, 390])
def test_the_charts_hold_up_to_a_million_tokens(opened: Open, width: int) -> None:
    given = {"max_new_tokens": 4, "workers": 6}
    trace = engines.run("lean-attention", "tiny-ar-m", "story: Mia, boat", params=given)
    page = opened([trace], folded=True, viewport={"width": width, "height": 800}).page
    view = page.locator('[data-view="Workers"]')
    page.evaluate("handles[0].seek(2)")
    before = view.locator("svg.dx-tower text:visible").all_text_contents()
    for n, heads, workers in (("10", "1", "2"), ("20", "64", "128"), ("16", "11", "10"), ("20", "3", "2")):
        for i, value in enumerate((n, heads, workers)):
            view.locator("input").nth(i).fill(value)
        assert view.locator("svg.dx-tower").evaluate(INSIDE) == 0
        expect(view.locator("svg.dx-tower")).to_contain_text("① modelled: ")
    view.get_by_role("button", name="as recorded").click()
    assert view.locator("svg.dx-tower text:visible").all_text_contents() == before


@pytest.mark.parametrize("options", [{}, {"viewport": {"width": 390, "height": 800}, "color_scheme": "dark"}])
def test_lengths_are_told_and_a_head_can_be_chosen(opened: Open, options: dict[str, Any]) -> None:
    given = {"max_new_tokens": 8, "workers": 6}
    trace = engines.run("lean-attention", "tiny-ar-m", "story: Mia, boat", params=given)
    page = opened([trace], folded=True, **options).page
    view = page.locator('[data-view="Workers"]')
    for t, step in enumerate(trace.steps, 1):
        page.evaluate("t => handles[0].seek(t)", t)
        text = view.inner_text()
        for way, title in TITLES.items():
            long = f"{step.facts[f'makespan_{way}']:.0f}"
            assert f"{way.replace('_', '-')} {long}" in text
            wide = "viewport" not in options
            assert any(f"{name}: {long} {'tiles ' * wide}long" in text for name in title)
        assert text.count("carried out") == (0 if "viewport" in options else 1) and "tile units, modelled" in text
        assert view.locator("svg.dx-tower").evaluate(INSIDE) == 0
    view.get_by_role("button", name="head 2").click()
    lines = view.locator("li:visible").all_inner_texts()
    own = [i for i in trace.steps[-1].intervals if i.track.startswith("lean") and i.label.startswith("head 2,")]
    assert len(lines) == len(own) and "this worker merges" in lines[0] and ", l " in lines[0]
    page.close()


def test_a_run_without_tiles_does_not_show_it(opened: Open) -> None:
    trace = engines.run("easyspec", "tiny-ar-m", "add: 45 + 86", params={"max_new_tokens": 12})
    page = opened([trace]).page
    page.evaluate("handles[0].seek(1)")
    assert not page.locator('[data-view="Workers"]').is_visible()
