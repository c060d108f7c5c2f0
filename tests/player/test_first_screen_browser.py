"""What an exported page shows before anybody scrolls: the question, the answer and the picture of the idea."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from engines import Trace
from explorer.export.html import export_html
from explorer.figures.verdict import judge
from explorer.runs.gallery import gallery
from tests.page.tabs import Tabs
from tests.player.handmade import masked

HIGH, FROM = 900, 560  # of the window; what the picture of the idea may begin at
IDEA = """() => { const { top, bottom } = document.querySelector("[data-idea]").getBoundingClientRect();
  return [top, bottom]; }"""


SMALL = """() => { const found = {};
  for (const node of document.querySelectorAll(".dx *")) {
    const { width, height } = node.getBoundingClientRect(), style = getComputedStyle(node);
    const says = [...node.childNodes].some((c) => c.nodeType === Node.TEXT_NODE && c.textContent.trim());
    if (!says || !width || !height || style.visibility === "hidden") continue;
    const at = node.ownerSVGElement && node.getScreenCTM(), scale = at ? Math.hypot(at.b, at.d) : 1; // askew, too
    const size = parseFloat(style.fontSize) * scale, view = node.closest("[data-view]")?.dataset.view;
    if (size < 11.9) found[`${view}: ${node.textContent.slice(0, 30)}`] = size;
  }
  return found; }"""  # as it is seen: a drawing that shrinks has smaller letters


def one_of_each_picture() -> dict[str, Trace]:
    """A recording for each signature view, without those that begin with a picture that the model sees."""
    found: dict[str, Trace] = {}
    for name in (card.id for card in gallery().cards):
        trace = gallery().get(name)
        if not any(step.media for step in trace.steps):
            found.setdefault(trace.header.signature, trace)
    return found


@pytest.fixture
def shown(tabs: Tabs, tmp_path: Path) -> Iterator[Callable[[Trace, float], Page]]:
    """Exports a trace and opens it as a new visitor on a laptop does, at a share of its steps."""
    tab = tabs.take(viewport={"width": 1440, "height": HIGH})

    def show(trace: Trace, share: float) -> Page:
        path = tmp_path / f"{trace.header.method}.html"
        path.write_text(export_html(trace, trace.header.title), "utf-8")
        tab.page.goto(path.as_uri())
        tab.page.evaluate("(step) => handles[0].seek(step)", max(1, round(share * len(trace.steps))))
        return tab.page

    yield show
    tabs.give(tab)


def test_the_picture_of_the_idea_begins_in_the_first_screen(shown: Callable[[Trace, float], Page]) -> None:
    low = {}
    for signature, trace in one_of_each_picture().items():
        page = shown(trace, 0.6)
        expect(page.locator("[data-idea]")).to_be_visible()
        top, bottom = page.evaluate(IDEA)
        if top > FROM or (bottom > HIGH and bottom - top < HIGH - FROM):
            low[signature] = (top, bottom)
    assert not low


def test_no_word_is_smaller_than_twelve_pixels(shown: Callable[[Trace, float], Page]) -> None:
    small = {}
    for trace in one_of_each_picture().values():
        page = shown(trace, 0.6)
        page.locator(".dx-details > summary").click()
        page.wait_for_function("() => document.querySelector('.dx-details[open] .dx-view')")
        small |= page.evaluate(SMALL)
    assert not small


def test_question_answer_and_mark_stand_in_one_line(shown: Callable[[Trace, float], Page]) -> None:
    checked = {judge(trace).right: trace for trace in one_of_each_picture().values() if judge(trace)}
    assert True in checked
    for right, trace in checked.items():
        page = shown(trace, 1)
        line = page.locator(".dx-asked")
        expect(line.locator(".dx-question")).to_have_text(" ".join(trace.header.prompt.split()))
        expect(line.locator("strong")).to_have_text("✓ right" if right else "✗ wrong")
        assert line.locator(".dx-answer").get_attribute("title") == " ".join(trace.text.split())
        page.evaluate("handles[0].seek(0)")
        expect(line.locator("strong")).to_have_text("")
        expect(line.locator(".dx-answer")).to_have_text("" if trace.header.canvas is None else "…")
        assert len({round(part["y"] + part["height"]) for part in [line.bounding_box()] if part}) == 1


def test_a_high_board_above_a_picture_scrolls_with_what_is_written(opened: Callable[..., Any]) -> None:
    trace = masked(96, 12)
    page = opened([trace], folded=True, viewport={"width": 800, "height": HIGH}).page
    board = page.locator(".dx-board")
    high = board.evaluate("(node) => node.clientHeight")
    assert high < board.evaluate("(node) => node.scrollHeight")
    for step in (3, 9):
        page.evaluate("(step) => handles[0].seek(step)", step)
        at = min(trace.steps[step - 1].commits.positions) - len(trace.header.prompt_ids)
        cell, box = board.locator(".dx-cell").nth(at).bounding_box(), board.bounding_box()
        assert box["y"] - 1 <= cell["y"] and cell["y"] + cell["height"] <= box["y"] + box["height"] + 1
    hit = board.locator(".dx-cell").nth(at)
    hit.hover()
    assert "dx-picked" in (hit.get_attribute("class") or "")  # the pointer finds it in what scrolled
    page.get_by_role("button", name="All rows").click()
    assert board.evaluate("(node) => node.clientHeight === node.scrollHeight && node.clientHeight") > high
