"""A chip: the keyboard goes to the players, and the view that shows the idea stands in the first screen."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from explorer.runs.gallery import gallery
from explorer.runs.scenarios import scenarios
from tests.page.conftest import LAPTOP, PHONE
from tests.page.test_everybody import settle

TITLES = [one.title for one in scenarios([card.id for card in gallery().cards])]
STANDS = """() => { const all = [...document.querySelectorAll('#players .dx-panel [data-idea]')]
    .filter((node) => node.getClientRects().length).map((node) => node.getBoundingClientRect());
  const strips = document.querySelectorAll('#players [data-compact]').length > 1;
  const said = document.querySelector('#scene .scene-says').getBoundingClientRect();
  const players = [...document.querySelectorAll('#players .dx-panel')].filter((node) => node.getClientRects().length);
  if (strips) return players.every((node) => node.getBoundingClientRect().bottom <= innerHeight);
  return said.top >= 0 && all.length > 0
    && all.every(({ top, bottom }) => top >= said.bottom && top <= 560 && bottom <= innerHeight);
}"""  # below the voice of the scene, which stays in sight
LAST = "document.querySelector('#toolbar input[type=range]').max"


def chip(page, title: str) -> None:
    before = page.locator("#status .status").inner_text()
    wanted = page.locator("#scenarios").get_by_role("button", name=title, exact=True)
    expect(page.locator("#scene .scene")).to_be_visible()
    if not wanted.is_visible():
        page.get_by_role("button", name="More scenes", exact=True).click()
    wanted.click()
    expect(page.locator("#status .status")).not_to_have_text(before)
    expect(page.locator("#scenarios .scenario[data-now]")).to_have_text(title)


def still(visit, shipped, size=LAPTOP, **options):
    return visit(at=shipped, folded=True, viewport=size, reduced_motion="reduce", **options)


@pytest.mark.parametrize(
    "titles", [TITLES[-2:], pytest.param(TITLES[:-2], marks=pytest.mark.pages)], ids=["last two", "the others"]
)
def test_the_view_that_shows_the_idea_is_in_the_first_screen_and_space_plays(shipped, visit, titles):
    screen = still(visit, shipped)
    page = screen.page
    for title in titles:
        chip(page, title)
        page.wait_for_function(STANDS)
        expect(screen.player(0)).to_be_focused()
        for key in ["End", *["ArrowLeft"] * (int(page.evaluate(LAST)) // 2), "Home"]:
            page.keyboard.press(key)
        page.wait_for_function(STANDS)
        page.keyboard.press("End")
        page.wait_for_function(STANDS)
    page.keyboard.press("Home")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.keyboard.press(" ")
    expect(screen.player(0)).to_have_attribute("data-state", "done")
    assert not [url for url in asked if "queue" in url or "call" in url], "the chip was not pressed again"


@pytest.mark.pages
def test_the_draft_tree_stands_beside_its_control_in_a_narrow_window_and_made_smaller_shows_more(shipped, visit):
    """Side by side: below the other player it would begin at 900 pixels and more. At less than its size a picture has
    as much width as before, not less."""
    page = still(visit, shipped, {"width": 1050, "height": 900}).page
    chip(page, "See a draft tree")
    page.wait_for_function(STANDS)
    tops = page.locator("#players .dx-panel:visible").evaluate_all("(all) => all.map((node) => node.offsetTop)")
    assert len(tops) == 2 and tops[0] == tops[1]
    drawn = page.locator("#players [data-idea] .dx-content").last
    scale = drawn.evaluate("(node) => Number(node.style.zoom || 1)")
    widths = drawn.evaluate("(node) => [node, node.parentElement].map((box) => box.getBoundingClientRect().width)")
    assert scale < 1 and widths[0] >= 0.98 * widths[1]
    page.keyboard.press("End")
    expect(page.locator(".dx-tree")).to_be_visible()
    page.wait_for_function("() => document.querySelector('.dx-tree').getBoundingClientRect().top <= 560")


NOT_CLIPPED = """() => [...document.querySelectorAll('#players [data-idea] :is(.dx-content, .dx-scroll)')]
  .every((box) => !box.getClientRects().length || box.scrollHeight <= box.clientHeight + 1
    || getComputedStyle(box).overflowY === 'visible')"""


@pytest.mark.pages
@pytest.mark.parametrize("size", [{"width": 1280, "height": 720}, PHONE], ids=["laptop", "phone"])
def test_a_draft_tree_is_whole_in_its_picture_at_every_step(shipped, visit, size):
    screen = still(visit, shipped, size)
    page = screen.page
    if size == PHONE:
        screen.sheet()
    chip(page, "See a draft tree")
    if size == PHONE:
        page.get_by_role("button", name="A tree of guesses").click()
    expect(page.locator("#panel-1 [data-idea]")).to_be_visible()
    seen = 0
    for _ in range(45):
        page.keyboard.press("ArrowRight")
        page.wait_for_function(NOT_CLIPPED)
        seen = max(seen, page.locator("#panel-1 .dx-tree [data-row]").count())
    assert seen > 12, "a whole tree"


WHOLE = """(parts) => {
  const bar = document.querySelector('#toolbar .dx-toolbar').getBoundingClientRect().bottom;
  return [0, 1].every((slot) => parts.every((part) => {
    const box = document.querySelector(`#panel-${slot} ${part}`)?.getBoundingClientRect();
    return box && box.top >= bar - 1 && box.bottom <= innerHeight;
  }));
}"""


@pytest.mark.pages
def test_board_and_picture_of_a_scene_stand_in_the_window_together(shipped, visit):
    page = still(visit, shipped).page
    for title, whole in (
        ("Steady guesses sooner", [".dx-board", "[data-idea]", ".dx-words"]),
        ("See a draft tree", [".dx-board", "[data-idea]"]),
        ("When it does not pay", [".dx-board", "[data-idea]", ".dx-words"]),
    ):
        chip(page, title)
        page.wait_for_function(STANDS)
        for key in ["Home", *["ArrowRight"] * (int(page.evaluate(LAST)) // 2), "End"]:
            page.keyboard.press(key)
            if key != "ArrowRight":
                page.wait_for_function(WHOLE, arg=whole)


@pytest.mark.pages
def test_a_legend_that_comes_late_pushes_no_view_out_of_sight(shipped, visit):
    """On a busy machine it is drawn after the views were brought into sight, and the status line later still."""
    page = still(visit, shipped).page
    chip(page, "A picture, one token or a window per call")
    page.wait_for_function(STANDS)
    settle(page)
    for late in ("document.querySelector('#players').style.marginTop = '60px'", "stage.scrollIntoView()"):
        page.evaluate(f"() => {{ {late}; document.dispatchEvent(new Event('dx-moved')); }}")
        page.wait_for_function(STANDS)
        page.evaluate("document.querySelector('#players').style.marginTop = ''")


def test_on_a_phone_the_open_sheet_leaves_the_board_in_sight_and_a_chip_closes_it(shipped, visit):
    screen = still(visit, shipped, PHONE)
    screen.until("document.querySelector('#toolbar input[type=range]').getBoundingClientRect().width >= 100")
    screen.player(0).locator(".dx-board").scroll_into_view_if_needed()
    screen.sheet()
    screen.until("document.querySelector('#controls').getBoundingClientRect().top >= 0.35 * innerHeight")
    screen.until("document.querySelector('#prompt').getBoundingClientRect().height > 60")  # nothing in it is squeezed
    chip(screen.page, "Many at once")
    expect(screen.page.locator("#prompt textarea")).to_be_hidden()
    expect(screen.player(0).locator(".dx-board")).to_be_in_viewport()


@pytest.mark.pages
def test_the_strip_begins_with_right_or_wrong_and_equal_methods_are_named_by_what_differs(shipped, visit):
    screen = still(visit, shipped)
    screen.everything()
    chip(screen.page, "Break a sum")
    expect(screen.player(1).locator("h2 > strong")).to_have_text(" · threshold 0.4")
    screen.page.keyboard.press("End")
    line = screen.page.locator("#toolbar .dx-verdict p")
    expect(line.locator("strong")).to_have_text("2 Fast-dLLM threshold, threshold 0.4: ")
    parts = line.locator("button")
    expect(parts.first).to_have_text("✗ wrong")
    expect(parts.nth(1)).to_contain_text("Fast-dLLM threshold, threshold 0.9")
    screen.page.evaluate("scrollTo(0, 0)")  # in the bar that sticks there is no room for it
    parts.first.click()
    expect(screen.page.get_by_role("dialog")).to_contain_text("expected: 7+6+0=13")
    screen.page.keyboard.press("Escape")
    expect(screen.page.locator("#results tbody th")).to_contain_text(["threshold 0.9", "threshold 0.4"])
