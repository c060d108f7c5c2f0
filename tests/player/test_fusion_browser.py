"""The view of tokens and states in one guess: the bracket stands over a run of tokens, what the encoder looks at adds
up, another window shows what was recorded for it, and gaps in the record are drawn as what they are."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from playwright.sync_api import expect

import engines
from engines.core.trace import Trace

Open = Callable[..., Any]
WORDS = """() => { const shown = (node) => !node.closest('[style*="display: none"]') && node.textContent;
  return [...document.querySelectorAll(".dx-tower text")].filter(shown).map((text) => text.textContent); }"""
LOOKS = """() => [...document.querySelectorAll(".dx-tower circle")].map((circle) => circle.parentNode)
  .filter((group) => group.style.display !== "none").map((group) => group.querySelector("title").textContent)"""


@pytest.fixture(scope="module")
def story() -> Trace:
    return engines.run("chimera", "tiny-ar-l", "story: Carl, door, map", params={"max_new_tokens": 40})


def test_the_shares_of_attention_add_up_at_each_place_of_the_bracket(opened: Open, story: Trace) -> None:
    page = opened([story], folded=True).page
    view = page.locator('[data-view="Fusion"]')
    page.evaluate("handles[0].seek(8)")
    buttons = view.get_by_role("group", name="Place of the bracket").get_by_role("button")
    expect(buttons).to_have_count(3)
    for place in range(3):
        buttons.nth(place).click()
        shares = page.evaluate(LOOKS)
        assert sum("predicted" in share for share in shares) == place + 1
        percents = [int(share) for text in shares for share in re.findall(r": (\d+) %", text)]
        assert abs(sum(percents) - 100) <= len(shares)


def test_another_window_shows_what_was_recorded_for_it(opened: Open, story: Trace) -> None:
    page = opened([story], folded=True).page
    view = page.locator('[data-view="Fusion"]')
    page.evaluate("handles[0].seek(8)")
    record, tree = story.steps[7].records["fusing"], story.steps[7].tree
    path = [row for row in record["rows"] if tree.accepted[row]]
    for window in (1, 2):
        view.locator("input[type=range]").fill(str(window))
        rankings = [record["readings"][window - 1]["rankings"][record["rows"].index(row)] for row in path]
        right = sum(
            ranking["tokens"][0] == token for ranking, token in zip(rankings, tree.emitted[: len(path)], strict=True)
        )
        expect(view.locator("[aria-live]")).to_have_text(
            f"derived: first choice right at {right} of {len(path)} places"
        )
        percents = [f"{int(100 * ranking['chances'][0] + 0.5)} %" for ranking in rankings]
        assert set(percents) <= set(page.evaluate(WORDS))
        assert not any(word.startswith("cos") for word in page.evaluate(WORDS))
    view.get_by_role("button", name="as recorded").click()
    assert any(word.startswith("cos") for word in page.evaluate(WORDS))


def test_a_step_without_a_record_says_so_and_a_short_text_has_no_places_before_it(opened: Open, story: Trace) -> None:
    steps = [replace(step, records={} if i == 4 else step.records) for i, step in enumerate(story.steps)]
    page = opened([replace(story, steps=steps)], folded=True).page
    view = page.locator('[data-view="Fusion"]')
    page.evaluate("handles[0].seek(5)")
    expect(view.locator(".dx-readout")).to_have_text("No draft was made in this step.")
    expect(view.locator("svg.dx-tower")).to_be_hidden()
    page.evaluate("handles[0].seek(6)")
    assert any(word.startswith("+") for word in page.evaluate(WORDS))
    short = engines.run("chimera", "tiny-ar-m", "read", params={"max_new_tokens": 3, "K": 1})
    page = opened([short], folded=True).page
    page.evaluate("handles[0].seek(2)")
    assert not any(word.startswith("+") for word in page.evaluate(WORDS))
