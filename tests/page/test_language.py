"""The page in Simplified Chinese: which language it takes, that nothing of ours stays English, that nothing of a model
or a person is translated, and what axe finds."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

import engines
from explorer.language import read
from tests.page.conftest import LAPTOP
from tests.page.test_chinese import LONG, MIXED
from tests.page.test_everybody import AXE, all_paths, grave, settle

LEFT = """(messages) => {
  const closed = `[translate="no"], [lang="en"], textarea, script, style, pre, code, option, svg, .learn-words`;
  const left = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const { data, parentElement: within } = walker.currentNode, text = data.trim();
    if (!messages[text] || messages[text] === text || !within || within.closest(closed)) continue;
    left.push(`${text} in ${within.closest("[class]").className}`);
  }
  return left;
}"""
WRITTEN = ".dx-text span:not(.dx-end):visible"  # what the model wrote; that it ended is said by us


def chinese(visit, **options):
    """The page as a browser sees it whose first language is Chinese."""
    screen = visit("?still&", locale="zh-CN", **options)
    expect(screen.page.get_by_role("tab", name="探索", exact=True)).to_be_visible()
    screen.wait(0, "ready")
    return screen


def cells(screen) -> list[str]:
    screen.player(0).press("End")
    screen.wait(0, "done")
    screen.drawn()
    return screen.player(0).locator(WRITTEN).all_inner_texts()


def test_the_language_follows_the_browser_and_a_person_changes_it_for_good(visit):
    screen = chinese(visit)
    page, run = screen.page, screen.page.locator("#run")
    expect(page.locator("html")).to_have_attribute("lang", "zh-Hans")
    expect(run).to_have_text("运行")
    screen.prompt("")
    run.click()
    screen.says("提示词为空；")  # errors, too
    page.locator("#language select").select_option("en")
    expect(run).to_have_text("Run")
    page.goto(screen.address)
    expect(run).to_have_text("Run")  # remembered, though the browser asks for Chinese
    page.goto(screen.address + "?lang=zh")
    expect(run).to_have_text("运行")  # a link decides for its visit


@pytest.mark.pages
@pytest.mark.parametrize(("locale", "run"), [("zh-TW", "运行"), ("fr-FR", "Run")])
def test_a_language_that_is_not_there_is_english(visit, locale, run):
    wished = f"Object.defineProperty(navigator, 'languages', {{ value: ['{locale}'] }});"  # costs no cold page
    expect(visit("?still&", first=wished).page.locator("#run")).to_have_text(run)


@pytest.mark.pages
def test_english_asks_for_no_catalogue(visit):
    screen = visit("?still&")
    screen.wait(0, "ready")
    loaded = screen.page.evaluate("performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert any("page/language.js" in name for name in loaded)
    assert not any("/words/" in name for name in loaded)


def test_no_word_of_ours_stays_english_on_any_tab(visit):
    page = chinese(visit).page
    paths = all_paths(page)  # what a tab held stays in the document
    assert len(paths) >= 9, paths
    expect(page.locator("#docs-text h1")).to_be_attached()
    assert page.evaluate(LEFT, read("zh-Hans")) == []
    assert page.evaluate(MIXED, LONG) == [], "no English sentence has Chinese words in it"


@pytest.mark.pages
def test_what_a_method_says_is_told_in_the_language(visit, traces):
    """What its parameters do, below their fields; what departs from the paper, in the player and on its card."""
    screen = chinese(visit)
    info, words = engines.get_method(traces[0].header.method).info, read("zh-Hans")
    screen.page.locator("#slot-0 .slot-form > summary").press("Enter")
    shown = screen.parameters(0)
    for param in info.params:
        expect(shown.locator(f'[data-param="{param.name}"] .param-help')).to_have_text(words[param.help])
    expect(screen.player(0).locator(".dx-about")).to_contain_text(words[info.departures])
    screen.page.get_by_role("tab", name="方法", exact=True).click()
    screen.page.locator("#chooser input[type=search]").fill(info.title)
    card = screen.page.locator("#chooser .card").first
    card.locator("summary").click()
    expect(card).to_contain_text(words[info.departures])


@pytest.mark.pages
def test_what_a_model_wrote_and_a_person_typed_is_not_translated(visit):
    """The words of the page as a prompt: they stay as they were typed, on the board, in the answer, in the results."""
    both = chinese(visit), visit("?still&")
    both[1].wait(0, "ready")
    for screen, done in zip(both, ("完成", "Done"), strict=True):
        screen.slots(1)
        screen.prompt("copy: Run Stop Play")
        screen.page.locator("#run").click()
        screen.says(done, 90)
        screen.wait(0, "done")
    expect(both[0].page.locator("#prompt textarea")).to_have_value("copy: Run Stop Play")
    cells(both[1])
    texts = cells(both[0])
    expect(both[1].player(0).locator(WRITTEN)).to_have_text(texts)
    assert "".join(texts).strip()


@pytest.mark.pages
def test_a_catalogue_that_does_not_come_leaves_the_page_in_english(tabs, address):
    tab, asked = tabs.take(locale="zh-CN"), []
    tab.page.route("**/words/**", lambda route: (asked.append(route.request.url), route.abort()))
    tab.open(address + "?still")
    expect(tab.page.locator("#run")).to_have_text("Run")
    expect(tab.page.locator("#panel-0 .dx-panel")).to_have_attribute("data-state", "ready")
    assert asked
    tabs.give(tab)


@pytest.mark.pages
def test_axe_finds_nothing_grave_in_chinese_and_it_fits_every_width(visit):
    """All rules but the contrast: the colours are those of the English page."""
    page = chinese(visit, viewport=LAPTOP, reduced_motion="reduce").page
    page.evaluate(AXE.read_text("utf-8"))
    assert grave(page, "body", False) == []
    for width in (1440, 1920, 390):
        page.set_viewport_size({"width": width, "height": 900})
        settle(page)
        page.wait_for_function("(width) => document.documentElement.scrollWidth <= width", arg=width)
