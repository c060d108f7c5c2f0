"""Receipts in the player: the same numbers as in Python, and a box that a keyboard reaches and leaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from explorer.figures import metrics
from explorer.figures.definitions import DEFINITIONS, PLAYED, fill
from explorer.runs.gallery import gallery
from tests.player.handmade import drafting, masked, recorded
from tests.player.pictures import until

Call = Callable[..., Any]


def samples() -> list[Any]:
    return [gallery().get("33-stand-python")]


@pytest.mark.parametrize(
    "traces", [recorded, lambda: [masked(), drafting()], samples], ids=["recorded", "made", "samples"]
)
def test_numbers_and_filled_formulas_are_those_of_python(js: Call, traces: Call) -> None:
    terms = [DEFINITIONS[name].terms for name in PLAYED if name not in ("revised", "missing")]
    for trace in traces():
        code = (
            "(() => { const run = modules['store.js'].Run.from(text), n = M.numbers(run, run.length); return [n, "
            "terms.map((t) => M.fill(t, n))]; })()"
        )
        found, filled = js("receipt.js", code, text=trace.to_json(), terms=terms)
        here = metrics.numbers(trace)
        assert found == {
            name: pytest.approx(value) if isinstance(value, float) else value for name, value in here.items()
        }
        assert filled == [fill(one, here) for one in terms]


def test_a_receipt_says_all_and_gives_the_focus_back(opened: Call) -> None:
    trace = drafting()
    trace.header.models[0].sha256, trace.header.versions = "ab" * 32, {"torch": "9.9.9"}
    trace.header.warmup_seconds = 0.25
    page = opened([trace])
    page.page.evaluate("handles[0].seek(9)")
    figure = page.page.get_by_role("button", name="Tokens / model call")
    figure.focus()
    page.page.keyboard.press("Enter")
    box = page.page.get_by_role("dialog")
    known = metrics.numbers(trace)
    bonus, corrections = known["bonus"], known["corrections"]
    said = [
        f"{known['tokens']} ÷ {known['target_calls']} = ",
        "derived: computed",
        "✗ not counted; 12 so far",
        f"bonus tokens✓ counted; {bonus} so far",
        f"corrections after a refusal✓ counted; {corrections} so far",
        "0.250000 s, not counted",
    ]
    for part in (*said, "ab" * 32, "torch 9.9.9", "2 threads", "float32", "Test machine", "seed"):
        expect(box).to_contain_text(part)
    assert bonus + corrections > 0
    page.page.keyboard.press("ArrowLeft")
    page.stands(9)
    page.page.keyboard.press("Escape")
    expect(box).to_have_count(0)
    expect(figure).to_be_focused()
    figure.click()
    page.page.mouse.click(5, 895)
    expect(box).to_have_count(0)


def test_a_number_of_the_race_opens_its_receipt(opened: Call) -> None:
    page = opened([masked(24, 4)])
    page.page.get_by_label("Freeze at").fill("2")
    page.page.get_by_label("Freeze at").press("Enter")
    page.page.locator(".dx-standing .dx-number").nth(2).press("Enter")
    box = page.page.get_by_role("dialog")
    expect(box).to_contain_text("Still missing: 4")
    expect(box).to_contain_text("10 of the output − 6 in their place = 4")
    page.page.keyboard.press("Escape")
    expect(page.page.locator(".dx-standing .dx-number").nth(2)).to_be_focused()


def test_a_receipt_fits_a_phone(opened: Call) -> None:
    page = opened([masked(24, 4)], viewport={"width": 390, "height": 700})
    page.page.get_by_role("button", name="Tokens / s").click()
    until(
        page.page,
        """() => { const { left, right, top, bottom } = document.querySelector(".dx-receipt").getBoundingClientRect();
          return left >= 0 && right <= 390 && top >= 0 && bottom <= 700 &&
            document.documentElement.scrollWidth === 390; }""",
    )
    page.page.get_by_role("button", name="Close").click()


def test_amounts_stand_only_with_numbers_that_they_are_part_of(js: Call) -> None:
    """Tokens per call of four samples are of all their tokens; what is known of end marks and bonus tokens is of the
    answer, so no amount stands there."""
    code = (
        "(() => { const run = modules['store.js'].Run.from(text), known = M.numbers(run, run.length); "
        "return ['tokens', 'tokens_per_call'].map((name) => Object.fromEntries("
        "M.receipt(name, 'x', run, known, '').sections[1][1])); })()"
    )
    for name, several in (("33-stand-python", True), ("26-speculation-story", False)):
        trace = gallery().get(name)
        bonus = metrics.numbers(trace)["bonus"]
        tokens, per_call = js("receipt.js", code, text=trace.to_json())
        told = f"✓ counted; {bonus} in this run"
        assert tokens["bonus tokens"] == told
        assert per_call["bonus tokens"] == ("✓ counted" if several else told)


def test_a_run_of_one_model_has_model_calls_in_its_receipt_too(opened: Call) -> None:
    page = opened([masked(24, 4)])
    page.page.locator("[data-figure=target_calls]").click()
    expect(page.page.get_by_role("dialog").get_by_role("heading", level=2)).to_contain_text("Model calls: ")
