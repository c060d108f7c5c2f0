"""Race and difference: the player's rules against Python's, and what is drawn of them."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from engines.core.trace import Commits, Piece, Trace
from tests.explorer.figures.standing import standing
from tests.player.handmade import drafting, masked
from tests.player.pictures import becomes, until

Call = Callable[..., Any]


def twins() -> tuple[Trace, Trace]:
    """Two runs on one prompt whose outputs part at the fourth token; the second takes one of its tokens back on the
    way."""
    a, b = masked(24, 4), masked(24, 8)
    for one in (a, b):
        one.header.prompt, one.header.models[0].tokenizer = "the same", "one"
    b.pieces = [*b.pieces, Piece(90, " <b>other</b>")]
    place, early = len(b.header.prompt_ids) + 3, b.steps[0].commits
    step = next(s for s in b.steps if place in s.commits.positions)
    step.commits.tokens[step.commits.positions.index(place)] = 90
    b.end.output_ids[3], b.end.text = 90, "other text"
    for at, token, cause in ((2, 0, "remasked"), (5, early.tokens[0], "top1")):
        old = b.steps[at].commits
        again = ([*old.positions, early.positions[0]], [*old.tokens, token], [*old.causes, cause])
        b.steps[at].commits = Commits(*again)
    return a, b


def test_the_place_where_outputs_part_is_marked_and_told(opened: Call) -> None:
    a, b = twins()
    page = opened([a, b]).page
    first, second = (page.locator(".dx-panel").nth(i) for i in (0, 1))
    line, mark = second.locator(".dx-differ"), second.locator(".dx-marks b:visible")
    theirs = next(p.text for p in a.pieces if p.id == a.output_ids[3]).replace(" ", "␣")
    page.evaluate("handles[1].seek(7)")
    expect(line).to_have_text("To be compared with player 1 once both were shown to their end. Show now")
    expect(mark).to_have_count(0)  # no word of the end is told before both players were there
    line.get_by_role("button").press("Enter")
    expect(line).to_have_text(f"Same text as player 1 up to token 3; then ‘␣<b>other</b>’ instead of ‘{theirs}’.")
    expect(mark).to_have_text("≠")
    expect(mark).to_have_attribute("data-position", "15")
    until(
        page,
        """() => { const panel = document.querySelectorAll(".dx-panel")[1],
          sign = panel.querySelector(".dx-marks b").getBoundingClientRect(),
          cell = panel.querySelectorAll(".dx-cells .dx-cell")[15].getBoundingClientRect();
          return Math.abs(sign.x + 8 - cell.right) < 12 && Math.abs(sign.y + 8 - cell.y) < 12; }""",
    )
    expect(second.locator(".dx-words .dx-differs")).to_have_text(" <b>other</b>")
    expect(first.locator(".dx-differs, .dx-marks b:visible, .dx-differ:visible")).to_have_count(0)
    page.evaluate("handles[0].clear()")
    expect(line).to_be_hidden()
    expect(mark).to_have_count(0)


def test_the_race_stands_on_one_axis_and_a_click_seeks(opened: Call) -> None:
    """On the clock of target calls the draft calls stand beside."""
    page = opened([masked(24, 4), drafting()])
    lanes, small = page.page.locator(".dx-lane:visible"), page.page.locator(".dx-lane:visible small")
    expect(small).to_have_text(["", ""])
    page.page.get_by_role("button", name="Model calls", exact=True).click()
    ends = "(nodes) => nodes.map((n) => parseFloat(n.style.left))"  # never stretched to one length
    becomes(lambda: lanes.locator("i").evaluate_all(ends), [pytest.approx(100 * 4 / 9, abs=0.01), 100])
    drafts = [step.forwards["draft"] for step in drafting().steps]
    expect(small).to_have_text(["", f"+ {sum(drafts)} draft calls"])
    drawn = lanes.nth(1).locator("path").nth(1)
    becomes(lambda: (drawn.get_attribute("d") or "").count("M"), sum(n > 0 for n in drafts))
    assert float(re.findall(r"H([\d.]+)V", drawn.get_attribute("d"))[-1]) == pytest.approx(9), "the target's axis"
    box = lanes.nth(0).locator(".dx-track").bounding_box()
    page.page.mouse.click(box["x"] + box["width"] * 4.5 / 9, box["y"] + 5)
    page.stands(4, 4)
    tokens = [page.page.evaluate(f"handles[{slot}].debug().sums.tokens") for slot in (0, 1)]
    expect(lanes.locator(".dx-count")).to_have_text(
        [re.compile(f"^{tokens[0]} .*■"), re.compile(f"^{tokens[1]} [^■]*$")]
    )
    page.page.mouse.move(box["x"] + 3, box["y"] + 5)
    page.page.mouse.down()
    page.page.mouse.move(box["x"] + box["width"] * 6.5 / 9, box["y"] + 5)
    page.page.mouse.up()
    page.stands(4, 6)


def test_freezing_at_a_budget_says_what_each_run_has_by_then(opened: Call) -> None:
    a, b = twins()
    page = opened([a, b, drafting()])
    field = page.page.get_by_label("Freeze at")
    page.page.get_by_label("Clock of the budget").select_option("forwards")
    field.fill("2")
    field.press("Enter")
    page.stands(2, 2, 2)
    rows = page.page.locator(".dx-standing tbody tr")
    for row, trace in zip(range(3), (a, b, drafting()), strict=True):
        here = standing(trace, 2)
        for cell, n in enumerate((here.tokens, here.revised, here.missing, here.forwards)):
            expect(rows.nth(row).locator("td").nth(cell)).to_have_text(re.compile(rf"^{n}\b"))
    expect(rows.nth(1).locator("td").nth(1)).to_have_text("1 (1 re-masked)")
    page.page.keyboard.press("Tab")
    page.page.locator(".dx-panel").first.press("ArrowRight")
    expect(rows.locator("td:nth-of-type(4)")).to_have_text(["3", "3", "3"])  # it follows the cursor while it is frozen
    field.fill("")
    field.press("Enter")
    expect(page.page.locator(".dx-race [role=status]")).to_have_text("Type a number of model calls from 0 to 9.")
    freeze = page.page.get_by_role("button", name="Freeze", exact=True)
    freeze.click()
    expect(page.page.locator(".dx-standing")).to_be_hidden()
    page.page.evaluate("handles[0].group.play()")
    field.fill("1")
    freeze.click()  # leaves the field, which must not freeze first so that the click would thaw again
    expect(freeze).to_have_attribute("aria-pressed", "true")
    page.stands(1, 1, 1)


def test_notes_side_by_side_are_of_one_height_and_can_be_read(opened: Call) -> None:
    a, b = twins()
    a.steps[2].note, b.steps[2].note = "The filter accepts 14 of 16 masks, and there is more to say. " * 6, "Short."
    page = opened([a, b]).page
    for step in (0, 8, 3):
        page.evaluate("(step) => handles[1].seek(step)", step)
        until(page, "() => new Set([...document.querySelectorAll('.dx-note')].map((n) => n.offsetHeight)).size === 1")
    whole = "(n) => { n.scrollTop = 1e4; return n.scrollTop > 0 && n.textContent.length > 300; }"
    assert page.locator(".dx-note").first.evaluate(whole), "all of it can be read"


def test_a_token_of_the_hindsight_goes_to_its_commit(opened: Call) -> None:
    trace = masked(24, 6)
    page = opened([trace])
    at = trace.steps[4].commits.positions[0]
    page.page.locator(f'[data-view=Hindsight] [role=listitem][aria-label^="position {at},"]').click()
    page.stands(5)
    page.page.locator(".dx-late").focus()
    for key in ("ArrowDown", "Enter"):
        page.page.keyboard.press(key)
    first = min(p for step in trace.steps for p in step.commits.positions)
    page.stands(next(s.index for s in trace.steps if first in s.commits.positions) + 1)
