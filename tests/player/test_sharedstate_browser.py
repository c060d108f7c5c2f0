"""The picture of rows with one learned state: it holds on every step and for chains of any length, says what the record
says, cuts the chain where the model parted from it, and counts as the trace does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec import structs
from playwright.sync_api import expect

import engines
from engines.core.trace import Trace
from tests.engines.methods.heads.test_published import pair
from tests.player.pictures import PANELS, held_on_every_step

Open = Callable[..., Any]
Call = Callable[..., Any]
PROMPT = "add: 4827 + 3169"


@pytest.fixture(scope="module")
def trace() -> Trace:
    return engines.run("p-eagle", "tiny-ar-l", PROMPT, params={"max_new_tokens": 64})


@pytest.mark.parametrize("options", PANELS, ids=str)
def test_it_holds_on_every_step(opened: Open, trace: Trace, options: dict[str, Any]) -> None:
    held_on_every_step(opened([trace], folded=True, **options).page, "SharedState", len(trace.steps))


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("k", [1, 2, 16])
def test_chains_of_any_length(opened: Open, width: int, k: int) -> None:
    trace = engines.run("p-eagle", "tiny-ar-l", PROMPT, params={"max_new_tokens": 32, "k": k})
    page = opened([trace], folded=True, viewport={"width": width, "height": 800}).page
    view = held_on_every_step(page, "SharedState", len(trace.steps))
    page.evaluate("handles[0].seek(2)")
    expect(view.locator("circle[stroke-dasharray], circle[style*=dasharray]").locator("visible=true")).to_have_count(
        k - 1
    )


@pytest.mark.parametrize("drafter", ["drafter", "drafter-normfc"])
def test_published_checkpoints(opened: Open, drafter: str) -> None:
    trace = engines.run("p-eagle", pair("peagle", drafter), [15, 35, 30, 50, 41], params={"max_new_tokens": 16})
    view = held_on_every_step(opened([trace], folded=True).page, "SharedState", len(trace.steps))
    told = trace.steps[1].records["sharedstate"]
    view.page.evaluate("handles[0].seek(2)")
    expect(view.locator(".dx-readout")).to_contain_text("all with the same learned state")
    expect(view.locator("circle[r='6']:visible")).to_have_count(len(told["reads"]))


def test_it_says_what_the_record_says(opened: Open, trace: Trace) -> None:
    page = opened([trace], folded=True).page
    view, cut = page.locator('[data-view="SharedState"]'), 0
    for t, step in enumerate(trace.steps, 1):
        told = step.records.get("sharedstate")
        page.evaluate("t => handles[0].seek(t)", t)
        if not told:
            expect(view.locator(".dx-readout")).to_have_text("Nothing was drafted in this step.")
            continue
        k, accepted, n = len(told["tokens"]), int(step.facts["accepted"]), len(told["text"])
        rows = f"{n} row{'s' if n > 1 else ''} of text"
        expect(view.locator(".dx-readout")).to_contain_text(rows)
        expect(view.locator(".dx-readout")).to_contain_text(f"{accepted} accepted")
        expect(view.locator("text", has_text=f"token by token: {k} passes")).to_be_visible()
        refused = int("mismatch" in step.tree.why)  # none behind an accepted end mark
        expect(view.locator("path.dx-cut:not([style*=none])")).to_have_count(refused)
        cut += refused
    assert cut


def test_guesses_are_counted_as_the_trace_has_them(js: Call, trace: Trace) -> None:
    steps = [
        {"sharedstate": step.records.get("sharedstate"), "tree": {"emitted": step.tree.emitted}} for step in trace.steps
    ]
    wanted: list[list[int]] = []
    for step in trace.steps[1:]:
        drafted = step.tree.tokens[1:]
        for i, (guess, token) in enumerate(zip(drafted, step.tree.emitted, strict=False)):
            if len(wanted) == i:
                wanted.append([0, 0])
            wanted[i][0] += guess == token
            wanted[i][1] += 1
    assert js("views/lentstate.js", "M.rightSoFar(steps)", steps=steps) == wanted
    assert sum(right for right, _ in wanted) > 5 and js("views/lentstate.js", "M.rightSoFar([{}])") == []


@pytest.mark.parametrize("width", [1024, 640, 390])
def test_words_of_any_direction_and_length_stay_in_the_drawing(opened: Open, trace: Trace, width: int) -> None:
    odd = ["\u202eright to left", "\u05e9\u05dc\u05d5\u05dd", "w" * 80, "\U0001f468\u200d\U0001f467", "\n"]
    pieces = [structs.replace(piece, text=odd[i % 5]) for i, piece in enumerate(trace.pieces)]
    page = opened([structs.replace(trace, pieces=pieces)], folded=True, viewport={"width": width, "height": 800}).page
    held_on_every_step(page, "SharedState", len(trace.steps))
