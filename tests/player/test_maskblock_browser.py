"""The picture of a block of masks: it holds on every step and for blocks of any length, says what the record says, and
cuts the block where the model parted from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec import structs
from playwright.sync_api import expect

import engines
from engines.core.trace import Trace
from engines.models.drafters import load_drafter, with_drafter
from tests.engines.conftest import GOLDEN
from tests.player.pictures import PANELS, held_on_every_step

Open = Callable[..., Any]
PROMPT = "add: 4827 + 3169"


@pytest.fixture(scope="module")
def trace() -> Trace:
    return engines.run("dflash", "tiny-ar-l", PROMPT, params={"max_new_tokens": 64})


@pytest.mark.parametrize("options", PANELS, ids=str)
def test_it_holds_on_every_step(opened: Open, trace: Trace, options: dict[str, Any]) -> None:
    held_on_every_step(opened([trace], folded=True, **options).page, "MaskBlock", len(trace.steps))


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("block", [2, 20])
def test_blocks_of_any_length(opened: Open, width: int, block: int) -> None:
    trace = engines.run("dflash", "tiny-ar-l", PROMPT, params={"max_new_tokens": 32, "block": block})
    page = opened([trace], folded=True, viewport={"width": width, "height": 800}).page
    held_on_every_step(page, "MaskBlock", len(trace.steps))


def test_a_published_checkpoint(opened: Open) -> None:
    folder = GOLDEN / "drafters" / "dflash"
    target = engines.load_model(folder / "verifier", dtype="float32")
    model = with_drafter(target, load_drafter(folder / "drafter", target))
    trace = engines.run("dflash", model, [44, 12, 45, 27, 5, 50], params={"max_new_tokens": 16})
    view = held_on_every_step(opened([trace], folded=True).page, "MaskBlock", len(trace.steps))
    told = trace.steps[1].records["maskblock"]
    view.page.evaluate("handles[0].seek(2)")
    says = f"{', '.join(map(str, told['layers']))} of {told['depth']}"
    expect(view.locator("text", has_text=says).first).to_be_visible()
    expect(view.locator(".dx-warm[rx='3']:visible")).to_have_count(len(told["layers"]))


def test_it_says_what_the_record_says(opened: Open, trace: Trace) -> None:
    page = opened([trace], folded=True).page
    view, cut = page.locator('[data-view="MaskBlock"]'), 0
    for t, step in enumerate(trace.steps, 1):
        told = step.records.get("maskblock", {})
        page.evaluate("t => handles[0].seek(t)", t)
        if not told.get("tokens"):
            expect(view.locator(".dx-readout")).to_have_text("No block was filled in this step.")
            continue
        k, accepted = len(told["tokens"]), int(step.facts["accepted"])
        expect(view.locator(".dx-readout")).to_contain_text(f"fills {k} masks after")
        expect(view.locator(".dx-readout")).to_contain_text(f"{accepted} accepted")
        expect(view.locator("text", has_text=f"context: {told['context']} rows")).to_be_visible()
        refused = int("mismatch" in step.tree.why)  # none behind an accepted end mark
        expect(view.locator("path.dx-cut:not([style*=none])")).to_have_count(refused)
        cut += refused
        shown = view.locator("[data-s=accepted] > rect[rx='3']:visible")  # their bars
        expect(shown).to_have_count(accepted)
    assert cut


@pytest.mark.parametrize("width", [1024, 640, 390])
def test_words_of_any_direction_and_length_stay_in_the_drawing(opened: Open, trace: Trace, width: int) -> None:
    odd = ["\u202eright to left", "\u05e9\u05dc\u05d5\u05dd", "w" * 80, "\U0001f468\u200d\U0001f467", "\n"]
    pieces = [structs.replace(piece, text=odd[i % 5]) for i, piece in enumerate(trace.pieces)]
    page = opened([structs.replace(trace, pieces=pieces)], folded=True, viewport={"width": width, "height": 800}).page
    held_on_every_step(page, "MaskBlock", len(trace.steps))
