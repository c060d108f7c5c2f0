"""The picture of a canvas: it holds on every step and in every panel, says what the record says, and shows at each
position what decides there; the sums of entropies are those of the sampler."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from playwright.sync_api import Page, expect

import engines
from engines.core.trace import Trace
from engines.methods.diffusion.entropy_bound import within_bound
from tests.player.pictures import PANELS, held_on_every_step

Open = Callable[..., Any]
Call = Callable[..., Any]
PROMPT = "shuffle: Ada, Oscar, Joe, Uma"  # where many answers are right, and the model wavers
PARAMS = {"max_new_tokens": 32, "max_denoising_steps": 16}
RUNS = {
    "entropy-bound": {},
    "block-refinement": {"threshold": 0.6, "editing_threshold": 0.8},
    "discrete-ddim": {"corrector_steps": 1, "corrector_k": 3},
}


@pytest.fixture(scope="module")
def trace() -> Trace:
    """Noise that is accepted, and noise again."""
    return engines.run("entropy-bound", "tiny-canvas", PROMPT, params=PARAMS)


@pytest.mark.parametrize("options", PANELS, ids=str)
def test_it_holds_on_every_step(opened: Open, trace: Trace, options: dict[str, Any]) -> None:
    held_on_every_step(opened([trace], folded=True, **options).page, "Canvas", len(trace.steps))


@pytest.mark.parametrize("slug", [slug for slug in RUNS if RUNS[slug]])
def test_it_holds_for_each_sampler(opened: Open, slug: str) -> None:
    trace = engines.run(slug, "tiny-canvas", PROMPT, params=PARAMS | RUNS[slug])
    page = opened([trace], folded=True).page
    held_on_every_step(page, "Canvas", len(trace.steps))
    for t, step in enumerate(trace.steps, 1):
        says(page, t, step.records["canvas"])


def says(page: Page, t: int, record: dict[str, Any]) -> None:
    """The sentence below the picture's title has the counts of a record."""
    page.evaluate("t => handles[0].seek(t)", t)
    said, n = page.locator('[data-view="Canvas"] .dx-readout'), len(record["after"])
    accepted = len(record.get("accepted", []))
    if record["kind"] == "drawn":
        expect(said).to_contain_text(f"{n} tokens drawn at random")
    elif record["kind"] == "correct":
        expect(said).to_contain_text(f"draws {accepted} of {n} tokens anew")
    else:
        expect(said).to_contain_text(f"{accepted} of {n} ")
        assert ("ends early" in said.inner_text()) == record.get("stop", False)


def test_it_says_what_the_record_says(opened: Open, trace: Trace) -> None:
    page = opened([trace], folded=True).page
    view = page.locator('[data-view="Canvas"]')
    for t, step in enumerate(trace.steps, 1):
        record = step.records["canvas"]
        says(page, t, record)
        n, denoised = len(record["after"]), record["kind"] == "denoise"
        bars = view.locator("svg g[data-s] > rect[rx='3']").locator("visible=true")
        expect(bars).to_have_count(n * denoised)
        chips = view.locator("svg g[data-s] > rect[rx='6']").locator("visible=true")
        expect(chips).to_have_count(n * (1 + denoised))
        expect(view.locator("circle:visible")).to_have_count(t - 1)
    causes = Counter(cause for step in trace.steps for cause in step.commits.causes)
    assert causes.keys() >= {"noise", "accepted", "settled"}


def test_the_board_has_the_states_of_a_canvas(opened: Open, trace: Trace) -> None:
    page = opened([trace], folded=True).page
    for t, step in enumerate(trace.steps, 1):
        page.evaluate("t => handles[0].seek(t)", t)
        for state in ("noise", "accepted", "renoised", "settled"):
            cells = page.locator(f'.dx-cells .dx-cell[data-s="{state}"]')
            expect(cells).to_have_count(step.commits.causes.count(state))
        # a random token is to be seen, though nothing is written yet
        noise = page.locator('.dx-cells .dx-cell[data-s="noise"]')
        assert all(text.strip() for text in noise.all_inner_texts())


