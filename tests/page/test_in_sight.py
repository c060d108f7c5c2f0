"""What has to be in sight is: on a phone and on a laptop; and what would give an answer away is not, before it is
due."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.page.test_chips import chip, shipped

__all__ = ["shipped"]
PHONE = {"width": 390, "height": 844}


def test_the_tour_on_a_phone_frames_cells_of_the_board_and_its_sums_can_be_followed(shipped, visit):
    screen = visit("?gallery=40-threshold-names,41-credit-names", at=shipped, viewport=PHONE, reduced_motion="reduce")
    expect(screen.player(0).locator("h2 > span")).to_have_text("Fast-dLLM threshold")
    screen.wait(0, "ready")
    screen.page.get_by_role("button", name="Start the tour").click()
    box, inside = screen.page.locator(".tour-box"), []
    expect(box).to_contain_text("48 boxes")
    for _ in range(3):
        board = screen.player(0).locator(".dx-board").bounding_box()
        for mark in screen.page.locator(".tour-marks i").all():
            at = mark.bounding_box()
            inside.append(board["y"] - 2 <= at["y"] and at["y"] + at["height"] <= board["y"] + board["height"] + 2)
        if "Guesses" in box.inner_text():
            all_, left = 48, re.search(r"wrote (\d+) tokens? and (\d+) end marks, and (\d+) boxes", box.inner_text())
            assert left and sum(map(int, left.groups())) == all_
        screen.page.locator(".tour-next").click()
    assert inside and all(inside)


def test_on_a_phone_the_slider_is_long_and_the_open_sheet_leaves_the_board_in_sight(shipped, visit):
    screen = visit(at=shipped, folded=True, viewport=PHONE, reduced_motion="reduce")
    assert screen.page.get_by_label("Place in the run").bounding_box()["width"] >= 100
    screen.player(0).locator(".dx-board").scroll_into_view_if_needed()
    screen.sheet()
    sheet = screen.page.locator("#controls").bounding_box()
    assert sheet["y"] >= 0.35 * PHONE["height"]
    assert screen.page.locator("#prompt").bounding_box()["height"] > 60, "nothing in it is squeezed"


@pytest.mark.parametrize("lesson", ["Medusa", "Lean Attention", "CreditDecoding"])
def test_the_note_of_a_lessons_stop_is_in_the_first_screen(shipped, visit, lesson):
    screen = visit(at=shipped, folded=True, viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    screen.tab("Learn")
    screen.page.locator(".learn-list").get_by_role("button", name=re.compile(f"^{lesson}")).click()
    note = screen.page.locator(".learn-say")
    expect(note).not_to_be_empty()
    screen.page.evaluate("scrollTo(0, 0)")
    assert note.evaluate("(node) => node.getBoundingClientRect().bottom") <= 900


def test_hindsight_and_the_list_of_positions_to_fork_tell_nothing_before_the_end_was_seen(visit):
    screen = visit()
    hindsight = screen.player(0).locator('[data-view="Hindsight"]')
    expect(screen.player(0).locator(".dx-details")).to_have_attribute("open", "")
    expect(hindsight).to_be_hidden()
    screen.player(0).press("f")
    places = screen.player(0).locator(".dx-place-list option")
    expect(places.first).to_be_attached()
    assert not [text for text in places.all_inner_texts() if "later" in text]
    screen.player(0).press("End")
    expect(hindsight).to_be_visible()


def test_the_clock_of_work_counts_where_two_models_write_one_text(shipped, visit):
    screen = visit(at=shipped, folded=True, viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    page = screen.page
    screen.everything()
    chip(page, "Two models, one text")
    page.get_by_role("button", name="Work", exact=True).click()
    page.locator("#panel-0 .dx-panel").press("End")
    expect(page.locator("#toolbar .dx-place")).to_have_text(re.compile(r"^(\d+) / \1$"))


def test_an_end_mark_has_one_name(shipped, visit):
    page = visit(at=shipped, folded=True, viewport={"width": 1440, "height": 900}, reduced_motion="reduce").page
    chip(page, "Steady guesses sooner")
    page.keyboard.press("End")
    credit = page.locator("#panel-1 [data-idea]")
    expect(credit).to_contain_text("end")
    expect(credit).not_to_contain_text("<eos>")
