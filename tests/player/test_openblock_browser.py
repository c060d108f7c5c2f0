"""The picture of a block that is being filled behind a causal text: it holds on every step and in every panel, and says
what the record says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

import engines
from engines.core.trace import Trace
from tests.player.pictures import PANELS, held_on_every_step

Open = Callable[..., Any]


@pytest.fixture(scope="module")
def trace() -> Trace:
    return engines.run("nemotron-diffusion", "tiny-two-way", "add: 457 + 86", params={"max_new_tokens": 32})


@pytest.mark.parametrize("options", PANELS, ids=str)
def test_it_holds_on_every_step(opened: Open, trace: Trace, options: dict[str, Any]) -> None:
    held_on_every_step(opened([trace], folded=True, **options).page, "OpenBlock", len(trace.steps))


def test_it_says_what_the_record_says(opened: Open, trace: Trace) -> None:
    page = opened([trace], folded=True).page
    view, drawn = page.locator('[data-view="OpenBlock"]'), 0
    for t, step in enumerate(trace.steps, 1):
        page.evaluate("t => handles[0].seek(t)", t)
        block = step.records.get("openblock")
        if not block:
            expect(view.locator(".dx-readout")).to_have_text("No block is open: the text is read.")
            continue
        masks = block["tokens"].count(block["mask"])
        said = f"{len(block['written'])} written in this pass, {masks} masks left."
        if not block["written"]:
            assert masks == 0
            said = f"The full block of {len(block['tokens'])} is read once more, and kept."
        expect(view.locator(".dx-readout")).to_contain_text(said)
        expect(view.locator("svg g[data-s=masked] > rect[rx='6']").locator("visible=true")).to_have_count(masks)
        drawn += 1
    assert drawn > 1
