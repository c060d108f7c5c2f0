"""What an exported page shows before anybody scrolls: the question, the answer and the picture of the idea."""

from collections.abc import Callable
from typing import Any

from playwright.sync_api import Page, expect

from engines import Trace
from explorer.export.html import caption
from explorer.figures.verdict import judge
from explorer.runs.gallery import gallery
from tests.player.handmade import masked
from tests.player.pictures import INSIDE_THE_BOARD, Panel, Stage, until

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


HEAD = """([title, told]) => { document.querySelector("h1").textContent = title;
  const said = told.map((words) => Object.assign(document.createElement("p"), { textContent: words }));
  document.querySelector(".told").replaceChildren(...said); }"""


def show(stage: Stage, trace: Trace, share: float) -> Page:
    """A trace as a new visitor on a laptop finds it in its export, at a share of its steps."""
    stage.page.evaluate(HEAD, [trace.header.title, caption([trace])])
    picture = stage.show(trace, "Tokens", Panel(1440))
    picture.seek(max(1, round(share * len(trace.steps))))
    return picture.page


def test_the_picture_of_the_idea_begins_in_the_first_screen_and_no_word_is_smaller_than_twelve_pixels(
    stage: Stage,
) -> None:
    low, small = {}, {}
    for signature, trace in one_of_each_picture().items():
        page = show(stage, trace, 0.6)
        expect(page.locator("[data-idea]")).to_be_visible()
        top, bottom = page.evaluate(IDEA)
        if top > FROM or (bottom > HIGH and bottom - top < HIGH - FROM):
            low[signature] = (top, bottom)
        page.evaluate("handles[0].unfold(true)")
        expect(page.locator(".dx-details[open] .dx-view").first).to_be_attached()
        small |= page.evaluate(SMALL)
    assert (low, small) == ({}, {})


ONE_LINE = """() => { const parts = [...document.querySelector(".dx-asked").children]
    .map((one) => one.getBoundingClientRect()).filter(({ width }) => width);
  return Math.max(...parts.map(({ top }) => top)) < Math.min(...parts.map(({ bottom }) => bottom)); }"""


def test_question_answer_and_mark_stand_in_one_line(stage: Stage) -> None:
    checked = {judge(trace).right: trace for trace in one_of_each_picture().values() if judge(trace)}
    assert True in checked
    for right, trace in checked.items():
        page = show(stage, trace, 1)
        question, answer, mark = (
            page.locator(f".dx-asked {part}") for part in (".dx-question", ".dx-answer", "strong")
        )
        expect(question).to_have_text(" ".join(trace.header.prompt.split()))
        expect(mark).to_have_text("✓ right" if right else "✗ wrong")
        expect(answer).to_have_attribute("title", " ".join(trace.text.split()))
        page.evaluate("handles[0].seek(0)")
        expect(mark).to_have_text("")
        expect(answer).to_have_text("" if trace.header.canvas is None else "…")
        until(page, ONE_LINE)


def test_a_high_board_above_a_picture_scrolls_with_what_is_written(opened: Callable[..., Any]) -> None:
    trace = masked(96, 12)
    page = opened([trace], folded=True, viewport={"width": 800, "height": HIGH}).page
    board = page.locator(".dx-board")
    high = board.evaluate("(node) => node.clientHeight")
    assert high < board.evaluate("(node) => node.scrollHeight")
    for step in (3, 9):
        page.evaluate("(step) => handles[0].seek(step)", step)
        at = min(trace.steps[step - 1].commits.positions) - len(trace.header.prompt_ids)
        until(page, INSIDE_THE_BOARD, at)
    hit = board.locator(".dx-cell").nth(at)
    hit.hover()
    expect(hit).to_contain_class("dx-picked")  # the pointer finds it in what scrolled
    page.get_by_role("button", name="All rows").click()
    whole = """(high) => { const { clientHeight, scrollHeight } = document.querySelector(".dx-board");
      return clientHeight === scrollHeight && clientHeight > high; }"""
    until(page, whole, high)
