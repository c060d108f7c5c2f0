"""The view of judged drafts: who lets a token stand, a line that can be moved, and runs that nobody judged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import engines
from engines.core.trace import Trace

Open = Callable[..., Any]
Call = Callable[..., Any]
ROWS = [
    {"value": 0.9, "standard": True},
    {"value": 0.2, "standard": True},
    {"value": 0.7, "standard": False},
    {"value": 0.5, "standard": False},
    {"value": 0.9, "standard": True},
]


@pytest.fixture(scope="module")
def slips() -> Trace:
    prompt = "remove any: Vera, Amy, Cara, Emma, Carl, Rita, Dora, Ben"
    return engines.run("judge-decoding", "tiny-ar-l", prompt, params={"max_new_tokens": 24})


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (0.5, ["both", "standard", "judge", "none", "behind"]),  # the line itself is not above the line
        (0.4, ["both", "standard", "judge", "judge", "both"]),
        (1.0, ["standard", "standard", "none", "behind", "behind"]),
        (0.0, ["both", "both", "judge", "judge", "both"]),
    ],
)
def test_a_line_decides_until_the_first_refusal(js: Call, line: float, said: list[str]) -> None:
    assert js("views/judged.js", "M.decide(rows, line)", rows=ROWS, line=line) == said


def test_a_tree_whose_rows_were_not_all_judged_has_no_verdict(js: Call) -> None:
    tree = {"tokens": [7, 1, 2], "values": [None, 0.3, 0.8], "chances": [None, 1.0, 0.4], "uniforms": [None, None, 0.6]}
    rows = js("views/judged.js", "M.judged(tree)", tree=tree)
    assert [(row["token"], row["value"], row["standard"]) for row in rows] == [(1, 0.3, True), (2, 0.8, False)]
    for broken in ({"values": []}, {"chances": [None, 1.0, None]}, {"tokens": []}):
        assert js("views/judged.js", "M.judged(tree)", tree=tree | broken) == []
    assert js("views/judged.js", "M.judged(undefined)") == []


def test_the_recorded_line_gives_the_recorded_decision(opened: Open, slips: Trace) -> None:
    for options in ({}, {"viewport": {"width": 390, "height": 800}}, {"color_scheme": "dark"}):
        page = opened([slips], folded=True, **options).page
        view = page.locator('[data-view="Judged"]')
        for t, step in enumerate(slips.steps, 1):
            page.evaluate("t => handles[0].seek(t)", t)
            said = view.locator(".dx-readout").first.inner_text()
            kept, drafted, alone = (int(step.facts[name]) for name in ("accepted", "drafted", "standard"))
            ended = step.commits.tokens[-1] in slips.header.eos_ids
            assert f" of {drafted}; {alone} without the judge." in said
            assert "Not lossless" in said and (ended or f": {kept} of " in said)


def test_the_line_is_moved_by_keys_and_goes_back(opened: Open, slips: Trace) -> None:
    page = opened([slips], folded=True).page
    view = page.locator('[data-view="Judged"]')
    page.evaluate("handles[0].seek(1)")
    slider, back = view.get_by_role("slider"), view.get_by_role("button", name="as recorded")
    assert back.is_disabled()
    slider.focus()
    page.keyboard.press("Home")
    derived, drafted = view.locator("[aria-live]"), int(slips.steps[0].facts["drafted"])
    assert derived.inner_text() == f"derived: 8 of {drafted} stay"
    page.keyboard.press("End")
    assert derived.inner_text() == f"derived: 0 of {drafted} stay"
    back.click()
    assert derived.inner_text() == ""


def test_a_run_that_nobody_judged_does_not_show_it(opened: Open) -> None:
    trace = engines.run("specdec-pp", "tiny-ar-l", "add: 45 + 86", params={"max_new_tokens": 12})
    page = opened([trace]).page
    page.evaluate("handles[0].seek(1)")
    assert page.locator('[data-view="Judged"]').count() == 1
    assert not page.locator('[data-view="Judged"]').is_visible()
