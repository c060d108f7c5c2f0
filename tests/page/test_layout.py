"""What a visitor sees of four runs at once: on a laptop and on a phone the players stay in sight."""

from __future__ import annotations

import re

from playwright.sync_api import expect

import engines
from tests.page.conftest import PROMPT, first_model, methods_of

IN_SIGHT = "(node) => { const box = node.getBoundingClientRect(); return box.top >= 0 && box.top < innerHeight * 0.6; }"

TWO_BY_TWO = """() => {
  const at = [...document.querySelectorAll('#players .dx-board')].map((b) => Math.round(b.getBoundingClientRect().top));
  return at[0] === at[1] && at[2] === at[3] && at[0] < at[2];
}"""


def run_four(screen) -> None:
    screen.page.locator("#count").get_by_role("radio", name="4", exact=True).check()
    expect(screen.page.locator("#method-3")).to_be_visible()
    screen.prompt(PROMPT)
    screen.press("Run")


def lossless_pair() -> tuple[str, str]:
    """A method that drafts with one causal model and claims the text of its control, behind that control."""
    known = {info.slug: info for info in engines.list_methods()}
    for slug in methods_of("causal"):
        if known[slug].lossless and known[slug].baseline in known:
            return str(known[slug].baseline), slug
    raise LookupError("no lossless method")


def height(screen) -> float:
    return screen.page.locator("#toolbar").bounding_box()["height"]


def tops(screen) -> list[float]:
    return screen.page.locator("#players .dx-board").evaluate_all(
        "(boards) => boards.map((b) => Math.round(b.getBoundingClientRect().top))"
    )


def test_four_finished_runs_and_the_bar_fit_in_one_screen_and_on_a_laptop_two_stand_side_by_side(visit):
    screen = visit(viewport={"width": 1440, "height": 900})
    run_four(screen)
    screen.wait(3, "done")
    screen.says("Done: 4 runs")  # then every player has its line on how it differs from the first
    top = screen.page.locator("#players").evaluate("(node) => node.getBoundingClientRect().top + scrollY")
    below = screen.page.locator("#panel-3 .dx-panel").evaluate("(n) => n.getBoundingClientRect().bottom + scrollY")
    screen.page.evaluate("(top) => scrollTo(0, top - 70)", top)
    screen.page.wait_for_function("() => document.querySelector('#toolbar').getBoundingClientRect().top < 8")
    expect(screen.page.locator("#toolbar .dx-race")).to_be_hidden()
    assert height(screen) <= 64, "one row"
    first, last = (screen.page.locator(f"#panel-{slot} .dx-panel").bounding_box() for slot in (0, 3))
    assert first["y"] >= 60 and last["y"] + last["height"] <= 900
    now = screen.page.locator("#panel-3 .dx-panel").evaluate("(n) => n.getBoundingClientRect().bottom + scrollY")
    assert abs(now - below) < 1, "what is read does not move when the bar becomes one row"
    screen.page.evaluate("scrollTo(0, 0)")
    expect(screen.page.locator("#toolbar .dx-race")).to_be_visible()

    screen.page.set_viewport_size({"width": 1280, "height": 800})
    screen.page.get_by_label("Freeze at").fill("2")
    screen.press("Freeze")
    expect(screen.page.locator("#toolbar .dx-standing tbody tr")).to_have_count(4)
    assert tops(screen) == sorted(tops(screen)), "four stand one below the other, in compact form"
    status = screen.page.locator("#toolbar .dx-race [role=status]").bounding_box()
    lane = screen.page.locator("#toolbar .dx-lane").last.bounding_box()
    assert status["y"] >= lane["y"] + lane["height"] - 1, "the sentence lies over no lane"
    screen.page.get_by_role("button", name="Compact", exact=True).click()
    screen.page.wait_for_function(f"() => ({TWO_BY_TWO})()")
    at = tops(screen)
    assert at[0] == at[1] and at[2] == at[3] and at[0] < at[2]
    expect(screen.page.locator("#toolbar .more")).to_be_hidden()
    race = screen.page.get_by_role("button", name="Race", exact=True)
    race.click()
    expect(race).to_have_attribute("aria-expanded", "false")
    expect(screen.page.get_by_label("Freeze at")).to_be_hidden()
    race.press("Enter")
    expect(screen.page.get_by_label("Freeze at")).to_be_visible()


