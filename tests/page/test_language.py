"""The page in Simplified Chinese: which language it takes, that nothing of ours stays English, that nothing of a model
or a person is translated, and what axe finds."""

import pytest
from playwright.sync_api import expect

from explorer.language import read
from tests.page.test_chinese import LONG, MIXED
from tests.page.test_everybody import all_paths

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


def chinese(visit, **options):
    """The page as a browser sees it whose first language is Chinese."""
    screen = visit("?still&", locale="zh-CN", **options)
    expect(screen.page.get_by_role("tab", name="探索", exact=True)).to_be_visible()
    screen.wait(0, "ready")
    return screen


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


def test_no_word_of_ours_stays_english_on_any_tab(visit):
    page = chinese(visit).page
    paths = all_paths(page)  # what a tab held stays in the document
    assert len(paths) >= 9, paths
    expect(page.locator("#docs-text h1")).to_be_attached()
    assert page.evaluate(LEFT, read("zh-Hans")) == []
    assert page.evaluate(MIXED, LONG) == [], "no English sentence has Chinese words in it"


@pytest.mark.pages
def test_what_a_model_wrote_and_a_person_typed_is_not_translated(visit):
    """The words of the page as a prompt stay as they were typed, and so does what is written of them."""
    texts = []
    for screen, over in ((visit("?still&"), "Done"), (chinese(visit), "完成")):
        screen.wait(0, "ready")
        screen.slots(1)
        screen.prompt("copy: Run Stop Play")
        screen.page.locator("#run").click()
        screen.says(over, 90)
        screen.wait(0, "done")
        screen.player(0).press("End")
        screen.drawn()
        expect(screen.page.locator("#prompt textarea")).to_have_value("copy: Run Stop Play")
        texts.append(screen.player(0).locator(".dx-text span:not(.dx-end):visible").all_inner_texts())
    assert texts[0] == texts[1] and "".join(texts[0]).strip()


@pytest.mark.pages
def test_a_catalogue_that_does_not_come_leaves_the_page_in_english(tabs, address):
    tab, asked = tabs.take(locale="zh-CN"), []
    tab.page.route("**/words/**", lambda route: (asked.append(route.request.url), route.abort()))
    tab.open(address + "?still")
    expect(tab.page.locator("#run")).to_have_text("Run")
    expect(tab.page.locator("#panel-0 .dx-panel")).to_have_attribute("data-state", "ready")
    assert asked
    tabs.give(tab)
