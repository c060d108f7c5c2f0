"""Addresses of tabs, methods, papers, lessons and texts: what they open, that Back returns to them, and what is said of
one that leads nowhere."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

import engines
from engines import UserError
from explorer.page.address import MAX_NAME, read_place
from explorer.page.learn import payload
from explorer.papers import read

INFOS = {info.slug: info for info in engines.list_methods()}
LABELS = {"explore": "Explore", "runs": "My runs", "learn": "Learn", "methods": "Methods", "docs": "Docs"}


def place(query: object) -> tuple[str, str, str]:
    told = read_place(query, INFOS, LABELS)
    return told["kind"], told["name"], told["tab"]


@pytest.mark.parametrize(
    ("query", "leads"),
    [
        ("?method=eagle", ("method", "eagle", "methods")),
        ("?method=Prompt%20Lookup&tab=learn", ("method", "prompt-lookup", "methods")),
        ("?paper=2502.09992", ("paper", "llada", "methods")),
        ("?paper=fast-dllm-v1&still", ("paper", "fast-dllm-v1", "methods")),
        ("?lesson=medusa", ("lesson", "medusa", "learn")),
        ("?lesson=glossary", ("lesson", "glossary", "learn")),
        ("?tab=methods", ("", "", "methods")),
        ("?tab=My+runs", ("", "", "runs")),
        ("?tab=my-runs", ("", "", "runs")),
    ],
)
def test_an_address_leads_to_its_place(query, leads):
    assert place(query) == leads


def test_every_method_paper_and_lesson_has_an_address():
    for slug in INFOS:
        assert place(f"?method={slug}") == ("method", slug, "methods")
    for paper in read().all():
        assert place(f"?paper={paper.id}") == ("paper", paper.id, "methods")
        assert not paper.arxiv or place(f"?paper={paper.arxiv}")[2] == "methods"
    for lesson in payload()["lessons"]:
        assert place(f"?lesson={lesson['method']}") == ("lesson", lesson["method"], "learn")


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("?method=eagel", "there is no method 'eagel' here; the nearest is ?method=eagle."),
        ("?method=%F0%9F%90%A6", "there is no method '🐦' here; the chooser in the tab Methods finds all"),
        ("?paper=9999.99999", "there is no paper '9999.99999' here"),
        ("?lesson=medusas", "there is no lesson 'medusas' here; the nearest is ?lesson=medusa."),
        ("?tab=nowhere", "there is no tab 'nowhere' here; choose one of explore, runs, learn, methods, docs."),
        ("?tab=", "there is no tab '' here"),
        ("", "there is no tab '' here"),
        ("?method=" + "x" * 3000, "the address is longer than 2000 characters"),
        ("?" + "&".join(f"a{i}=1" for i in range(30)), "the address has more than 20 parts"),
        (None, "the address is longer than"),
        (["?tab=learn"], "the address is longer than"),
    ],
)
def test_an_address_that_leads_nowhere_gets_a_sentence(query, said):
    with pytest.raises(UserError) as error:
        place(query)
    assert said in str(error.value) and "\n" not in str(error.value)


def test_a_name_in_a_sentence_is_on_one_line_and_not_long():
    with pytest.raises(UserError) as error:
        place("?method=" + "%0a%1b[31mz" * 40)
    assert error.value.args and len(str(error.value)) < MAX_NAME + 120 and str(error.value).isprintable()


# --- in the browser


TOLD = "window.told = []; document.addEventListener('dx-tab', ({ detail }) => told.push(detail.tab));"


def shown(screen, name: str) -> None:
    expect(screen.page.get_by_role("tab", name=name, exact=True)).to_have_attribute("aria-selected", "true")


def at(screen, query: str) -> None:
    expect(screen.page).to_have_url(re.compile(re.escape(query) + "$"))


def test_tabs_and_lessons_stand_in_the_address_and_back_returns_to_them(visit):
    screen = visit()
    page = screen.page
    screen.player(0).press("ArrowRight")
    screen.prompt("kept")
    before = page.url
    marker = page.evaluate("window.sameDocument = Math.random()")
    screen.tab("Learn")
    at(screen, "&tab=learn")
    lessons = page.locator("#lessons")
    title = lessons.locator(".learn-text h2").first
    first, third = (payload()["lessons"][i] for i in (0, 2))
    expect(title).to_have_text(first["title"])
    lessons.locator(".learn-list button").nth(2).click()
    expect(title).to_have_text(third["title"])
    at(screen, f"&lesson={third['method']}")
    screen.tab("Docs")
    at(screen, "&tab=docs")
    text = page.locator("#docs-text h1")
    expect(text).to_have_text("Using the page")
    page.get_by_label("Papers and methods").check()
    expect(text).to_have_text("Papers and methods")
    at(screen, "&doc=papers")
    page.locator("#docs-text").get_by_role("link", name="measured here").click()
    at(screen, "&doc=measured")
    page.go_back()
    expect(text).to_have_text("Papers and methods")
    page.go_back()
    expect(text).to_have_text("Using the page")
    at(screen, "&tab=docs")
    page.go_back()
    shown(screen, "Learn")
    expect(title).to_have_text(third["title"])
    page.go_back()
    expect(title).to_have_text(first["title"])
    page.go_back()
    shown(screen, "Explore")
    assert page.url == before
    page.go_forward()
    page.go_forward()
    shown(screen, "Learn")
    expect(title).to_have_text(third["title"])
    page.go_back()
    page.go_back()
    shown(screen, "Explore")
    assert page.evaluate("window.sameDocument") == marker, "no reload"
    assert screen.step(0) == 1
    expect(page.locator("#prompt textarea")).to_have_value("kept")


def test_a_tab_that_was_left_before_gradio_showed_it_is_no_new_place(visit):
    """Back and Forward in quick succession on a busy machine: Gradio tells of the first one after the second."""
    screen = visit()
    page = screen.page
    screen.tab("Learn")
    at(screen, "&tab=learn")
    entries = page.evaluate("history.length")
    page.go_back()
    shown(screen, "Explore")
    page.evaluate(
        """() => { addEventListener("popstate", () =>
          document.dispatchEvent(new CustomEvent("dx-tab", { detail: { tab: "explore", panel: "explore" } })),
          { once: true });
          history.forward(); }"""
    )
    shown(screen, "Learn")
    at(screen, "&tab=learn")
    assert page.evaluate("history.length") == entries
    screen.tab("Explore")  # a tab that a person chooses afterwards is one
    at(screen, "?still")
    page.go_back()
    shown(screen, "Learn")


def test_a_tab_that_gradio_tells_of_after_the_one_that_is_shown_is_no_new_place(visit):
    screen = visit(first=TOLD)
    page = screen.page
    before = page.url
    screen.tab("Learn")
    at(screen, "&tab=learn")
    page.go_back()
    page.wait_for_function("told.at(-2) === 'learn' && told.at(-1) === 'explore'")
    stale = {"tab": "learn", "panel": "learn"}
    page.evaluate("(detail) => document.dispatchEvent(new CustomEvent('dx-tab', { detail }))", stale)
    assert page.url == before
    page.go_forward()
    shown(screen, "Learn")


def test_a_tab_that_is_opened_again_shows_its_place_and_a_reload_keeps_it(visit):
    screen = visit()
    page = screen.page
    screen.tab("Learn")
    page.locator("#lessons .learn-list button").nth(1).click()
    second = payload()["lessons"][1]
    at(screen, f"&lesson={second['method']}")
    screen.tab("Explore")
    at(screen, "?still")
    screen.tab("Learn")
    at(screen, f"&lesson={second['method']}")
    page.reload()
    shown(screen, "Learn")
    expect(page.locator("#lessons .learn-text h2").first).to_have_text(second["title"])
    screen.tab("Gallery")
    at(screen, "&tab=gallery")
    page.reload()
    shown(screen, "Gallery")


COUNTED = "window.states = []; const push = history.pushState.bind(history);"
COUNTED += "history.pushState = (...given) => { states.push(given[2]); push(...given); };"


def test_the_untouched_page_keeps_a_clean_address(visit):
    screen = visit(first=COUNTED)
    screen.player(0).press("ArrowRight")
    screen.tab("Gallery")
    screen.tab("Explore")
    at(screen, "?still")
    assert screen.page.evaluate("states") == ["/?still&tab=gallery", "/?still"], "one for each tab, none for a step"


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("?method=eagel", "There is no method 'eagel' here; the nearest is ?method=eagle."),
        ("?lesson=<b>x", "There is no lesson '<b>x' here"),
        ("?tab=nowhere", "There is no tab 'nowhere' here; choose one of explore"),
    ],
)
def test_an_address_that_leads_nowhere_leaves_the_page_usable(visit, query, said):
    screen = visit(query=query)
    screen.says(said)
    shown(screen, "Explore")
    screen.wait(0, "ready")
    screen.tab("Methods")
    expect(screen.page.locator(".chooser .card")).to_have_count(5)
    at(screen, "tab=methods")


def test_links_of_before_open_what_they_opened(visit, traces):
    name = f"0-{traces[0].header.method}"
    screen = visit(query=f"?gallery={name}&step=2")
    screen.says("Opened from the link.")
    expect(screen.player(0)).to_have_attribute("data-step", "2")
    screen.tab("Learn")
    at(screen, f"?gallery={name}&step=2&tab=learn")
    screen.page.go_back()
    shown(screen, "Explore")
    expect(screen.player(0)).to_have_attribute("data-step", "2")


def test_a_frame_without_a_history_works_all_the_same(visit):
    broken = "history.pushState = () => { throw new DOMException('no', 'SecurityError'); };"
    screen = visit(first=broken)
    screen.tab("Learn")
    screen.page.locator("#lessons .learn-list button").nth(1).click()
    title = screen.page.locator("#lessons .learn-text h2").first
    expect(title).to_have_text(payload()["lessons"][1]["title"])
    screen.tab("Methods")
    expect(screen.page.locator(".chooser .card")).to_have_count(5)
