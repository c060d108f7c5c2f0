"""Several runs in one view: one grid for all boards, heads of one height, the compact mode and the verdict."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

import engines
from engines.core.trace import Piece, Span, Trace
from explorer.figures.compare import saved_at_end
from explorer.figures.handed import shown
from explorer.figures.metrics import measure
from tests.player.handmade import drafting, masked
from tests.player.pictures import SIZED, becomes, until

Call = Callable[..., Any]
SIZES = [(1440, 900), (1920, 1080), (390, 844)]
LAID = """() => handles.map(({ root, views }) => {
  const { columns, rowHeight: pitch } = views.board().view.grid, { top } = root.getBoundingClientRect(),
    box = root.querySelector('.dx-board').getBoundingClientRect(),
    cells = [...root.querySelectorAll('.dx-cells .dx-cell')].filter((node) => node.style.display !== 'none'),
    places = cells.map((node) => node.getBoundingClientRect()).map(({ x, y }) => [x - box.x, y - box.y]);
  return { columns, pitch, panel: top, above: box.top - top, places }; })"""
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


SAME = """() => { const laid = (LAID)(), [first] = laid;
  return laid.every(({ columns, pitch, places }) => columns === first.columns && pitch === first.pitch &&
    places.every(([x, y], i) => !first.places[i] ||
      Math.max(Math.abs(x - first.places[i][0]), Math.abs(y - first.places[i][1])) < 0.6)); }""".replace("LAID", LAID)


@pytest.mark.parametrize(
    "n", [pytest.param(1, marks=pytest.mark.pages), 2, pytest.param(3, marks=pytest.mark.pages), 4]
)
def test_a_token_stands_at_the_same_place_in_every_board(opened: Call, n: int) -> None:
    page = opened(unlike(n), viewport={"width": 1440, "height": 900}).page
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        until(page, SIZED)
        until(page, SAME)
        until(page, LEVEL)


FIT = """() => {
  const boxes = handles.map(({ root }) => root.getBoundingClientRect());
  return Math.max(...boxes.map((b) => b.bottom)) - Math.min(...boxes.map((b) => b.top));
}"""
COMPACT = "() => handles.map(({ root }) => root.hasAttribute('data-compact'))"


@pytest.mark.parametrize("n", [3, 4])
def test_from_three_runs_on_all_fit_in_one_screen(opened: Call, n: int) -> None:
    page = opened(unlike(n), viewport={"width": 1440, "height": 900}).page
    becomes(lambda: page.evaluate(COMPACT), [True] * n)
    bar = page.locator(".dx-toolbar .dx-buttons").bounding_box()["height"]
    until(page, f"(most) => ({FIT})() <= most", 880 - bar)
    laid = page.evaluate(LAID)
    assert all(one["above"] <= 48 for one in laid), "a board and one line"
    assert [one["panel"] for one in laid] == sorted(one["panel"] for one in laid)
    assert len({(one["columns"], one["pitch"]) for one in laid}) == 1
    page.evaluate("handles[0].seek(3)")
    line = page.locator(".dx-line1").first
    expect(line).to_contain_text("3 model calls")
    expect(page.locator(".dx-line1").nth(2)).to_contain_text("draft calls")
    switch = page.get_by_role("button", name="Compact", exact=True)
    switch.click()
    becomes(lambda: page.evaluate(COMPACT), [False] * n)
    expect(line).to_be_hidden()
    expect(page.locator(".dx-figures").first).to_be_visible()
    switch.click()
    becomes(lambda: page.evaluate(COMPACT), [True] * n)


def test_two_runs_are_compact_only_if_asked_and_runs_that_wait_count(opened: Call) -> None:
    page = opened(unlike(3), viewport={"width": 1440, "height": 900}).page
    page.evaluate("handles[2].clear()")
    becomes(lambda: page.evaluate(COMPACT), [False] * 3)
    page.get_by_role("button", name="Compact", exact=True).click()
    becomes(lambda: page.evaluate(COMPACT)[:2], [True] * 2)
    page.evaluate("() => handles.forEach((handle) => handle.clear())")
    becomes(lambda: page.evaluate(COMPACT), [False] * 3)
    page.evaluate(
        """() => {
          handles.forEach((handle, i) => handle.push({ run: `${i}`, seq: 0, state: "queued", title: `Method ${i}` }));
          const { header, pieces } = JSON.parse(document.querySelector("script[data-trace]").textContent);
          handles[0].push({ run: "0", seq: 1, header, pieces });
        }"""
    )
    becomes(lambda: page.evaluate(COMPACT), [True] * 3)


def twice(method: str, control: Trace) -> Trace:
    """The drafting run again, as another method's run whose control is `control`, 1.4 times as fast and with two tokens
    changed."""
    trace = drafting()
    trace.header.method, trace.header.title, trace.header.baseline = method, f"The {method}", control.header.method
    for step in trace.steps:
        step.model_seconds, step.method_seconds = step.model_seconds / 1.4, step.method_seconds / 1.4
    return trace


def compared() -> list[Trace]:
    """A control and two runs that are held against it, the second of which ends in another text."""
    control = drafting()
    control.header.method, control.header.title = "plain", "Plain"
    same, other = twice("same", control), twice("other", control)
    other.end.output_ids = [*other.end.output_ids[:2], 9, *other.end.output_ids[3:]]
    other.end.text = "another text"
    for trace in (control, same, other):
        trace.header.prompt, trace.header.models[0].tokenizer = "the same", "one"
    return [same, control, other]


def test_the_verdict_is_told_when_all_runs_were_seen_and_each_part_has_its_receipt(opened: Call) -> None:
    traces = compared()
    page = opened(traces, viewport={"width": 1440, "height": 900}).page
    strip, at = page.locator(".dx-verdict"), "() => handles[0].root.getBoundingClientRect().top"
    top = page.evaluate(at)
    page.evaluate("handles[0].seek(4)")
    expect(strip).to_contain_text("The verdict comes when all runs were shown to their end.")
    expect(strip.locator("button")).to_have_count(0)
    page.evaluate("handles[0].group.seek(1e9)")
    lines = strip.locator("p")
    expect(lines).to_have_count(2)
    measured = {metric.name: metric for metric in measure(traces[0])}
    share = measured["acceptance_rate_of_drafted"].value
    told = ["1 The same:", "same text as Plain", "1.4× tokens/s", f"{round(100 * share)} % of drafts accepted"]
    told += [f"{measured['target_calls'].value} model calls", f"{measured['calls_draft'].value} draft calls beside"]
    for part in told:
        expect(lines.nth(0)).to_contain_text(part)
    expect(lines.nth(1)).to_contain_text("text differs from Plain after 2 tokens")
    becomes(lambda: page.evaluate(at), top)  # its place was kept free
    parts, box = lines.nth(0).locator("button"), page.locator(".dx-receipt")
    expect(parts).to_have_count(5)
    for part in parts.all():
        part.click()
        expect(box.locator("dt", has_text="formula")).to_be_visible()
        if part.get_attribute("data-part") == "speed":
            expect(box).to_contain_text("warm-up, recording and drawing are left out")
            expect(box).to_contain_text(measured["tokens_per_second"].terms)
        page.keyboard.press("Escape")
        expect(box).to_have_count(0)
    page.evaluate("handles[2].clear()")
    expect(strip.locator("p:visible")).to_have_count(1)
    page.evaluate("handles[1].clear()")
    expect(strip).to_be_hidden()


def verdict(js: Call, run: Trace, basis: Trace, of: str) -> list[Any]:
    read = "texts.map((text) => dxModules.use('player/run.js').Run.from(text))"
    texts = [shown(run, [basis]), shown(basis)]
    return js("views/verdict.js", f"(([run, basis]) => M.verdict(run, basis).map({of}))({read})", texts=texts)


@pytest.mark.parametrize("rule", [True, False])
def test_what_a_rule_for_the_end_saves_is_not_credited_to_the_method(js: Call, rule: bool) -> None:
    """The strip tells it in a part of its own, with Python's number; without the rule there is no such part."""
    prompt = "sort: Mia, Leo, Ada"
    control = engines.run("threshold", "tiny-dlm", prompt)
    own = engines.run("creditdecoding", "tiny-dlm", prompt, params={"credit_alpha": 0.0, "stop_at_end": rule})
    body = "({ name, text, value, receipt }) => ({ name, text, value, receipt: JSON.stringify(receipt()) })"
    said = verdict(js, own, control, body)
    ends = [part for part in said if part["name"] == "end"]
    assert bool(ends) is rule
    if rule:
        after, calls = saved_at_end(own, control) or (0, 0)
        assert ends[0]["value"] == after and f"saves {after} of these" in ends[0]["text"]
        assert f"{after} of the {calls} of Fast-dLLM threshold" in ends[0]["receipt"]
        names = [part["name"] for part in said]
        assert names.index("end") == names.index("calls") + 1, "beside the calls that it is about"
