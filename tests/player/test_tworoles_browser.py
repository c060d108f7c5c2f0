"""The picture of one model in two roles: it holds on every step and for blocks of any length, says what the record
says, and parts the roles where they disagree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

import engines
from engines.core.trace import Trace
from tests.player.pictures import PANELS, held_on_every_step

Open = Callable[..., Any]
PROMPT = "add: 4827 + 3169"


@pytest.fixture(scope="module")
def trace() -> Trace:
    return engines.run("nemotron-self-speculation", "tiny-two-way", PROMPT, params={"max_new_tokens": 64})


@pytest.mark.parametrize("options", PANELS, ids=str)
def test_it_holds_on_every_step(opened: Open, trace: Trace, options: dict[str, Any]) -> None:
    held_on_every_step(opened([trace], folded=True, **options).page, "TwoRoles", len(trace.steps))


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("block", [2, 24])
def test_blocks_of_any_length(opened: Open, width: int, block: int) -> None:
    params = {"max_new_tokens": 32, "block_length": block, "threshold": 0.9}
    trace = engines.run("nemotron-self-speculation", "tiny-two-way", PROMPT, params=params)
    page = opened([trace], folded=True, viewport={"width": width, "height": 800}).page
    held_on_every_step(page, "TwoRoles", len(trace.steps))


def test_it_says_what_the_record_says(opened: Open, trace: Trace) -> None:
    page = opened([trace], folded=True).page
    view, parted = page.locator('[data-view="TwoRoles"]'), 0
    for t, step in enumerate(trace.steps, 1):
        told, tree = step.records["tworoles"], step.tree
        page.evaluate("t => handles[0].seek(t)", t)
        if t == 1:
            expect(view).to_contain_text("No block was filled in this step.")
            continue
        assert tree
        says = f"{told['accepted']} accepted, {len(tree.emitted)} token{'s' * (len(tree.emitted) != 1)} written."
        expect(view.locator(".dx-readout")).to_contain_text(says)
        expect(view.locator("[data-s=old]:visible")).to_have_count(1)  # the text's last token begins the block
        broke = "mismatch" in tree.why
        expect(view.locator(".dx-cut:not([style*=none])")).to_have_count(int(broke))
        expect(view.locator("[data-s=correction]:visible")).to_have_count(2 * broke)  # among the verdicts, and written
        parted += broke
    assert parted > 1
