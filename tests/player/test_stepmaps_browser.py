"""Pictures of all steps at once: what a row shows is what its step did, a pointer over the rows sets the step, and a
long, wide or edited run still fits."""

import numpy as np
import pytest
from playwright.sync_api import expect

import engines
from engines.core.trace import Trace
from tests.player.handmade import masked
from tests.player.pictures import Stage, until

STANDS = "(step) => handles[0].debug().step === step"
HEAD, WRITTEN = 20, [0xF5, 0xB8, 0x3D]
PIXELS = """([view, places]) => { const c = document.querySelector(`[data-view=${view}] canvas`), r = devicePixelRatio;
  const { data } = c.getContext("2d").getImageData(0, 0, c.width, c.height);
  return places.map(([x, y]) => { const at = 4 * (Math.round(y * r) * c.width + Math.round(x * r));
    return [...data.slice(at, at + 3)]; }); }"""
PLACED = """(view) => { const rows = document.querySelector(`[data-view=${view}] .dx-stepmap-rows`);
  return { left: rows.offsetLeft, tall: rows.offsetHeight, wide: rows.offsetWidth }; }"""


def columns_of(trace: Trace) -> int:
    """As the module counts them: after the last place that ever holds more than the end mark three are left."""
    first, width = len(trace.header.prompt_ids), trace.header.canvas
    ends = set(trace.header.eos_ids)
    held = [
        at
        for step in trace.steps
        for at, token in zip(step.commits.positions, step.commits.tokens, strict=True)
        if token >= 0 and token not in ends
    ]
    return min(max(held) + 3, width - 1) + 1 - first


def test_rows_show_what_was_written_and_how_certain_the_rest_was(stage: Stage) -> None:
    trace = masked(30, 8)
    page = stage.show(trace, "Overview", details=True).page
    n, first = columns_of(trace), len(trace.header.prompt_ids)
    placed = page.evaluate(PLACED, "Overview")
    cell, tall = min(56, placed["wide"] / n), placed["tall"] / len(trace.steps)
    cells = [(step, position) for step in trace.steps for position in range(first, first + n)]
    corners = [[placed["left"] + (at - first) * cell + 3, HEAD + step.index * tall + 3] for step, at in cells]
    colours = page.evaluate(PIXELS, ["Overview", corners])
    for (step, position), colour in zip(cells, colours, strict=True):
        known = bool(np.isfinite(step.scores[0].values.array()[position]))
        assert colour == WRITTEN if position in step.commits.positions else (colour != [0, 0, 0]) == known


def test_a_pointer_over_the_rows_sets_the_step_and_what_is_not_played_is_veiled(stage: Stage) -> None:
    page = stage.show(masked(), "Overview", details=True).page
    page.evaluate("handles[0].seek(3)")
    tall = page.evaluate(PLACED, "Overview")["tall"] / 16
    veil = page.locator("[data-view=Overview] .dx-veil").evaluate("one => new DOMMatrix(one.style.transform).f")
    assert veil == pytest.approx(3 * tall)
    done = sum(len(step.commits.positions) for step in masked().steps[:3])
    letters = page.locator("[data-view=Overview] .dx-stepmap-axis text:visible").all_text_contents()
    assert len(letters) == 1 + 16 + done
    rows = page.locator("[data-view=Overview] .dx-stepmap-rows")
    rows.scroll_into_view_if_needed()
    box = rows.bounding_box()
    page.mouse.move(box["x"] + 60, box["y"] + 5.5 * tall)
    page.mouse.down()
    until(page, STANDS, 6)
    page.mouse.move(box["x"] + 90, box["y"] + 9.5 * tall, steps=4)
    until(page, STANDS, 10)
    page.mouse.up()
    page.mouse.move(box["x"] + 90, box["y"] + 2.5 * tall)
    expect(page.locator("[data-view=Overview] .dx-readout")).to_contain_text("step 3, position ")
    until(page, STANDS, 10)


@pytest.mark.parametrize("size", [(16, 1), (256, 48), (252, 200)])
def test_runs_of_any_size_fit(stage: Stage, size: tuple[int, int]) -> None:
    picture = stage.show(masked(*size), "Overview", details=True)
    for width in (1200, 390):
        stage.panel(width)
        wide, high, room, page = picture.after(
            1,
            """(view) => { const { width, height } = view.querySelector("canvas").getBoundingClientRect();
            return [width, height, view.querySelector(".dx-content").getBoundingClientRect().width,
              document.documentElement.scrollWidth]; }""",
        )
        assert wide <= room + 1 and high <= 520 and page <= width


def test_a_tape_shows_what_each_call_computes(stage: Stage) -> None:
    params = {"max_new_tokens": 48, "use_block_cache": True}
    trace = engines.run("fast-dllm-v2", "tiny-blockdlm", "add: 305 + 976", params=params)
    page = stage.show(trace, "Overview", details=True).page
    view = page.locator("[data-view=Tape]")
    page.evaluate("handles[0].seek(9)")
    fed = [step.tokens_fed for step in trace.steps]
    without = f"without a cache {9 * trace.header.canvas} (derived)"
    expect(view.locator(".dx-readout")).to_contain_text(f"9 model calls computed {sum(fed[:9])} positions; {without}.")
    sizes = view.locator(".dx-stepmap-axis text:visible").all_text_contents()
    assert sizes[-len(fed) :] == [str(n) for n in fed]
    trace = engines.run("threshold", "tiny-dlm", "add: 45 + 86", params={"cache": "dual", "max_new_tokens": 32})
    assert any(span.kind == "cache" for step in trace.steps for span in step.spans)
    stage.show(trace, "Overview", details=True)
    keys = view.locator(".dx-scale:visible").all_text_contents()
    assert any("older" in key for key in keys) and not any("exact" in key for key in keys)


def test_a_run_that_grows_paints_each_row_once_and_ends_as_a_finished_one(stage: Stage) -> None:
    """The map of a live run has room ahead: its rows are painted again where the room doubles, not with every step."""
    trace = masked(60, 24)
    page = stage.show(trace, "Overview", details=True).page
    painted = page.evaluate(
        """(whole) => { const { header, pieces, steps, end } = JSON.parse(whole), player = handles[0];
        let painted = 0; const real = CanvasRenderingContext2D.prototype.fillRect;
        CanvasRenderingContext2D.prototype.fillRect = function (...box) { painted++; return real.apply(this, box); };
        player.push({ run: "r", seq: 0, state: "running", header, pieces });
        steps.forEach((step, i) => player.push({ run: "r", seq: i + 1, steps: [step] }));
        const live = painted; painted = 0;
        player.push({ run: "r", seq: steps.length + 1, steps: [], end, state: "done" });
        return [live, painted]; }""",
        trace.to_json(),
    )
    live, done = painted
    assert 0 < live < 5 * done  # rooms of 8, 16 and 32 rows; every row with every step would be twelve times as many
    tall = page.evaluate(PLACED, "Overview")["tall"]
    assert tall / len(trace.steps) == pytest.approx(min(24, 420 // len(trace.steps)))
