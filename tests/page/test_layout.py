"""What a visitor sees of four runs at once: on a laptop and on a phone the players stay in sight."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.page.conftest import LAPTOP, PHONE, PROMPT

IN_SIGHT = """() => { const box = document.querySelector('#panel-0 .dx-panel').getBoundingClientRect();
  return box.top >= 0 && box.top < innerHeight * 0.6; }"""
TOPS = "[...document.querySelectorAll('#players .dx-board')].map((b) => Math.round(b.getBoundingClientRect().top))"
TWO_BY_TWO = f"() => {{ const at = {TOPS}; return at[0] === at[1] && at[2] === at[3] && at[0] < at[2]; }}"
ONE_SCREEN = """() => {
  const box = (slot) => document.querySelector(`#panel-${slot} .dx-panel`).getBoundingClientRect();
  return box(0).top >= 60 && box(3).bottom <= 900; }"""
HIGH = "document.querySelector('#toolbar').getBoundingClientRect().height"


def test_four_finished_runs_and_the_bar_fit_in_one_screen_and_on_a_laptop_two_stand_side_by_side(visit):
    screen = visit(viewport=LAPTOP)
    page, race = screen.page, screen.page.locator("#toolbar .dx-race")
    screen.slots(4)
    expect(page.locator("#method-3")).to_be_visible()
    screen.prompt(PROMPT)
    screen.run(3)
    screen.says("Done: 4 runs")  # then every player has its line on how it differs from the first
    page.evaluate("() => scrollBy(0, document.querySelector('#players').getBoundingClientRect().top - 70)")
    screen.until("document.querySelector('#toolbar').getBoundingClientRect().top < 8")
    expect(race).to_be_hidden()
    screen.until(f"{HIGH} <= 64")  # one row
    screen.until(ONE_SCREEN)
    page.evaluate("scrollTo(0, 0)")
    expect(race).to_be_visible()

    page.set_viewport_size({"width": 1280, "height": 800})
    page.get_by_label("Freeze at").fill("2")
    screen.press("Freeze")
    expect(page.locator("#toolbar .dx-standing tbody tr")).to_have_count(4)
    screen.press("Compact")
    screen.until(TWO_BY_TWO)
    fold = page.get_by_role("button", name="Race", exact=True)
    fold.click()
    expect(fold).to_have_attribute("aria-expanded", "false")
    expect(page.get_by_label("Freeze at")).to_be_hidden()


def test_on_a_phone_the_board_comes_first_and_one_run_is_shown_at_a_time(visit, until_stopped):
    screen = visit(viewport=PHONE, reduced_motion="reduce", folded=True)
    page, prompt = screen.page, screen.page.locator("#prompt textarea")
    screen.until("document.querySelector('#panel-0 .dx-board').getBoundingClientRect().top <= 420")
    screen.until(f"{HIGH} <= 140")
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
    screen.until("""() => { scrollTo(0, 300);
      return document.querySelector('#toolbar').getBoundingClientRect().top < 10; }""")
    screen.until(f"{HIGH} <= 64")
    page.locator("#toolbar .more").click()
    screen.press("Race")
    expect(page.get_by_label("Freeze at")).to_be_visible()
    screen.until("document.documentElement.scrollWidth <= 390")
    screen.press("Stop")
    screen.wait(0, "stopped")
