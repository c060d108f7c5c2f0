"""Addresses of tabs, methods, papers, lessons and texts: what they open, that Back returns to them, and what is said of
one that leads nowhere."""

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
        ("?lesson=glossary", ("lesson", "glossary", "learn")),
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
        ("", "there is no tab '' here"),
        ("?method=" + "x" * 3000, "the address is longer than 2000 characters"),
        ("?" + "&".join(f"a{i}=1" for i in range(30)), "the address has more than 20 parts"),
        (None, "the address is longer than"),
        ("?method=" + "%0a%1b[31mz" * 40, "there is no method"),
    ],
)
def test_an_address_that_leads_nowhere_gets_a_sentence(query, said):
    with pytest.raises(UserError) as error:
        place(query)
    assert said in str(error.value) and str(error.value).isprintable() and len(str(error.value)) < MAX_NAME + 120


def shown(screen, name: str) -> None:
    expect(screen.page.get_by_role("tab", name=name, exact=True)).to_have_attribute("aria-selected", "true")


def at(screen, query: str) -> None:
    expect(screen.page).to_have_url(re.compile(re.escape(query) + "$"))


COUNTED = """window.states = []; const push = history.pushState.bind(history);
history.pushState = (...given) => { states.push(given[2]); push(...given); };"""


def test_tabs_lessons_and_texts_stand_in_the_address_back_returns_to_them_and_a_reload_keeps_them(visit):
    screen = visit(first=COUNTED)
    page = screen.page
    screen.player(0).press("ArrowRight")
    screen.tab("Gallery")
    screen.tab("Explore")
    at(screen, "?still")
    assert page.evaluate("states") == ["/?still&tab=gallery", "/?still"], "one for each tab, none for a step"
    screen.prompt("kept")
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
    assert "A tour in five minutes" not in page.content(), "nothing of a text is there before it is opened"
    screen.tab("Docs")
    text = page.locator("#docs-text h1")
    expect(text).to_have_text("Using the page")
    board = page.locator("#docs-text").get_by_role("img", name="The board after a step")
    assert board.evaluate("image => image.decode().then(() => image.naturalWidth)") > 400, "the picture is drawn"
    page.get_by_label("Papers and methods").check()
    expect(text).to_have_text("Papers and methods")
    at(screen, "&doc=papers")
    page.get_by_label("Measured here").check()
    page.locator("#docs-table").get_by_role("link", name="48 new tokens on smollm2").click()
    expect(text).to_have_text("48 new tokens on smollm2")
    at(screen, "&doc=48-new-tokens-on-smollm2")
    for _ in range(3):
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
    at(screen, "?still")
    assert page.evaluate("window.sameDocument") == marker, "no reload"
    screen.at(0, 1)
    expect(page.locator("#prompt textarea")).to_have_value("kept")
    page.go_forward()
    shown(screen, "Learn")
    expect(title).to_have_text(first["title"])
    lessons.locator(".learn-list button").nth(2).click()
    page.reload()
    shown(screen, "Learn")
    expect(title).to_have_text(third["title"])
    page.goto(f"{screen.address}?lesson=<b>x")
    screen.says("There is no lesson '<b>x' here")
    shown(screen, "Explore")
