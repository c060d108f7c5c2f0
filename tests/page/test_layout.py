"""What a visitor sees on a phone: the board first, one run at a time, and the players stay in sight."""

from playwright.sync_api import expect

from tests.page.conftest import PHONE

IN_SIGHT = """() => { const box = document.querySelector('#panel-0 .dx-panel').getBoundingClientRect();
  return box.top >= 0 && box.top < innerHeight * 0.6; }"""
HIGH = "document.querySelector('#toolbar').getBoundingClientRect().height"


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
