"""Several runs in one view: one grid for all boards, heads of one height, the compact mode and the verdict."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from engines.core.trace import Piece, Span, Trace
from tests.player.handmade import drafting, masked

Call = Callable[..., Any]
SIZES = [(1440, 900), (1920, 1080), (390, 844)]
LAID = """() => handles.map((handle) => {
  const { grid } = handle.views.board().view,
    box = handle.root.querySelector('.dx-board').getBoundingClientRect(),
    panel = handle.root.getBoundingClientRect(),
    cells = [...handle.root.querySelectorAll('.dx-cells .dx-cell')].filter((node) => node.style.display !== 'none');
  return {
    columns: grid.columns, pitch: grid.rowHeight, top: box.top, panel: panel.top, above: box.top - panel.top,
    bottom: panel.bottom,
    places: cells.map((node) => { const at = node.getBoundingClientRect(); return [at.x - box.x, at.y - box.y]; }),
  };
})"""
LEVEL = """() => {
  const rows = {};
  for (const { root } of handles) {
    const board = root.querySelector('.dx-board'), { top } = root.getBoundingClientRect();
    (rows[Math.round(top)] ??= []).push(Math.round(board.getBoundingClientRect().top));
  }
  return Object.values(rows).every((tops) => Math.max(...tops) - Math.min(...tops) <= 1);
}"""


def unlike(n: int) -> list[Trace]:
    """Runs whose words, brackets, lengths and heads differ as much as runs of one prompt do."""
    made = [masked(24, 4), masked(40, 8), drafting(), masked(24, 6)][:n]
    for i, trace in enumerate(made):
        trace.header.prompt, trace.header.title = "the same prompt", f"Method {i}"
    made[0].pieces = [*made[0].pieces, *(Piece(200 + i, f" extraordinarily{i}") for i in range(60))]
    for step in made[0].steps:
        step.spans = [*(step.spans or []), Span("suffix", 12, 20), Span("window", 14, 18)]
    made[-1].header.departures = "A little."
    return made


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_a_token_stands_at_the_same_place_in_every_board(opened: Call, n: int, size: tuple[int, int]) -> None:
    page = opened(unlike(n), viewport={"width": size[0], "height": size[1]}).page
    laid = page.evaluate(LAID)
    assert len({(one["columns"], one["pitch"]) for one in laid}) == 1
    for one in laid[1:]:
        for mine, first in zip(one["places"], laid[0]["places"], strict=False):
            assert mine == [pytest.approx(at, abs=0.6) for at in first]
    page.wait_for_function(LEVEL)


def test_boards_follow_when_a_run_comes_or_goes(opened: Call) -> None:
    page = opened(unlike(2), viewport={"width": 1440, "height": 900}).page
    before = page.evaluate(LAID)
    page.evaluate("handles[0].clear()")
    page.wait_for_function("(pitch) => handles[1].views.board().view.grid.rowHeight < pitch", arg=before[1]["pitch"])
    page.evaluate("handles[0].load(document.querySelector('script[data-trace]').textContent)")
    assert [one["pitch"] for one in page.evaluate(LAID)] == [before[0]["pitch"]] * 2


def test_heads_of_unlike_length_are_one_height(opened: Call) -> None:
    page = opened(unlike(2), viewport={"width": 1440, "height": 900}).page
    page.wait_for_function(LEVEL)
    lift = "() => parseFloat(handles[0].root.style.getPropertyValue('--dx-lift')) || 0"
    before = page.evaluate(lift)
    page.evaluate(
        "handles[1].root.querySelector('header').firstChild.append(Object.assign(document.createElement('p'), "
        "{ className: 'grown', textContent: 'a line more' }))"
    )
    page.wait_for_function(f"(before) => ({lift})() > before + 10", arg=before)
    page.wait_for_function(LEVEL)
    page.evaluate("document.querySelector('.grown').remove()")
    page.wait_for_function(f"(before) => Math.abs(({lift})() - before) < 1", arg=before)
    page.wait_for_function(LEVEL)


FIT = """() => {
  const boxes = handles.map(({ root }) => root.getBoundingClientRect());
  return Math.max(...boxes.map((b) => b.bottom)) - Math.min(...boxes.map((b) => b.top));
}"""
COMPACT = "() => handles.map(({ root }) => root.hasAttribute('data-compact'))"


@pytest.mark.parametrize("n", [3, 4])
def test_from_three_runs_on_all_fit_in_one_screen(opened: Call, n: int) -> None:
    page = opened(unlike(n), viewport={"width": 1440, "height": 900}).page
    assert page.evaluate(COMPACT) == [True] * n
    bar = page.locator(".dx-toolbar .dx-buttons").bounding_box()["height"]
    assert page.evaluate(FIT) + bar + 20 <= 900
    laid = page.evaluate(LAID)
    assert all(one["above"] <= 48 for one in laid), "a board and one line"
    assert [one["panel"] for one in laid] == sorted(one["panel"] for one in laid)
    assert len({(one["columns"], one["pitch"]) for one in laid}) == 1
    page.evaluate("handles[0].seek(3)")
    line = page.locator(".dx-line1").first
    assert "3 model calls" in line.inner_text()
    assert "draft calls" in page.locator(".dx-line1").nth(2).inner_text()
    switch = page.get_by_role("button", name="Compact", exact=True)
    switch.click()
    assert page.evaluate(COMPACT) == [False] * n
    assert line.is_hidden() and page.locator(".dx-figures").first.is_visible()
    switch.click()
    assert page.evaluate(COMPACT) == [True] * n


def test_two_runs_are_compact_only_if_asked(opened: Call) -> None:
    page = opened(unlike(2), viewport={"width": 1440, "height": 900}).page
    assert page.evaluate(COMPACT) == [False] * 2
    page.get_by_role("button", name="Compact", exact=True).click()
    assert page.evaluate(COMPACT) == [True] * 2
    page.evaluate("handles[1].clear()")
    assert page.evaluate(COMPACT) == [False] * 2


def test_a_board_too_high_for_its_strip_shows_where_it_was_written(opened: Call) -> None:
    made = [masked(240, 12) for _ in range(4)]
    page = opened(made, viewport={"width": 1100, "height": 700}).page
    assert page.evaluate(FIT) <= 700
    page.evaluate("handles[0].seek(0)")
    for step in (1, 6, 12):
        page.evaluate("(step) => handles[0].seek(step)", step)
        last = max(made[0].steps[step - 1].commits.positions)
        cell = page.locator(".dx-panel").first.locator(".dx-cells .dx-cell").nth(last).bounding_box()
        board = page.locator(".dx-board").first.bounding_box()
        assert board["y"] - 1 <= cell["y"] and cell["y"] + cell["height"] <= board["y"] + board["height"] + 1
