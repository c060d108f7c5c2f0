"""What a visitor sees of four runs at once: on a laptop and on a phone the players stay in sight."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

import engines
from tests.page.conftest import LAPTOP, PHONE, PROMPT, first_model, methods_of

IN_SIGHT = """() => { const box = document.querySelector('#panel-0 .dx-panel').getBoundingClientRect();
  return box.top >= 0 && box.top < innerHeight * 0.6; }"""
TOPS = "[...document.querySelectorAll('#players .dx-board')].map((b) => Math.round(b.getBoundingClientRect().top))"
TWO_BY_TWO = f"() => {{ const at = {TOPS}; return at[0] === at[1] && at[2] === at[3] && at[0] < at[2]; }}"
BELOW_EACH_OTHER = f"() => {{ const at = {TOPS}; return at.every((top, i) => !i || top >= at[i - 1]); }}"
ONE_SCREEN = """() => {
  const box = (slot) => document.querySelector(`#panel-${slot} .dx-panel`).getBoundingClientRect();
  return box(0).top >= 60 && box(3).bottom <= 900; }"""
HIGH = "document.querySelector('#toolbar').getBoundingClientRect().height"
LAST_BELOW = "document.querySelector('#panel-3 .dx-panel').getBoundingClientRect().bottom + scrollY"
OVER_NO_LANE = """() => {
  const of = (part) => [...document.querySelectorAll(`#toolbar ${part}`)].at(-1).getBoundingClientRect();
  return of('.dx-race [role=status]').top >= of('.dx-lane').bottom - 1; }"""
UNCUT = """() => { const facts = document.querySelector('#results .facts'), room = facts.getBoundingClientRect();
  const heads = [...facts.querySelectorAll('thead th')], last = heads.at(-1).getBoundingClientRect();
  return [facts, ...heads].every((node) => node.scrollWidth <= node.clientWidth)
    && last.right <= room.right + 1 && last.width >= 120; }"""


def lossless_pair() -> tuple[str, str]:
    """A method that drafts with one causal model and claims the text of its control, behind that control."""
    known = {info.slug: info for info in engines.list_methods()}
    for slug in methods_of("causal"):
        if known[slug].lossless and known[slug].baseline in known:
            return str(known[slug].baseline), slug
    raise LookupError("no lossless method")


def test_four_finished_runs_and_the_bar_fit_in_one_screen_and_on_a_laptop_two_stand_side_by_side(visit):
    screen = visit(viewport=LAPTOP)
    page, race = screen.page, screen.page.locator("#toolbar .dx-race")
    screen.slots(4)
    expect(page.locator("#method-3")).to_be_visible()
    screen.prompt(PROMPT)
    screen.run(3)
    screen.says("Done: 4 runs")  # then every player has its line on how it differs from the first
    below = page.evaluate(LAST_BELOW)
    page.evaluate("() => scrollBy(0, document.querySelector('#players').getBoundingClientRect().top - 70)")
    screen.until("document.querySelector('#toolbar').getBoundingClientRect().top < 8")
    expect(race).to_be_hidden()
    screen.until(f"{HIGH} <= 64")  # one row
    screen.until(ONE_SCREEN)
    screen.until(f"(below) => Math.abs({LAST_BELOW} - below) < 1", below)  # what is read does not move meanwhile
    page.evaluate("scrollTo(0, 0)")
    expect(race).to_be_visible()

    page.set_viewport_size({"width": 1280, "height": 800})
    page.get_by_label("Freeze at").fill("2")
    screen.press("Freeze")
    expect(page.locator("#toolbar .dx-standing tbody tr")).to_have_count(4)
    screen.until(BELOW_EACH_OTHER)  # in compact form
    screen.until(OVER_NO_LANE)
    screen.press("Compact")
    screen.until(TWO_BY_TWO)
    expect(page.locator("#toolbar .more")).to_be_hidden()
    fold = page.get_by_role("button", name="Race", exact=True)
    fold.click()
    expect(fold).to_have_attribute("aria-expanded", "false")
    expect(page.get_by_label("Freeze at")).to_be_hidden()
    fold.press("Enter")
    expect(page.get_by_label("Freeze at")).to_be_visible()


@pytest.mark.pages
def test_a_recording_from_far_down_in_the_gallery_is_seen_from_its_top(visit):
    screen = visit(viewport={"width": 1280, "height": 800}, reduced_motion="reduce")
    begins = screen.page.locator("#panel-0 .dx-panel").evaluate("(node) => node.getBoundingClientRect().top + scrollY")
    screen.tab("Gallery")
    last = screen.page.get_by_role("button", name=re.compile("^Play: ")).last
    last.evaluate("(node) => { node.closest('[role=tabpanel]').style.paddingTop = '1500px'; }")  # a longer gallery
    last.scroll_into_view_if_needed()
    screen.until("(begins) => scrollY > begins", begins)  # if the page stayed there, the player would be out of sight
    last.click()
    screen.until(IN_SIGHT)


def test_on_a_phone_the_board_comes_first_and_one_run_is_shown_at_a_time(visit, until_stopped):
    screen = visit(viewport=PHONE, reduced_motion="reduce", folded=True)
    page, prompt = screen.page, screen.page.locator("#prompt textarea")
    screen.until("document.querySelector('#panel-0 .dx-board').getBoundingClientRect().top <= 420")
    screen.until(f"{HIGH} <= 140")
    expect(page.get_by_label("Freeze at")).to_be_hidden()
    for shown in (1, 0):
        page.locator(".switcher button").nth(shown).click()
        expect(screen.player(shown)).to_be_visible()
        expect(screen.player(1 - shown)).to_be_hidden()
    expect(prompt).to_be_hidden()
    screen.sheet()
    expect(prompt).to_be_visible()
    prompt.press("Escape")
    expect(prompt).to_be_hidden()
    expect(page.get_by_role("button", name="Prompt and methods")).to_be_focused()
    screen.press("Run")
    screen.wait(0, "live")
    screen.until(IN_SIGHT)
    screen.until(
        "() => { scrollTo(0, 300); return document.querySelector('#toolbar').getBoundingClientRect().top < 10; }"
    )
    screen.until(f"{HIGH} <= 64")
    bar, more = page.locator("#toolbar .dx-toolbar"), page.locator("#toolbar .more")
    expect(bar).to_have_attribute("data-stuck", "")
    unfold = "(button) => { button.click(); return button.closest('.dx-toolbar').hasAttribute('data-stuck'); }"
    assert not more.evaluate(unfold), "at once, also where nothing is scrolled any more"
    screen.press("Race")
    expect(page.get_by_label("Freeze at")).to_be_visible()
    screen.until("getComputedStyle(document.querySelector('#toolbar')).position === 'static'")
    screen.until("document.documentElement.scrollWidth <= 390")
    screen.press("Stop")
    screen.wait(0, "stopped")


@pytest.mark.pages
def test_the_verdict_column_is_not_cut_off(visit, monkeypatch):
    # Beside other tests the machine may well be too busy to tell a speed, and the longest cell is wanted here.
    monkeypatch.setattr("explorer.page.against.too_busy", lambda trace, control: False)
    screen = visit(viewport=LAPTOP)
    screen.prompt(PROMPT)
    for slot, slug in enumerate(lossless_pair()):
        screen.method(slot, slug)
        screen.model(slot, first_model("causal"))
    screen.run(1)
    screen.says("Done: 2 runs")
    facts = screen.page.locator("#results .facts")
    expect(facts.locator("thead th").last).to_have_text("Against its control")
    for width in (1440, 1920):
        screen.page.set_viewport_size({"width": width, "height": 900})
        screen.until(UNCUT)
    last = facts.locator("tbody tr").nth(1).locator("td").last
    expect(last).to_contain_text("Tokens per second of the whole run")
    last.get_by_role("button", name=re.compile("whole run")).click()
    expect(screen.page.get_by_role("dialog")).to_contain_text("the first ÷ the second")
