"""The view of layers by tokens: what is lit, what the counters say, and which views it leaves alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import engines
from tests.player.handmade import intervals

Open = Callable[..., Any]
Call = Callable[..., Any]
PROMPT = "ask: Which cities? Mia lives in Rome. Ben has a kite. Ada lives in Bonn. Ada is 14 years old."


def ran(lane: str, start: float, end: float, label: str) -> dict[str, Any]:
    return {"lane": lane, "start": start, "end": end, "label": label, "measured": True, "unit": "seconds"}


OURS = "encoder-decoder"
STEPS = [
    {
        "intervals": intervals(
            [
                ran("encoder-decoder", 0.0, 1.0, "encode 0"),
                ran("encoder-decoder", 1.0, 2.0, "encode 1"),
                ran("encoder-decoder", 2.0, 2.1, "cross_kv 0"),
                ran("encoder-decoder", 2.1, 2.5, "decode 0"),
                ran("encoder-decoder", 2.5, 2.5, "token  Rome"),
                ran("decoder-only", 2.6, 3.6, "prefill 0"),
                ran("decoder-only", 3.6, 4.6, "prefill 2"),
                ran("decoder-only", 4.6, 4.6, "token  Oslo"),
                ran("experts: read", 0.0, 9.0, "read"),
            ]
        )
    },
    {
        "intervals": intervals(
            [ran("encoder-decoder", 5.0, 5.5, "decode 0"), ran("encoder-decoder", 5.5, 5.5, "token ")]
        )
    },
]


def test_layers_and_tokens_are_read_from_the_lanes(js: Call) -> None:
    twin, ours = js("views/phasesides.js", "M.sides(steps)", steps=STEPS)
    assert (twin["name"], twin["low"], twin["high"]) == ("decoder-only", 3, 0) and len(twin["steps"]) == 1
    assert (ours["name"], ours["low"], ours["high"]) == ("encoder-decoder", 1, 2)
    assert [step["token"] for step in ours["steps"]] == [" Rome", ""]
    assert [step["end"] - step["start"] for step in ours["steps"]] == [2.5, 0.5]
    assert [len(step["cells"]) for step in ours["steps"]] == [4, 1]


@pytest.mark.parametrize("options", [{}, {"viewport": {"width": 390, "height": 800}, "color_scheme": "dark"}])
def test_the_grid_follows_the_run(opened: Open, options: dict[str, Any]) -> None:
    trace = engines.run("encoder-return", "tiny-encdec", PROMPT, params={"max_new_tokens": 8})
    n = len(trace.header.prompt_ids)
    page = opened([trace], folded=True, **options).page
    view = page.locator('[data-view="Phases"]')
    grids = view.locator("svg > g").nth(0).locator("> g")
    cells = "paths => paths.map(p => (p.getAttribute('d').match(/M/g) ?? []).length)"
    for t, step in enumerate(trace.steps, 1):
        page.evaluate("t => handles[0].seek(t)", t)
        twin, ours = (grids.nth(i).locator("path").evaluate_all(cells)[1:] for i in range(2))  # kept, old, fresh
        replies = sum(
            any(i.about.get("phase") == "decode" and i.track == "decoder-only" for i in s.intervals)
            for s in trace.steps[:t]
        )
        assert ours[0] == 3 * n and ours[1] + ours[2] == 8 * n + 3 * t
        assert sum(twin) == 12 * n + 12 * replies
        text = view.inner_text()
        assert "8 layers read the input once, 3 write a token" in text and "12 layers for every token" in text
        (lane,) = [one for one in step.scores if one.name == "looked at"]
        drawn = view.locator("svg > g").nth(1).locator("path:visible").count()
        assert drawn == int((lane.values.array() >= 0.03).sum())
    page.close()


def test_a_run_without_phases_does_not_show_it(opened: Open) -> None:
    trace = engines.run("pearl", "tiny-ar-l", "add: 45 + 86", params={"max_new_tokens": 8})
    page = opened([trace], folded=True).page
    page.evaluate("() => handles[0].seek(2)")
    assert page.locator('[data-view="Phases"]').is_hidden()
    page.close()
