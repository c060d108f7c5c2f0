"""What has to be in sight is: on a phone and on a laptop; and what would give an answer away is not, before it is
due."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.page.conftest import PHONE

FRAMED = """() => {
  const board = document.querySelector("#panel-0 .dx-board").getBoundingClientRect();
  const marks = [...document.querySelectorAll(".tour-marks i")].map((mark) => mark.getBoundingClientRect());
  return marks.length && marks.every((at) => board.top - 2 <= at.top && at.bottom <= board.bottom + 2); }"""


def test_the_tour_on_a_phone_frames_cells_of_the_board_and_its_sums_can_be_followed(shipped, visit):
    screen = visit("?gallery=40-threshold-names,41-credit-names", at=shipped, viewport=PHONE, reduced_motion="reduce")
    expect(screen.player(0).locator("h2 > span")).to_have_text("Fast-dLLM threshold")
    screen.wait(0, "ready")
    screen.page.get_by_role("button", name="Start the tour").click()
    box = screen.page.locator(".tour-box")
    expect(box).to_contain_text("48 boxes")
    for title in ("The board", "Guesses", "Yellow"):
        expect(box.locator("h2")).to_have_text(title)
        screen.until(FRAMED)
        if title == "Guesses":
            left = re.compile(r"wrote (\d+) tokens? and (\d+) end marks, and (\d+) boxes")
            expect(box).to_contain_text(left)
            assert sum(map(int, left.search(box.inner_text()).groups())) == 48
        screen.page.locator(".tour-next").click()


def test_hindsight_and_the_list_of_positions_to_fork_tell_nothing_before_the_end_was_seen(visit):
    screen = visit()
    hindsight = screen.player(0).locator('[data-view="Hindsight"]')
    expect(screen.player(0).locator(".dx-details")).to_have_attribute("open", "")
    expect(hindsight).to_be_hidden()
    screen.player(0).press("f")
    places = screen.player(0).locator(".dx-place-list option")
    expect(places.first).to_be_attached()
    expect(places.filter(has_text="later")).to_have_count(0)
    screen.player(0).press("End")
    expect(hindsight).to_be_visible()
