"""The view of tiles by worker: the ways of a step from its lanes, what it says beside them, and a chosen head."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import engines
from tests.player.handmade import intervals

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
    lean, plain = js("views/workers.js", "M.ways(intervals)", intervals=INTERVALS)
    assert (lean["name"], lean["long"], lean["workers"], lean["tiles"], lean["merges"]) == ("lean", 2, 2, 4, 1)
    assert lean["done"] and not plain["done"] and plain["merges"] == 0
    assert lean["pieces"][1]["found"] == "m 2.00, l 4" and lean["pieces"][1]["first"] == 3
    assert js("views/workers.js", "M.ways()") == []


@pytest.mark.parametrize("options", [{}, {"viewport": {"width": 390, "height": 800}, "color_scheme": "dark"}])
def test_lengths_are_told_and_a_head_can_be_chosen(opened: Open, options: dict[str, Any]) -> None:
    given = {"max_new_tokens": 8, "workers": 6}
    trace = engines.run("lean-attention", "tiny-ar-m", "story: Mia, boat", params=given)
    page = opened([trace], folded=True, **options).page
    view = page.locator('[data-view="Workers"]')
    for t, step in enumerate(trace.steps, 1):
        page.evaluate("t => handles[0].seek(t)", t)
        text = view.inner_text()
        for way in ("lean", "plain", "flash_decoding"):
            assert f"{way.replace('_', '-')}: {step.facts[f'makespan_{way}']:.0f} tiles long" in text
        assert text.count("carried out") == 1 and "tile units, modelled" in text
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
