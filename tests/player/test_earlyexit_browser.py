"""The view of two early exits: hops against η, one call for all rows, and an η that can be moved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

import engines
from engines.core.trace import Trace

Open = Callable[..., Any]


@pytest.fixture(scope="module")
def story() -> Trace:
    return engines.run("kangaroo", "tiny-ar-l", "story: Mia, boat", params={"max_new_tokens": 24})


@pytest.mark.parametrize("options", [{}, {"viewport": {"width": 390, "height": 800}}, {"color_scheme": "dark"}])
def test_each_draft_is_a_hop_and_the_verdict_stands_above(opened: Open, story: Trace, options: dict[str, Any]) -> None:
    page = opened([story], folded=True, **options).page
    view = page.locator('[data-view="EarlyExit"]')
    drawn = """(t) => { handles[0].seek(t);
      const shown = [...document.querySelectorAll(".dx-tower .dx-arc")].map((arc) => arc.parentNode);
      return shown.filter((g) => g.style.display !== "none").map((g) => [g.dataset.s, g.lastChild.textContent]); }"""
    for t, step in enumerate(story.steps, 1):
        exit_ = step.records["early_exit"]
        hops = page.evaluate(drawn, t)
        assert [int(text.removesuffix(" %")) for _, text in hops] == [
            int(100 * chance + 0.5) for chance in exit_["confidence"]
        ]
        assert [state for state, _ in hops] == [
            "rejected" if chance < exit_["eta"] else "accepted" for chance in exit_["confidence"]
        ]
        wrote = len(step.commits.tokens)
        said = f"{wrote} token{'s' if wrote > 1 else ''} from one model call."
        assert said in view.locator(".dx-readout").first.inner_text()


def test_a_moved_threshold_decides_again_on_what_was_recorded(opened: Open, story: Trace) -> None:
    page = opened([story], folded=True).page
    view = page.locator('[data-view="EarlyExit"]')
    t, step = max(enumerate(story.steps, 1), key=lambda one: len(one[1].records["early_exit"]["confidence"]))
    sure = step.records["early_exit"]["confidence"]
    page.evaluate("t => handles[0].seek(t)", t)
    slider, derived = view.locator("input[type=range]"), view.locator("[aria-live]")
    for eta in (0.0, 0.5, 0.99, 1.0):
        slider.fill(str(eta))
        n = next((i for i, chance in enumerate(sure, 1) if chance < eta), len(sure))
        expect(derived).to_contain_text(f"derived: {n} of {len(sure)} drafted token")
    view.get_by_role("button", name="as recorded").click()
    expect(derived).to_have_text("")
    expect(slider).to_have_value("0.6")


def test_before_the_first_step_and_on_a_step_without_drafts(opened: Open) -> None:
    trace = engines.run("kangaroo", "tiny-ar-l", "add: 4 + 8", params={"max_new_tokens": 2, "gamma": 0})
    page = opened([trace], folded=True).page
    view = page.locator('[data-view="EarlyExit"]')
    page.evaluate("handles[0].seek(0)")
    expect(view.locator(".dx-readout").first).to_have_text("Before the first step.")
    page.evaluate("handles[0].seek(1)")
    expect(view.locator(".dx-readout").first).to_have_text("0 drafted tokens. 0 accepted: 1 token from one model call.")
