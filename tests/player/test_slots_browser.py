"""The view of experts in the cache: what the slots hold, read from lanes, and the hits beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import engines
from tests.player.handmade import intervals

Open = Callable[..., Any]
Call = Callable[..., Any]


def held(lane: str, start: int, end: int, label: str, unit: str = "tokens") -> dict[str, Any]:
    return {"lane": lane, "start": start, "end": end, "label": label, "measured": True, "unit": unit}


STEPS = [
    {"intervals": intervals([held("lru: 1", 0, 4, "sums: miss"), held("router", 0, 1, "route", "seconds")])},
    {"intervals": intervals([held("lru: 1", 4, 5, "sums"), held("lru: 2", 4, 5, "lists: miss, throws out stories")])},
]


def test_what_the_slots_hold_is_read_from_the_lanes(js: Call) -> None:
    (rule, held_), *rest = js("views/slots.js", "[...M.shelves(steps)]", steps=STEPS)
    assert rule == "lru" and rest == []
    assert [(one["slot"], one["expert"], one["miss"], one["out"]) for one in held_] == [
        (1, "sums", True, ""),
        (1, "sums", False, ""),
        (2, "lists", True, "stories"),
    ]


@pytest.mark.parametrize("options", [{}, {"viewport": {"width": 390, "height": 800}, "color_scheme": "dark"}])
def test_hits_are_those_of_the_run(opened: Open, options: dict[str, Any]) -> None:
    trace = engines.run("read-me", "tiny-ar-m", "add: 45 + 86", params={"max_new_tokens": 8, "slots": 1})
    page = opened([trace], folded=True, **options).page
    view = page.locator('[data-view="Slots"]')
    for t, step in enumerate(trace.steps, 1):
        page.evaluate("t => handles[0].seek(t)", t)
        text = view.inner_text()
        for rule in ("lru", "look-ahead", "random"):
            hits = step.facts[f"hits_{rule.replace('-', '_')}"]
            assert f"{rule}: {hits:.0f} of {step.facts['requests']:.0f} hits" in text
        assert ("routed before the first layer ran" in text) == (t == 1)
    page.close()