def test_a_recording_from_far_down_in_the_gallery_is_seen_from_its_top(visit):
    screen = visit(viewport={"width": 1280, "height": 800}, reduced_motion="reduce")
    begins = screen.page.locator("#panel-0 .dx-panel").evaluate("(node) => node.getBoundingClientRect().top + scrollY")
    screen.page.get_by_role("tab", name="Gallery").click()
    last = screen.page.get_by_role("button", name=re.compile("^Play: ")).last
    last.evaluate(
        "(node) => { node.closest('[role=tabpanel]').style.paddingTop = '1500px'; }"
    )  # a gallery longer than the tests'
    last.scroll_into_view_if_needed()
    assert (
        screen.page.evaluate("scrollY") > begins
    )  # where the page would stay, the top of the player would be out of sight
    last.click()
    screen.page.wait_for_function(f"({IN_SIGHT})(document.querySelector('#panel-0 .dx-panel'))")


def test_on_a_phone_the_board_comes_first_and_one_run_is_shown_at_a_time(visit, slowly):
    screen = visit(viewport={"width": 390, "height": 844}, reduced_motion="reduce", folded=True)
    board = screen.player(0).locator(".dx-board")
    assert board.bounding_box()["y"] <= 420, "the first written cell is in sight"
    assert height(screen) <= 140 and screen.page.get_by_label("Freeze at").is_hidden()
    expect(screen.player(1)).to_be_hidden()
    screen.page.locator(".switcher button").nth(1).click()
    expect(screen.player(1)).to_be_visible()
    expect(screen.player(0)).to_be_hidden()
    screen.page.locator(".switcher button").nth(0).click()
    prompt = screen.page.locator("#prompt textarea")
    expect(prompt).to_be_hidden()
    screen.sheet()
    expect(prompt).to_be_visible()
    prompt.press("Escape")
    expect(prompt).to_be_hidden()
    expect(screen.page.get_by_role("button", name="Prompt and methods")).to_be_focused()
    screen.press("Run")
    screen.wait(0, "live")
    screen.page.wait_for_function(f"({IN_SIGHT})(document.querySelector('#panel-0 .dx-panel'))")
    screen.page.wait_for_function(
        "() => { scrollTo(0, 300); return document.querySelector('#toolbar').getBoundingClientRect().top < 10; }"
    )
    assert screen.page.locator("#toolbar").bounding_box()["y"] >= 0
    screen.page.wait_for_function("() => document.querySelector('#toolbar').getBoundingClientRect().height <= 64")
    bar, more = screen.page.locator("#toolbar .dx-toolbar"), screen.page.locator("#toolbar .more")
    expect(bar).to_have_attribute("data-stuck", "")
    unfold = "(button) => { button.click(); return button.closest('.dx-toolbar').hasAttribute('data-stuck'); }"
    assert not more.evaluate(unfold), "at once, also where nothing is scrolled any more"
    screen.press("Race")
    expect(screen.page.get_by_label("Freeze at")).to_be_visible()
    assert screen.page.evaluate("getComputedStyle(document.querySelector('#toolbar')).position") == "static"
    assert screen.page.evaluate("document.documentElement.scrollWidth") <= 390
    screen.press("Stop")
    screen.wait(0, "stopped")


def test_the_verdict_column_is_not_cut_off(visit, monkeypatch):
    # Beside other tests the machine may well be too busy to tell a speed, and the longest cell is wanted here.
    monkeypatch.setattr("explorer.page.against.too_busy", lambda trace, control: False)
    screen = visit(viewport={"width": 1440, "height": 900})
    screen.prompt(PROMPT)
    screen.page.locator("#count").get_by_role("radio", name="2", exact=True).check()
    slow, fast = lossless_pair()
    for slot, slug in enumerate((slow, fast)):
        screen.method(slot, slug)
        screen.model(slot, first_model("causal"))
    screen.press("Run")
    screen.wait(1, "done")
    screen.says("Done: 2 runs")
    facts = screen.page.locator("#results .facts")
    last = facts.locator("thead th").last
    expect(last).to_have_text("Against its control")
    for width in (1440, 1920):
        screen.page.set_viewport_size({"width": width, "height": 900})
        assert facts.evaluate("(node) => node.scrollWidth <= node.clientWidth")
        box, room = last.bounding_box(), facts.bounding_box()
        assert box["x"] + box["width"] <= room["x"] + room["width"] + 1 and box["width"] >= 120
        for cell in facts.locator("thead th").all():
            assert cell.evaluate("(node) => node.scrollWidth <= node.clientWidth"), "no heading is cut"
    expect(facts.locator("tbody tr").nth(1).locator("td").last).to_contain_text("Tokens per second of the whole run")
    last = facts.locator("tbody tr").nth(1).locator("td").last
    last.get_by_role("button", name=re.compile("whole run")).click()
    expect(screen.page.get_by_role("dialog")).to_contain_text("the first ÷ the second")
