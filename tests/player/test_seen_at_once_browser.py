"""Pictures of what models see and keep: each holds on every step, in narrow and dark panels, and where its record has
gaps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

import engines
from engines.core.trace import Trace
from tests.player.pictures import INSIDE

Open = Callable[..., Any]
RUNS: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "Media": ("sjd", "tiny-digits", "3", {}),
    "Word": ("cppd", "tiny-reader", "bookkeeper", {}),
    "Starfield": ("ultramem-v2", "tiny-ultramem", "fact: Ada Raven", {"max_new_tokens": 6}),
    "Phases": ("encoder-return", "tiny-encdec", "ask: Which cities? Mia lives in Rome. Ben has a kite.", {}),
    "Seen": ("vispec", "tiny-vlm", "scene 12", {"max_new_tokens": 24}),
    "Scene": ("scene-heavy", "tiny-reader", "cafe", {"scene": "wall"}),
    "Operators": ("pldr-llm", "tiny-pldr", "story: Mia, boat", {"max_new_tokens": 16}),
}
OPTIONS = [{}, *({"viewport": {"width": width, "height": 800}} for width in (390, 820)), {"color_scheme": "dark"}]


@pytest.fixture(scope="module", params=RUNS)
def drawn(request: pytest.FixtureRequest) -> tuple[str, Trace]:
    slug, model, prompt, params = RUNS[request.param]
    return request.param, engines.run(slug, model, prompt, params=params)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_each_picture_holds_on_every_step(opened: Open, drawn: tuple[str, Trace], options: dict[str, Any]) -> None:
    name, trace = drawn
    page = opened([trace], folded=True, **options).page
    drawings = page.locator(f'[data-view="{name}"] svg')
    for t in range(len(trace.steps) + 1):
        page.evaluate("t => handles[0].seek(t)", t)
        for i in range(drawings.count()):
            if drawings.nth(i).is_visible():
                assert drawings.nth(i).evaluate(INSIDE) == 0, t
    page.wait_for_function("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize(
    "params", [{"window": 1}, {"window": 64}, {"init": "left"}, {"criterion": "jacobi"}, {"max_new_tokens": 1}], ids=str
)
def test_a_window_of_any_width_shows_the_tests_of_its_call(opened: Open, params: dict[str, Any]) -> None:
    trace = engines.run("sjd", "tiny-digits", "3", params=params)
    page = opened([trace], folded=True).page
    view = page.locator('[data-view="Media"]')
    page.evaluate("handles[0].seek(0)")
    expect(view.locator(".dx-readout").first).to_have_text("No picture yet.")
    for t, step in enumerate(trace.steps, 1):
        page.evaluate("t => handles[0].seek(t)", t)
        known = sum(len(one.commits.tokens) for one in trace.steps[:t])
        said = f"{known} of 64 picture tokens after {t} calls; one token per call: {t}."
        expect(view.locator(".dx-readout").first).to_have_text(said)
        if step.tree is None:
            expect(view.locator("svg.dx-tower")).to_be_hidden()
            continue
        names = view.locator("svg.dx-tower > g:last-child text").all_text_contents()
        rule = "the same token again?" if params.get("criterion") == "jacobi" else "min(1, p/q)"
        assert any(text.startswith(f"call {t}") and text.endswith(rule) for text in names)
        tests = view.locator("svg.dx-tower > g:nth-child(2) g:visible")
        states = tests.evaluate_all("all => all.map((one) => one.dataset.s)")
        fates = {"accepted": "accepted", "mismatch": "rejected", "unreached": "unreached"}
        guessed = step.tree.why[1:]
        assert states == [fates[why] for why in guessed][: len(states)] and len(states) >= min(15, len(guessed))


def test_a_gap_in_the_record_leaves_the_picture_of_the_call_before(opened: Open) -> None:
    trace = engines.run("sjd", "tiny-digits", "3", params={"max_new_tokens": 24})
    trace.steps[2].media = None
    page = opened([trace], folded=True).page
    view = page.locator('[data-view="Media"]')
    page.evaluate("handles[0].seek(3)")
    known = sum(len(step.commits.tokens) for step in trace.steps[:2])
    expect(view.locator(".dx-readout").first).to_contain_text(f"{known} of 64 picture tokens after 3 calls")
    expect(view.locator("canvas:visible")).to_have_count(3)
    expect(view.locator("svg.dx-tower")).to_be_hidden()


def test_copies_stand_above_the_columns_of_the_tree_that_they_are_in(opened: Open) -> None:
    prompt = "python: class Boat(name: str, speed: int, crew: int)"
    trace = engines.run("rasd", "tiny-ar-l", prompt, params={"max_new_tokens": 48})
    page = opened([trace], folded=True, viewport={"width": 1440, "height": 900}).page
    view = page.locator('[data-view="DraftTree"]')
    drawn = 0
    for t, step in enumerate(trace.steps, 1):
        page.evaluate("t => handles[0].seek(t)", t)
        if not any(source.kind != "model" for source in step.tree.guessed_from):
            continue
        shown = "all => all.filter(e => e.style.display !== 'none').map(e => e.getAttribute('d'))"
        for way in view.locator(".dx-threads path").evaluate_all(shown):
            (x, _), (end, _) = (pair.split(",") for pair in (way[1:].split("C")[0], way.split(" ")[-1]))
            assert abs(float(x) - float(end)) < 1, way
            drawn += 1
        notes = [text for text in view.locator(".dx-quiet:visible").all_text_contents() if text.endswith("taken")]
        taken = [len({cell for _, cell in source.links}) for source in step.tree.guessed_from if source.kind != "model"]
        assert [int(note.split()[0 if note[0] != "…" else 1].replace("none", "0")) for note in notes] == taken
    assert drawn > 8
