"""The view of what is copied: counts from the record alone, what was withdrawn is forgotten, drawn without a fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import engines
from engines.core.trace import Trace

Open = Callable[..., Any]
SOURCE = [3, 4, 5, 6, 7]


@pytest.fixture(scope="module")
def edit() -> Trace:
    prompt = "grammar: Yesterday Sam plays near the garden. Mia play in the house every day."
    return engines.run("aggressive-decoding", "tiny-ar-l", prompt, params={"max_new_tokens": 32})


def copies(js: Callable[..., Any], steps: list[dict[str, Any]], t: int) -> Any:
    """What the view makes of steps behind a prompt of five tokens."""
    run = {"prompt": SOURCE, "steps": [{"index": i, **step} for i, step in enumerate(steps)]}
    return js("rounds.js", "M.copies(run, t)", run=run, t=t)


def step(at: int, tokens: list[int], causes: list[str], *spans: tuple[int, int]) -> dict[str, Any]:
    positions = list(range(at, at + len(tokens)))
    found = [{"kind": "match", "start": start, "end": end} for start, end in spans]
    return {"commits": {"positions": positions, "tokens": tokens, "causes": causes}, "spans": found}


def test_a_ribbon_is_as_wide_as_what_was_kept(js: Callable[..., Any]) -> None:
    made = copies(js, [step(5, [3, 4, 9], ["accepted", "accepted", "bonus"], (0, 5)), step(8, [6], ["bonus"])], 2)
    assert [{k: one[k] for k in ("from", "pasted", "to", "kept", "wrote")} for one in made] == [
        {"from": 0, "pasted": 5, "to": 5, "kept": 2, "wrote": 3},
        {"from": -1, "pasted": 0, "to": 8, "kept": 0, "wrote": 1},
    ]
    assert made[0]["held"] is False


def test_of_several_places_the_one_that_was_taken_is_shown(js: Callable[..., Any]) -> None:
    made = copies(js, [step(5, [7, 3], ["accepted", "bonus"], (1, 3), (4, 5))], 1)
    assert (made[0]["from"], made[0]["kept"]) == (4, 1)


def test_what_was_withdrawn_is_no_copy_any_more(js: Callable[..., Any]) -> None:
    back = step(5, [-1, 8], ["withdrawn", "forced"])
    back["commits"]["positions"] = [5, 5]
    made = copies(js, [step(5, [3, 4], ["accepted", "bonus"], (0, 5)), back, step(6, [6], ["bonus"])], 3)
    assert [(one["step"], one["kept"]) for one in made if one["kept"]] == []


def test_it_stands_open_and_says_what_came_from_where(opened: Open, edit: Trace) -> None:
    for options in ({}, {"viewport": {"width": 390, "height": 800}}, {"color_scheme": "dark"}):
        page = opened([edit], folded=True, **options).page
        view = page.locator('[data-view="Copying"]')
        for t, said in ((1, "1 model call for 3 tokens, 2"), (5, "5 model calls for 16 tokens, 11")):
            page.evaluate("t => handles[0].seek(t)", t)
            assert said in view.locator(".dx-readout").inner_text()
        ribbons = view.locator('path[data-s="accepted"]:visible')
        assert ribbons.count() == sum(step.facts["accepted"] > 0 for step in edit.steps)
        assert view.locator('g[data-s="rejected"]:visible').count() == 3
