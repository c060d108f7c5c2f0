"""The picture of a block that is written and edited: it holds on every step and in every panel, says what the record
says, strikes out what was replaced and marks what came back; the board has a state of its own for what was replaced."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

import engines
from engines.core.trace import Trace
from tests.player.pictures import PANELS, held_on_every_step

Open = Callable[..., Any]
Call = Callable[..., Any]


@pytest.fixture(scope="module")
def trace() -> Trace:
    """Masks beside tokens, edits, and tokens that come back."""
    params = {"max_new_tokens": 16, "threshold": 0.5, "editing_threshold": 0.9, "max_post_steps": 5}
    return engines.run("token-editing", "tiny-dlm", "latin: B S I", params=params)


@pytest.mark.parametrize("options", PANELS, ids=str)
def test_it_holds_on_every_step(opened: Open, trace: Trace, options: dict[str, Any]) -> None:
    held_on_every_step(opened([trace], folded=True, **options).page, "Edits", len(trace.steps))


@pytest.mark.parametrize("width", [1280, 390])
def test_a_long_block_takes_several_rows(opened: Open, width: int) -> None:
    params = {"max_new_tokens": 64, "block_length": 64, "threshold": 0.2, "editing_threshold": 0.9}
    trace = engines.run("token-editing", "tiny-dlm", "story: Mia, boat, lamp", params=params | {"max_post_steps": 2})
    held_on_every_step(
        opened([trace], folded=True, viewport={"width": width, "height": 800}).page, "Edits", len(trace.steps)
    )


def test_it_says_what_the_record_says(opened: Open, trace: Trace) -> None:
    page = opened([trace], folded=True).page
    view, back = page.locator('[data-view="Edits"]'), 0
    for t, step in enumerate(trace.steps, 1):
        page.evaluate("t => handles[0].seek(t)", t)
        fates = Counter(step.records["edits"]["fates"])
        masks, tokens = fates["written"] + fates["open"], fates["changed"] + fates["kept"] + fates["doubted"]
        said = f"Masks: {fates['written']} of {masks} written" if masks else "No mask is left in the block."
        expect(view.locator(".dx-readout")).to_contain_text(said)
        expect(view.locator(".dx-readout")).to_contain_text(f"Tokens: {fates['changed']} of {tokens} replaced")
        restored = sum(
            fate == "changed" and times > 0
            for fate, times in zip(step.records["edits"]["fates"], step.records["edits"]["before"], strict=True)
        )
        expect(view.locator("text:visible", has_text="↩")).to_have_count(restored)
        bars = view.locator("svg g[data-s] > rect[rx='3']").locator("visible=true")
        expect(bars).to_have_count(masks + tokens - fates["kept"])
        back += restored
    assert back > 0


def test_what_was_replaced_is_struck_out_and_has_a_state_on_the_board(opened: Open, trace: Trace) -> None:
    page = opened([trace], folded=True).page
    t, step = next((t, s) for t, s in enumerate(trace.steps, 1) if s.commits and "changed" in s.commits.causes)
    page.evaluate("t => handles[0].seek(t)", t)
    changed = step.commits.causes.count("changed")
    struck = page.locator('[data-view="Edits"] text[text-decoration="line-through"]:visible')
    expect(struck).to_have_count(changed)
    expect(page.locator('.dx-cells .dx-cell[data-s="changed"]')).to_have_count(changed)


def test_what_each_position_held_is_found_in_the_commits(js: Call) -> None:
    steps = [
        {"commits": {"positions": [3, 4], "tokens": [7, 8], "causes": ["threshold", "top1"]}},
        {"commits": {"positions": [3], "tokens": [9], "causes": ["changed"]}},
        {"commits": None},
        {"commits": {"positions": [3, 5], "tokens": [7, 1], "causes": ["changed", "quota"]}},
    ]
    assert js("views/edits.js", "[...M.replaced(steps)]", steps=steps) == [[3, [7, 9]]]


@pytest.fixture(scope="module")
def moved() -> Trace:
    """Positions that are deleted and masks that are inserted; words of the prompt stand in for the orders."""
    params = {"max_new_tokens": 16, "threshold": 0.7, "editing_threshold": 0.0, "max_post_steps": 1}
    orders = {"delete_token_id": 447, "split_token_id": 445}
    return engines.run("llada22", "tiny-blockdlm", "copy: Leo, Dora, Hugo, Ben, Gina", params=params | orders)


@pytest.mark.parametrize("options", PANELS, ids=str)
def test_moves_hold_on_every_step(opened: Open, moved: Trace, options: dict[str, Any]) -> None:
    held_on_every_step(opened([moved], folded=True, **options).page, "Edits", len(moved.steps))


def test_what_goes_what_comes_and_where_the_rest_stands(opened: Open, moved: Trace) -> None:
    page = opened([moved], folded=True).page
    view, seen = page.locator('[data-view="Edits"]'), Counter[str]()
    for t, step in enumerate(moved.steps, 1):
        if "edits" not in step.records:
            continue
        page.evaluate("t => handles[0].seek(t)", t)
        edits, commits = step.records["edits"], step.commits
        assert commits
        fates, causes = Counter(edits["fates"]), Counter(commits.causes)
        for word, fate in (("delete", "deleted"), ("insert", "split"), ("no room", "pushed")):
            expect(view.locator("svg text:visible", has_text=word)).to_have_count(fates[fate])
        expect(view.locator("svg text:visible", has_text="✕")).to_have_count(fates["deleted"] + fates["pushed"])
        expect(view.locator("svg text:visible", has_text="+ ?")).to_have_count(causes["inserted"] + causes["appended"])
        stays = [(q, commits.moved(q)) for q in edits["positions"]]
        moves = sum(now is not None and now != q for q, now in stays)
        expect(view.locator("svg path.dx-arc").locator("visible=true")).to_have_count(moves)
        told = (("Deleted", fates["deleted"]), ("Masks inserted", causes["inserted"]), ("No room", fates["pushed"]))
        for name, n in told:
            said = expect(view.locator(".dx-readout"))
            said.to_contain_text(f"{name}: {n}.") if n else said.not_to_contain_text(f"{name}:")
        seen += fates + causes
    assert min(seen[kind] for kind in ("deleted", "split", "pushed", "changed", "inserted", "appended")) > 0


def test_names_of_rows_do_not_overlap_at_a_threshold_of_zero(opened: Open, moved: Trace) -> None:
    page = opened([moved], folded=True).page
    page.evaluate("handles[0].seek(2)")
    view = page.locator('[data-view="Edits"]')
    boxes = [view.locator("svg text:visible", has_text=name).first.bounding_box() for name in ("0 %", "after")]
    assert boxes[0] and boxes[1] and boxes[0]["y"] + boxes[0]["height"] <= boxes[1]["y"] + 2


def test_what_a_position_held_moves_with_it(js: Call) -> None:
    steps = [
        {"commits": {"positions": [3, 4, 5], "tokens": [7, 8, 6], "causes": ["quota"] * 3}},
        {"commits": {"positions": [4, 5], "tokens": [9, 5], "causes": ["changed", "changed"]}},
        {"commits": {"positions": [5], "tokens": [1], "causes": ["appended"], "removed": [3], "inserted": [5]}},
        {"commits": {"positions": [3], "tokens": [1], "causes": ["inserted"], "removed": [5], "inserted": [3]}},
    ]
    assert js("views/edits.js", "[...M.replaced(steps)]", steps=steps) == [[4, [8]], [5, [6]]]
