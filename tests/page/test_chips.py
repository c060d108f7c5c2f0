"""A chip: the keyboard goes to the players, and the view that shows the idea stands in the first screen."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from explorer.runs.gallery import gallery
from explorer.runs.scenarios import scenarios

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


def chip(page, title: str) -> None:
    before = page.locator("#status .status").inner_text()
    wanted = page.locator("#scenarios").get_by_role("button", name=title, exact=True)
    expect(page.locator("#scene .scene")).to_be_visible()
    if not wanted.is_visible():
        page.get_by_role("button", name="More scenes", exact=True).click()
    wanted.click()
    expect(page.locator("#status .status")).not_to_have_text(before)


@pytest.mark.parametrize("title", TITLES)
def test_the_view_that_shows_the_idea_is_in_the_first_screen(shipped, visit, title):
    page = visit(at=shipped, folded=True, viewport={"width": 1440, "height": 900}, reduced_motion="reduce").page
    chip(page, title)
    page.wait_for_function(STANDS)
    steps = page.evaluate("document.querySelector('#toolbar input[type=range]').max")
    for key in ["End", *["ArrowLeft"] * (int(steps) // 2), "Home"]:
        page.keyboard.press(key)
    page.wait_for_function(STANDS)
    page.keyboard.press("End")
    page.wait_for_function(STANDS)


@pytest.mark.parametrize(("width", "height"), [(1000, 800), (1024, 768), (1100, 900)])
def test_the_draft_tree_begins_in_the_first_screen_of_a_narrow_window_too(shipped, visit, width, height):
    """Side by side: below the other player it would begin at 900 pixels and more."""
    page = visit(at=shipped, folded=True, viewport={"width": width, "height": height}, reduced_motion="reduce").page
    chip(page, "See a draft tree")
    page.wait_for_function(STANDS)
    tops = page.locator("#players .dx-panel:visible").evaluate_all("(all) => all.map((node) => node.offsetTop)")
    assert len(tops) == 2 and tops[0] == tops[1]
    page.keyboard.press("End")
    expect(page.locator(".dx-tree")).to_be_visible()
    page.wait_for_function("() => document.querySelector('.dx-tree').getBoundingClientRect().top <= 560")


def test_a_picture_made_smaller_shows_more_of_what_is_wider_than_its_player(shipped, visit):
    """At less than its size it has as much width as before, not less."""
    page = visit(at=shipped, folded=True, viewport={"width": 1050, "height": 900}, reduced_motion="reduce").page
    chip(page, "See a draft tree")
    page.wait_for_function(STANDS)
    drawn = page.locator("#players [data-idea] .dx-content").last
    scale = drawn.evaluate("(node) => Number(node.style.zoom || 1)")
    widths = drawn.evaluate("(node) => [node, node.parentElement].map((box) => box.getBoundingClientRect().width)")
    assert scale < 1 and widths[0] >= 0.98 * widths[1]


CLIPPED = """() => [...document.querySelectorAll('#players [data-idea] :is(.dx-content, .dx-scroll)')]
  .filter((box) => box.getClientRects().length && box.scrollHeight > box.clientHeight + 1
    && getComputedStyle(box).overflowY !== 'visible').length"""


@pytest.mark.parametrize("size", [(1280, 720), (1440, 900), (1920, 1080), (390, 844)], ids=str)
def test_a_draft_tree_is_whole_in_its_picture_at_every_step(shipped, visit, size):
    screen = visit(
        at=shipped, folded=True, viewport=dict(zip(("width", "height"), size, strict=True)), reduced_motion="reduce"
    )
    page = screen.page
    if size[0] < 700:
        screen.sheet()
    chip(page, "See a draft tree")
    if size[0] < 700:
        page.get_by_role("button", name="A tree of guesses").click()
        expect(page.locator("#panel-1 [data-idea]")).to_be_visible()
    else:
        page.wait_for_function(STANDS)
    seen = 0
    for _ in range(45):
        page.keyboard.press("ArrowRight")
        assert page.evaluate(CLIPPED) == 0
        seen = max(seen, page.locator("#panel-1 .dx-tree [data-row]").count())
    assert seen > 12, "a whole tree"


WHOLE = """(parts) => {
  const bar = document.querySelector('#toolbar .dx-toolbar').getBoundingClientRect().bottom;
  return [0, 1].every((slot) => parts.every((part) => {
    const box = document.querySelector(`#panel-${slot} ${part}`)?.getBoundingClientRect();
    return box && box.top >= bar - 1 && box.bottom <= innerHeight;
  }));
}"""


@pytest.mark.parametrize(
    "title,size,whole",
    [
        ("Steady guesses sooner", (1280, 720), [".dx-board", "[data-idea]"]),
        ("Steady guesses sooner", (1440, 900), [".dx-board", "[data-idea]", ".dx-words"]),
        ("See a draft tree", (1440, 900), [".dx-board", "[data-idea]"]),
        ("When it does not pay", (1440, 900), [".dx-board", "[data-idea]", ".dx-words"]),
    ],
    ids=str,
)
def test_board_and_picture_of_a_scene_stand_in_the_window_together(shipped, visit, title, size, whole):
    page = visit(
        at=shipped, folded=True, viewport=dict(zip(("width", "height"), size, strict=True)), reduced_motion="reduce"
    ).page
    chip(page, title)
    page.wait_for_function(STANDS)
    steps = int(page.evaluate("document.querySelector('#toolbar input[type=range]').max"))
    for key in ["Home", *["ArrowRight"] * (steps // 2), "End"]:
        page.keyboard.press(key)
        if key != "ArrowRight":
            page.wait_for_function(WHOLE, arg=whole)


def test_a_legend_that_comes_late_pushes_no_view_out_of_sight(shipped, visit):
    """On a busy machine it is drawn after the views were brought into sight."""
    page = visit(at=shipped, folded=True, viewport={"width": 1440, "height": 900}, reduced_motion="reduce").page
    chip(page, "A picture, one token or a window per call")
    page.wait_for_function(STANDS)
    page.wait_for_timeout(400)  # the page has settled
    page.evaluate(
        """() => { document.querySelector("#players").style.marginTop = "60px";
          document.dispatchEvent(new Event("dx-moved")); }"""
    )
    page.wait_for_function(STANDS)
    page.evaluate("document.querySelector('#players').style.marginTop = ''")
    page.evaluate("document.querySelector('#stage').scrollIntoView()")  # as the status line does, late
    page.evaluate("document.dispatchEvent(new Event('dx-moved'))")
    page.wait_for_function(STANDS)


def test_space_after_a_chip_plays_and_does_not_press_the_chip_again(shipped, visit):
    page = visit(at=shipped, folded=True, viewport={"width": 1440, "height": 900}, reduced_motion="reduce").page
    chip(page, "Many at once")
    player = page.locator("#panel-0 .dx-panel")
    expect(player).to_be_focused()
    expect(player).to_have_attribute("data-state", "ready")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.keyboard.press(" ")
    expect(player).to_have_attribute("data-state", "done")
    assert not [url for url in asked if "queue" in url or "call" in url], "the server was not asked again"


def test_on_a_phone_a_chip_closes_the_sheet_that_covers_the_board(shipped, visit):
    screen = visit(at=shipped, folded=True, viewport={"width": 390, "height": 844}, reduced_motion="reduce")
    screen.sheet()
    chip(screen.page, "Many at once")
    expect(screen.page.locator("#prompt textarea")).to_be_hidden()
    expect(screen.player(0).locator(".dx-board")).to_be_in_viewport()


def test_the_strip_begins_with_right_or_wrong_and_equal_methods_are_named_by_what_differs(shipped, visit):
    screen = visit(at=shipped, folded=True, viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    screen.everything()
    chip(screen.page, "Break a sum")
    heads = [screen.player(slot).locator("h2 > strong") for slot in (0, 1)]
    for head, threshold in zip(heads, ("0.9", "0.4"), strict=True):
        expect(head).to_have_text(f" · threshold {threshold}")
        assert head.evaluate("(node) => node.scrollWidth <= node.clientWidth"), "it is not cut off"
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
    rows = screen.page.locator("#results tbody th")
    expect(rows).to_contain_text(["threshold 0.9", "threshold 0.4"])
    chip(screen.page, "Many at once")  # other methods need no more than their names
    for head in heads:
        expect(head).to_have_text("")
