"""Receipts in the player: the same numbers as in Python, and a box that a keyboard reaches and leaves."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from explorer.figures import metrics
from explorer.figures.definitions import DEFINITIONS, PLAYED, fill
from explorer.figures.handed import shown
from explorer.runs.gallery import gallery
from tests.player.handmade import drafting, masked, recorded
from tests.player.pictures import until

Call = Callable[..., Any]


@pytest.mark.parametrize(
    "traces",
    [recorded, lambda: [masked(), drafting(), gallery().get("33-stand-python")]],
    ids=["recorded", "made"],
)
def test_numbers_and_filled_formulas_are_those_of_python(js: Call, traces: Call) -> None:
    terms = [DEFINITIONS[name].terms for name in PLAYED if name not in ("revised", "missing")]
    code = "((run, n) => [n, terms.map((t) => M.fill(t, n))])"
    for trace in traces():
        read = "((run) => [run, M.numbers(run, run.length)])(dxModules.use('player/run.js').Run.from(text))"
        found, filled = js("receipt.js", f"{code}(...{read})", text=shown(trace), terms=terms)
        here = metrics.numbers(trace)
        close = {name: pytest.approx(value) if isinstance(value, float) else value for name, value in here.items()}
        assert found == close and filled == [fill(one, here) for one in terms]


FITS = """() => { const { left, right, top, bottom } = document.querySelector(".dx-receipt").getBoundingClientRect();
  return left >= 0 && right <= 390 && top >= 0 && bottom <= 700 && document.documentElement.scrollWidth === 390; }"""


def test_a_receipt_says_all_and_gives_the_focus_back(opened: Call) -> None:
    trace = drafting()
    trace.header.models[0].sha256, trace.header.versions = "ab" * 32, {"torch": "9.9.9"}
    trace.header.warmup_seconds = 0.25
    opened_ = opened([trace])
    page = opened_.page
    page.evaluate("handles[0].seek(9)")
    figure, box = page.get_by_role("button", name="Tokens / model call"), page.get_by_role("dialog")
    figure.focus()
    page.keyboard.press("Enter")
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
    page.keyboard.press("ArrowLeft")
    opened_.stands(9)
    page.keyboard.press("Escape")
    expect(box).to_have_count(0)
    expect(figure).to_be_focused()
    page.set_viewport_size({"width": 390, "height": 700})
    figure.click()
    until(page, FITS)
    page.mouse.click(5, 695)
    expect(box).to_have_count(0)


def test_a_number_of_the_race_opens_its_receipt(opened: Call) -> None:
    page = opened([masked(24, 4)]).page
    page.get_by_label("Freeze at").fill("2")
    page.get_by_label("Freeze at").press("Enter")
    number, box = page.locator(".dx-standing .dx-number").nth(2), page.get_by_role("dialog")
    number.press("Enter")
    expect(box).to_contain_text("Still missing: 4")
    expect(box).to_contain_text("10 of the output − 6 in their place = 4")
    page.keyboard.press("Escape")
    expect(number).to_be_focused()
    page.locator("[data-figure=target_calls]").click()
    expect(box.get_by_role("heading", level=2)).to_contain_text("Model calls: ")


def test_amounts_stand_only_with_numbers_that_they_are_part_of(js: Call) -> None:
    """Tokens per call of four samples are of all their tokens; what is known of end marks and bonus tokens is of the
    answer, so no amount stands there."""
    code = (
        "(() => { const run = dxModules.use('player/run.js').Run.from(text), known = M.numbers(run, run.length); "
        "return ['tokens', 'tokens_per_call'].map((name) => Object.fromEntries("
        "M.receipt(name, 'x', run, known, '').sections[1][1])); })()"
    )
    for name, several in (("33-stand-python", True), ("26-speculation-story", False)):
        trace = gallery().get(name)
        bonus = metrics.numbers(trace)["bonus"]
        tokens, per_call = js("receipt.js", code, text=shown(trace))
        told = f"✓ counted; {bonus} in this run"
        assert tokens["bonus tokens"] == told
        assert per_call["bonus tokens"] == ("✓ counted" if several else told)
