"""A chip: the keyboard goes to the players, and the view that shows the idea stands in the first screen."""

import pytest
from playwright.sync_api import expect

from explorer.runs.gallery import gallery
from explorer.runs.scenarios import scenarios
from tests.page.conftest import LAPTOP

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


@pytest.mark.parametrize(
    "titles", [TITLES[-2:], pytest.param(TITLES[:-2], marks=pytest.mark.pages)], ids=["last two", "the others"]
)
def test_the_view_that_shows_the_idea_is_in_the_first_screen_and_space_plays(shipped, visit, titles):
    screen = visit(at=shipped, folded=True, viewport=LAPTOP, reduced_motion="reduce")
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
