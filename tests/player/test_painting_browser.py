"""Large boards are painted cell by cell and near the window first; what is seen must not depend on the way that led to
a step."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

import engines
from explorer.figures.handed import shown
from tests.player.handmade import batches, masked
from tests.player.pictures import SIZED, rests, until

Open = Callable[..., Any]

TILES = "() => [...document.querySelectorAll('.dx-cells canvas')].map((canvas) => canvas.toDataURL())"
NEAR = """() => [...document.querySelectorAll('.dx-cells canvas')].map((canvas) => { const { top,
  bottom } = canvas.getBoundingClientRect();
  return bottom > 0 && top < innerHeight; })"""
COUNT = """() => { window.painted = 0; const pen = CanvasRenderingContext2D.prototype, put = pen.putImageData;
  pen.putImageData = function (...given) { if (this.canvas.closest(".dx-cells")) window.painted++;
    return put.apply(this, given); }; }"""


@pytest.fixture(scope="module")
def text() -> str:
    return shown(masked(600, 60))


def fresh(page: Page, text: str, step: int) -> list[str]:
    """All canvases of a player that never showed another step; one that is printed waits for nothing."""
    page.evaluate("([text, at]) => handles[0].load(text, { at })", [text, step])
    until(page, SIZED)
    return page.evaluate(f"() => {{ window.dispatchEvent(new Event('beforeprint')); return ({TILES})(); }}")


def painted(page: Page, right: list[str]) -> None:
    """Waits until all canvases are so."""
    until(page, f"(right) => ({TILES})().every((tile, i) => tile === right[i])", right)


SEEN = """() => new Promise((done) => { new IntersectionObserver((_, watch) => { watch.disconnect(); done(); })
  .observe(document.body); })"""  # a later watch is told after those before it


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_changed_cells_leave_the_pixels_of_a_whole_drawing(opened: Open, text: str, scheme: str) -> None:
    page = opened([masked(24, 4)], color_scheme=scheme, device_scale_factor=1.25 if scheme == "dark" else 1).page
    page.evaluate("(text) => handles[0].load(text)", text)
    page.locator(".dx-legend").first.scroll_into_view_if_needed()
    rng = random.Random(scheme)
    ways = [[rng.randint(0, 60) for _ in range(8)] for _ in range(3)]
    right = [fresh(page, text, jumps[-1]) for jumps in ways]
    assert all(len(one) > 3 for one in right) and right[0] != right[1] != right[2]
    page.evaluate("(text) => handles[0].load(text)", text)
    for jumps, wanted in zip(ways, right, strict=True):
        page.evaluate("(jumps) => jumps.forEach((step) => handles[0].seek(step))", jumps)
        if rng.random() < 0.5:
            page.locator(".dx-board").scroll_into_view_if_needed()
        painted(page, wanted)


def test_canvases_out_of_sight_wait_and_are_right_when_they_are_seen_or_printed(opened: Open, text: str) -> None:
    page = opened([masked(24, 4)], viewport={"width": 900, "height": 500}).page
    right = {step: fresh(page, text, step) for step in (9, 30, 31)}
    page.evaluate("document.querySelector('.dx-board').scrollIntoView()")
    page.evaluate(SEEN)
    near = page.evaluate(NEAR)
    assert True in near and False in near, "the board must be larger than the window"
    shown = page.evaluate(f"() => {{ handles[0].seek(9); return ({TILES})(); }}")
    assert all(now == then for now, then, seen in zip(shown, right[9], near, strict=True) if seen)
    hidden = [i for i, seen in enumerate(near) if not seen and right[9][i] != right[31][i]]
    assert [i for i in hidden if shown[i] == right[31][i]], "out of sight the step before stays until the clock rests"
    painted(page, right[9])
    printed = page.evaluate(
        f"() => {{ handles[0].seek(30); window.dispatchEvent(new Event('beforeprint')); return ({TILES})(); }}"
    )
    assert printed == right[30]
    scrolled = page.evaluate(
        f"""(at) => new Promise((done) => {{ let left = 12;
          document.querySelectorAll('.dx-cells canvas')[at].scrollIntoView();
          const frame = () => {{ handles[0].seek(left % 2 ? 30 : 9); if (!left--) return done(({TILES})()[at]);
            setTimeout(frame, 30); }}; frame(); }})""",
        hidden[-1],
    )
    assert scrolled == right[9][hidden[-1]], "what was scrolled to is painted while the clock moves"


def test_a_step_paints_only_what_changed_and_is_near(opened: Open, text: str) -> None:
    page = opened([masked(24, 4)]).page
    right = {step: fresh(page, text, step) for step in (59, 60)}
    painted(page, right[60])
    page.evaluate(COUNT)
    page.evaluate("handles[0].seek(60)")
    assert page.evaluate("painted") == 0
    page.evaluate("handles[0].seek(59)")
    painted(page, right[59])
    written = len(masked(600, 60).steps[59].commits.positions) + len(masked(600, 60).steps[58].commits.positions)
    assert 0 < page.evaluate("painted") <= written


WORDS = """() => [".dx-words", ".dx-pill", ".dx-place", ".dx-figures", ".dx-count", ".dx-note", ".dx-fact strong"]
  .map((name) => document.querySelector(name).innerText)"""
SCRUB = """(steps) => new Promise((done) => { const boards = [], notes = [];
  let at = 0;
  const slider = document.querySelector(".dx-toolbar input[type=range]"), note = document.querySelector(".dx-note");
  const frame = () => { if (at >= steps) return done([boards, notes]);
    slider.value = ++at; slider.dispatchEvent(new Event("input")); notes.push(note.textContent);
    boards.push(handles[0].debug().step); requestAnimationFrame(frame); }; frame(); })"""


def test_words_wait_while_frames_follow_each_other_and_are_right_at_rest(opened: Open) -> None:
    trace = masked(40, 60)
    for n, step in enumerate(trace.steps, 1):
        step.note = f"This is said of step {n}."
    page = opened([trace]).page
    until(page, SIZED)
    boards, notes = page.evaluate(SCRUB, 50)
    assert boards == list(range(1, 51)), "the board moves in every frame"
    assert notes == [f"This is said of step {n}." for n in boards], "and the sentence is of its step"
    expect(page.locator(".dx-pill").first).to_contain_text("step 50 of 60")
    told = page.evaluate(WORDS)
    page.evaluate("(text) => handles[0].load(text, { at: 50 })", shown(trace))
    assert page.evaluate(WORDS) == told


FRAMES = """(steps) => new Promise((done) => { const slider = document.querySelector(".dx-toolbar input[type=range]");
  const frame = (at) => { if (at > steps) return requestAnimationFrame(() => done()); slider.value = at;
    slider.dispatchEvent(new Event("input")); requestAnimationFrame(() => frame(at + 1)); }; frame(1); })"""


def test_a_step_lays_the_page_out_once(opened: Open) -> None:
    """A picture that asks the browser what moves in it has the page laid out a second time."""
    params = {"max_new_tokens": 32, "max_denoising_steps": 16}
    trace = engines.run("entropy-bound", "tiny-canvas", "shuffle: Ada, Oscar, Joe, Uma", params=params)
    page, steps = opened([trace], folded=True).page, len(trace.steps)
    page.evaluate(FRAMES, steps)  # what the first showing makes
    page.evaluate("handles[0].seek(0)")
    rests(page.locator("[data-view=Canvas]"))
    tools = page.context.new_cdp_session(page)
    tools.send("Performance.enable")

    def layouts() -> float:
        return next(m["value"] for m in tools.send("Performance.getMetrics")["metrics"] if m["name"] == "LayoutCount")

    before = layouts()
    page.evaluate(FRAMES, steps)
    assert steps / 2 < layouts() - before <= steps + 1


CELLS = """() => [...document.querySelectorAll('.dx-cells .dx-cell')].map((cell) => [cell.textContent, cell.dataset.s,
  cell.style.background])"""
FOLLOW = """async (batches) => { const found = []; let dressed = new Set();
  const watch = new MutationObserver((all) => all.forEach(({ target }) => { const cell = target.closest?.(".dx-cell");
    if (cell) dressed.add(cell); }));
  for (const batch of batches) {
    handles[0].push(batch);
    if (batch.header) {
      handles[0].context.setLane("");
      watch.observe(document.querySelector(".dx-cells"), { subtree: true, childList: true, attributes: true });
    }
    await new Promise((done) => setTimeout(done, 5));
    found.push(dressed.size);
    dressed = new Set();
  } return found; }"""


def test_a_live_board_dresses_only_the_cells_that_changed(opened: Open) -> None:
    """A run that goes on brings new entries of the token table with every batch. Cells are laid out anew where they
    need another width, not each time."""
    page = opened([masked(24, 4)]).page
    trace = masked(40, 20)
    parts = batches(trace)[1:-1]
    known = {piece["id"]: piece for piece in parts[1]["pieces"]}
    parts[0]["pieces"] = [known[i] for i in (0, 1, *trace.header.prompt_ids)]
    for part, step in zip(parts[1:], trace.steps, strict=True):
        part["pieces"] = [known[i] for i in step.commits.tokens]
    dressed = page.evaluate(FOLLOW, parts)[1:]
    assert all(dressed), "every step changes something"
    # up to three were written now and as many before; a few batches change the width of all cells
    assert sum(n <= 6 for n in dressed) >= 14, dressed
    live = page.evaluate(CELLS)
    page.evaluate("(text) => handles[0].load(text, { at: 'end' })", shown(trace))
    assert len(live) == 40
    until(page, f"(live) => JSON.stringify(({CELLS})()) === JSON.stringify(live)", live)
