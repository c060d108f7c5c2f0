"""Predict mode as a person uses it (predict.test.mjs has what is asked and how an answer is scored)."""

import re
from collections.abc import Callable
from typing import Any

from playwright.sync_api import expect

from tests.player.handmade import drafting, masked
from tests.player.pictures import rests

Call = Callable[..., Any]


def guess(cells: Any, position: int, guesses: Any, count: int) -> None:
    """Clicks a cell until so many guesses stand: on a busy machine a click may be aimed before what is hidden beside
    the board has moved it."""
    for _ in range(3):
        rests(cells.first)
        cells.nth(position).click()
        try:
            expect(guesses).to_have_count(count, timeout=3000)
            return
        except AssertionError:
            continue
    expect(guesses).to_have_count(count)


def test_a_person_predicts_positions_by_mouse_and_by_keyboard(opened: Call) -> None:
    trace = masked(24, 4)
    page = opened([trace])
    view, lens = page.page.locator("[data-view=Predict]"), page.page.locator("[data-view=Hindsight]")
    board, cells = page.page.locator(".dx-board"), page.page.locator(".dx-cells .dx-cell")
    predict, said = view.get_by_role("button", name="Predict"), view.get_by_role("status")
    predict.click()
    expect(lens).to_be_hidden()
    expect(view).to_contain_text("12 positions open")
    right = trace.steps[0].commits.positions
    wrong = next(p for p in range(12, 24) if p not in right)
    guesses = page.page.locator('.dx-marks [data-m="guess"]:visible')
    for position, count in ((right[0], 1), (wrong, 2), (3, 2), (wrong, 1)):  # a token of the prompt is no answer
        guess(cells, position, guesses, count)
    page.page.mouse.move(2, 2)
    page.page.keyboard.press("Escape")
    board.focus()
    page.page.keyboard.press("Escape")
    while "dx-picked" not in (cells.nth(wrong).get_attribute("class") or ""):
        page.page.keyboard.press("ArrowDown")
    page.page.keyboard.press("Enter")
    expect(guesses).to_have_count(2)
    view.get_by_role("button", name="Reveal (2 positions)").press("Enter")
    page.stands(1)
    marks = {"hit": ["✓"], "miss": ["✗"], "overlooked": ["+"] * (len(right) - 1)}
    for kind, signs in marks.items():
        expect(page.page.locator(f'.dx-marks [data-m="{kind}"]:visible')).to_have_text(signs)
    expect(said).to_contain_text(f"Step 1: 1 of 2 right, 1 not written, {len(right) - 1} position")
    expect(said).to_contain_text("So far 1 of 2 right (50 %)")
    expect(said).not_to_contain_text("Baseline")
    for count, place in enumerate(trace.steps[1].commits.positions, 1):
        guess(cells, place, guesses, count)
    view.get_by_role("button", name="Reveal").click()
    n = len(trace.steps[1].commits.positions)
    expect(said).to_contain_text(f"So far {1 + n} of {2 + n} right")
    expect(said).to_contain_text("most confident of one step before")
    page.page.evaluate("handles[0].seek(1)")
    cells.nth(trace.steps[2].commits.positions[0]).click()
    view.get_by_role("button", name="Reveal").click()
    expect(said).to_contain_text(f"So far {1 + n} of {2 + n} right")  # a step that was seen is not scored again
    predict.click()
    expect(page.page.locator(".dx-marks b:visible")).to_have_count(0)
    expect(lens).to_be_visible()


def test_the_race_does_not_tell_what_is_predicted(opened: Call) -> None:
    """While a person predicts, its tracks and the player's end at the clock: what is written next is not seen."""
    page = opened([masked(24, 4), masked(24, 3)]).page
    page.evaluate("handles[0].group.seek(1)")
    ends, veil = page.locator(".dx-track > i"), page.locator(".dx-track > .dx-veil").first
    expect(ends).to_have_count(2)
    expect(ends.first).to_have_css("visibility", "visible")
    expect(page.locator(".dx-lane .dx-count").first).to_have_text(re.compile(r"^\d+ tokens?$"))
    button = page.locator("[data-view=Predict]").first.get_by_role("button", name="Predict")
    button.press("Enter")
    expect(button).to_have_attribute("aria-pressed", "true")
    expect(ends.first).to_have_css("visibility", "hidden")
    expect(veil).to_have_css("opacity", "1")
    expect(page.locator("[data-view=Blocks] .dx-veil").first).to_have_css("opacity", "1")
    button.press("Enter")
    expect(button).to_have_attribute("aria-pressed", "false")
    expect(ends.first).to_have_css("visibility", "visible")
    expect(veil).to_have_css("opacity", "0.7")


def test_a_person_predicts_how_many_drafts_are_accepted(opened: Call) -> None:
    page = opened([drafting()])
    view = page.page.locator("[data-view=Predict]")
    said = view.get_by_role("status")
    view.get_by_role("button", name="Predict").click()
    expect(view).to_contain_text("A draft of 9 tokens, up to 4 deep")
    view.get_by_role("button", name="2", exact=True).click()
    expect(said).to_contain_text("Step 1: off by 2 (you said 2)")
    view.get_by_role("button", name="1", exact=True).press("Enter")
    expect(said).to_contain_text("Step 2: right (you said 1). So far 1 of 2 right (50 %). Blind chance: 0.400.")
    expect(said).to_contain_text("“as many as last time”: 0 of 1, where you have 1.")
    page.page.evaluate("handles[0].seek(4)")
    expect(view).to_contain_text("Nothing can be asked before this step")