@pytest.mark.parametrize("seed", range(5))
def test_the_sums_are_those_of_the_sampler(js: Call, seed: int) -> None:
    entropies = torch.rand(24, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) ** 3
    joint, accepted = within_bound(entropies, 0.5)
    told = js("views/canvas.js", "M.sums(entropies)", entropies=entropies.tolist())
    assert told["before"] == pytest.approx(joint.tolist(), abs=1e-9)
    assert [rank < int(accepted.sum()) for rank in told["rank"]] == accepted.tolist()
    assert told["sum"] == pytest.approx(float(entropies.sum()))


def large(steps: int) -> Trace:
    """256 positions, as the published model has, other noise in each step."""
    record = {"kind": "denoise", "number": 0, "step": 1, "steps": 48, "start": 12, "line": 0.1, "quiet": 0.005}
    trace = engines.run("entropy-bound", "tiny-canvas", PROMPT, params=PARAMS)
    start = len(trace.header.prompt_ids)
    del trace.steps[steps:]
    for step in trace.steps:
        ids = [20 + (i * 7 + step.index * 11) % 50 for i in range(256)]
        step.commits.positions, step.commits.tokens = list(range(start, start + 256)), ids
        step.commits.causes, step.commits.probabilities = ["noise"] * 256, []
        step.scores, step.candidates = [], None
        step.records["canvas"] = {**record, "start": start, "before": ids, "after": ids, "mean_entropy": 3.0} | (
            {"entropies": [0.01 * (i % 7) for i in range(256)], "sampled": ids, "accepted": [start]}
            if step.index
            else {"kind": "drawn"}
        )
    trace.end.output_ids = ids
    return trace


def test_a_large_canvas_is_narrow(opened: Open) -> None:
    """The board has fewer rows of what was read, all else is there."""
    page = opened([large(2)], folded=True).page
    held_on_every_step(page, "Canvas", 2)
    chips = page.locator('[data-view="Canvas"] svg g[data-s] > rect[rx="6"]').locator("visible=true")
    expect(chips).to_have_count(256)


WORDS = "[...document.querySelectorAll('.dx-cells .dx-cell')].map((cell) => cell.textContent)"


def test_cells_out_of_sight_wait_for_the_scrubbing_to_rest(opened: Open) -> None:
    page = opened([large(6)], folded=True).page
    right = {}
    for t in (2, 5):
        page.evaluate("t => handles[0].seek(t)", t)
        page.wait_for_timeout(400)
        right[t] = page.evaluate(WORDS)
    assert right[2][:256] != right[5][:256]
    page.evaluate("handles[0].seek(5)")
    at_once = page.evaluate(f"() => {{ handles[0].seek(2); return {WORDS}; }}")
    seen = [i for i, (now, then) in enumerate(zip(at_once, right[2], strict=True)) if now == then]
    late = [i for i, (now, then) in enumerate(zip(at_once, right[5], strict=True)) if now == then]
    assert set(range(12)) <= set(seen), "what is seen is there at once"
    assert len(late) > 128 and 255 in late
    page.wait_for_timeout(400)
    assert page.evaluate(WORDS) == right[2]
    page.evaluate("handles[0].seek(5)")
    page.evaluate("handles[0].seek(2)")
    scrolled = page.evaluate(
        f"""() => new Promise((done) => {{ const board = document.querySelector(".dx-board");
          board.scrollTop = 500;
          board.addEventListener("scroll", () => setTimeout(() => done({WORDS})), {{ once: true }}); }})"""
    )
    assert scrolled == right[2], "and all where a person scrolls"


FRAMES = """(steps) => new Promise((done) => { const slider = document.querySelector(".dx-toolbar input[type=range]");
  const frame = (at) => { if (at > steps) return done(); slider.value = at;
    slider.dispatchEvent(new Event("input")); requestAnimationFrame(() => frame(at + 1)); }; frame(1); })"""


def test_a_step_lays_the_page_out_once(opened: Open) -> None:
    """A picture that asked the browser what moves in it had the page laid out a second time."""
    page = opened([large(12)], folded=True).page
    page.evaluate(FRAMES, 12)  # what the first showing makes
    page.wait_for_timeout(400)
    tools = page.context.new_cdp_session(page)
    tools.send("Performance.enable")

    def layouts() -> float:
        return next(m["value"] for m in tools.send("Performance.getMetrics")["metrics"] if m["name"] == "LayoutCount")

    page.evaluate("handles[0].seek(0)")
    page.wait_for_timeout(400)
    before = layouts()
    page.evaluate(FRAMES, 12)
    assert layouts() - before <= 12  # 15 and more with the second one; less where frames fall together
