"""The view of experts in the cache: what the slots hold, read from lanes, and the hits beside it."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import structs
from playwright.sync_api import expect

import engines
from tests.player.handmade import intervals
from tests.player.pictures import INSIDE

Open = Callable[..., Any]
Call = Callable[..., Any]


def held(lane: str, start: int, end: int, label: str, unit: str = "tokens") -> dict[str, Any]:
    return {"lane": lane, "start": start, "end": end, "label": label, "measured": True, "unit": unit}


STEPS = [
    {"intervals": intervals([held("lru: 1", 0, 4, "sums: miss"), held("router", 0, 1, "route", "seconds")])},
    {"intervals": intervals([held("lru: 1", 4, 5, "sums"), held("lru: 2", 4, 5, "lists: miss, throws out stories")])},
]


def test_what_the_slots_hold_is_read_from_the_lanes(js: Call) -> None:
    (rule, held_), *rest = js("views/shelves.js", "[...M.shelves(steps)]", steps=STEPS)
    assert rule == "lru" and rest == []
    assert [(one["slot"], one["expert"], one["miss"], one["out"]) for one in held_] == [
        (1, "sums", True, ""),
        (1, "sums", False, ""),
        (2, "lists", True, "stories"),
    ]


PARAMS = {"max_new_tokens": 6, "slots": 2}


@pytest.mark.parametrize("params", [{}, {"slots": 1}, {"slots": 3}, {"window": 3}, {"window": 0}], ids=str)
def test_caches_decide_again_as_the_engine_did(js: Call, params: dict[str, Any]) -> None:
    """A slider serves the recorded requests with other slots: what it would hold is what a run with them holds."""
    for prompt in ("story: Mia, boat", "add: 45 + 86", "python: class Boat(name: str, speed: int, crew: int)"):
        trace = engines.run("read-me", "tiny-ar-m", prompt, params={**PARAMS, **params})
        steps = json.loads(trace.to_json())["steps"]
        names, facts = steps[0]["choice"]["options"], steps[0]["facts"]
        recorded = dict(js("views/shelves.js", "[...M.shelves(steps)]", steps=steps))
        for rule in ("lru", "look-ahead"):
            call = "M.served(M.queues(steps), rule, c, names, ahead)"
            again = js(
                "views/shelves.js", call, steps=steps, rule=rule, c=facts["slots"], names=names, ahead=facts["window"]
            )
            key = operator.itemgetter("start", "slot")
            assert sorted(again, key=key) == sorted(recorded[rule], key=key)


@pytest.mark.parametrize("width", [1280, 820, 390])
def test_the_picture_holds_at_each_eviction(opened: Open, width: int) -> None:
    trace = engines.run("read-me", "tiny-ar-m", "story: Mia, boat", params=PARAMS)
    odd = ["\u202eright to left", "\u05e9\u05dc\u05d5\u05dd", "w" * 80, "\n"]
    trace.pieces = [structs.replace(piece, text=odd[i % 4]) for i, piece in enumerate(trace.pieces)]
    page = opened([trace], folded=True, viewport={"width": width, "height": 800}).page
    view = page.locator('[data-view="Slots"]')
    page.evaluate("handles[0].seek(1)")
    for c in ("1", "2", "3"):
        view.locator("input").fill(c)
        expect(view.locator("[aria-live]")).to_contain_text("derived: loads: ")
        while view.get_by_role("button", name="eviction ▸").is_enabled():
            view.get_by_role("button", name="eviction ▸").click()
            assert view.locator("svg.dx-tower").evaluate(INSIDE) == 0
    for t in range(len(trace.steps) + 1):
        page.evaluate("t => handles[0].seek(t)", t)
        assert view.locator("svg.dx-tower").evaluate(INSIDE) == 0, t


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
