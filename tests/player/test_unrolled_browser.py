"""The view of a layer that is run k times: what each run read and said, where the chain broke, and what was written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

import engines
from engines.core.trace import Trace
from tests.player.pictures import PANELS, held_on_every_step

Open = Callable[..., Any]
Call = Callable[..., Any]
PROMPT = "add: 4827 + 3169"


@pytest.fixture(scope="module", params=[3, 7])
def run(request: pytest.FixtureRequest) -> Trace:
    return engines.run("mtp", "tiny-ar-l", PROMPT, params={"max_new_tokens": 24, "k": request.param})


def test_a_chain_breaks_at_the_first_draft_that_was_refused(js: Call) -> None:
    for accepted, said in (
        ([True, True, True], {"kept": 2, "at": 0}),
        ([True, True, False], {"kept": 1, "at": 2}),
        ([True, False, False], {"kept": 0, "at": 1}),
    ):
        tree = {"tokens": [1, 2, 3], "accepted": accepted}
        assert js("views/unrolled.js", "M.broke(tree)", tree=tree) == said


@pytest.mark.parametrize("panel", PANELS)
def test_it_is_drawn_on_every_step_with_no_text_outside(opened: Open, run: Trace, panel: dict[str, Any]) -> None:
    held_on_every_step(opened([run], folded=True, **panel).page, "Unrolled", len(run.steps))


def test_it_draws_what_was_recorded(opened: Open, run: Trace) -> None:
    page = opened([run], folded=True).page
    view = page.locator('[data-view="Unrolled"]')
    k = run.header.params["k"]
    for t, step in enumerate(run.steps, 1):
        if not step.facts["drafted"]:
            continue
        page.evaluate("t => handles[0].seek(t)", t)
        m, kept = int(step.facts["drafted"]), int(step.facts["accepted"])
        expect(view.locator(".dx-readout")).to_contain_text(f"run {m} times" if m > 1 else "run 1 times")
        expect(view.get_by_text("✕ chain broke here").filter(visible=True)).to_have_count(int(kept < m))
        expect(view.locator("g[data-source=layer] > rect:visible")).to_have_count(m)
        told = view.locator("g[data-s=accepted]:visible")
        expect(told).to_have_count(2 * kept + min(kept, m - 1))  # said, written, and read by the next run
        assert m <= k
