"""The picture of EAGLE-3: it holds on every step and for drafts of any depth, counts first guesses as the trace has
them, and marks what cannot be guessed."""

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
PROMPT = "python: class Box(pages: int, speed: int)"


@pytest.fixture(scope="module")
def trace() -> Trace:
    return engines.run("eagle3", "tiny-ar-l", PROMPT, params={"max_new_tokens": 64})


@pytest.mark.parametrize("options", PANELS, ids=str)
def test_it_holds_on_every_step(opened: Open, trace: Trace, options: dict[str, Any]) -> None:
    held_on_every_step(opened([trace], folded=True, **options).page, "Fused", len(trace.steps))


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("params", [{"depth": 7, "nodes": 40, "top_k": 6}, {"depth": 0}, {"top_k": 1, "depth": 7}])
def test_drafts_of_any_depth(opened: Open, width: int, params: dict[str, Any]) -> None:
    trace = engines.run("eagle3", "tiny-ar-l", PROMPT, params={"max_new_tokens": 24, **params})
    page = opened([trace], folded=True, viewport={"width": width, "height": 800}).page
    held_on_every_step(page, "Fused", len(trace.steps))


@pytest.mark.parametrize(
    ("folder", "drafter"), [("eagle3-speculators", "drafter-fcnorm"), ("eagle3-legacy", "drafter-fullvocab")]
)
def test_published_checkpoints(opened: Open, folder: str, drafter: str) -> None:
    trace = engines.run("eagle3", pair(folder, drafter), [15, 35, 30, 50, 41], params={"max_new_tokens": 16})
    view = held_on_every_step(opened([trace], folded=True).page, "Fused", len(trace.steps))
    reads, layers = (trace.steps[1].records["fused"][key] for key in ("reads", "layers"))
    told = f"the target's states after {', '.join(map(str, reads))} layers"
    page = view.page
    page.evaluate("handles[0].seek(2)")
    expect(view.locator(".dx-readout").first).to_contain_text(told)
    expect(view.locator("rect.dx-lift[rx='4']:not([height='24']):visible")).to_have_count(layers)


def test_first_guesses_are_counted_as_the_trace_has_them(js: Call, trace: Trace) -> None:
    steps = [
        {
            "fused": step.records.get("fused"),
            "tree": {key: getattr(step.tree, key) for key in ("parents", "tokens", "accepted", "emitted")},
        }
        for step in trace.steps
    ]
    wanted: list[list[int]] = []
    for step in trace.steps[1:]:
        row = 0
        for i, token in enumerate(step.tree.emitted):
            children = [child for child, parent in enumerate(step.tree.parents) if parent == row]
            if not children:
                break
            if len(wanted) == i:
                wanted.append([0, 0])
            best = max(children, key=lambda child: step.tree.values[child] or 0.0)
            wanted[i][0] += step.tree.tokens[best] == token
            wanted[i][1] += 1
            row = next((child for child in children if step.tree.accepted[child]), -1)
    assert js("views/guessable.js", "M.firstGuesses(steps)", steps=steps) == wanted
    assert sum(right for right, _ in wanted) > 5 and js("views/guessable.js", "M.firstGuesses([{}])") == []


def test_what_cannot_be_guessed_is_marked(opened: Open, trace: Trace) -> None:
    page = opened([trace], folded=True).page
    view, marked = page.locator('[data-view="Fused"]'), 0
    for t, step in enumerate(trace.steps, 1):
        outside = step.records.get("fused", {}).get("outside")
        page.evaluate("t => handles[0].seek(t)", t)
        says = view.locator("text", has_text="is not one of them").locator("visible=true")
        expect(says).to_have_count(1 if outside else 0)
        marked += bool(outside)
    assert marked


@pytest.mark.parametrize("width", [1024, 640, 390])
def test_words_of_any_direction_and_length_stay_in_the_drawing(opened: Open, width: int) -> None:
    trace = engines.run("eagle3", "tiny-ar-l", PROMPT, params={"max_new_tokens": 32})
    odd = ["\u202eright to left", "\u05e9\u05dc\u05d5\u05dd", "w" * 80, "\U0001f468\u200d\U0001f467", "\n"]
    trace.pieces = [structs.replace(piece, text=odd[i % 5]) for i, piece in enumerate(trace.pieces)]
    page = opened([trace], folded=True, viewport={"width": width, "height": 800}).page
    held_on_every_step(page, "Fused", len(trace.steps))
