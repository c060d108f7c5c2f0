"""The view of a step's schedule: which parts belong to the modelled order, what is measured and what modelled, and the
rows that a cache holds exactly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import engines
from engines.core.trace import Trace
from tests.player.handmade import intervals

Open = Callable[..., Any]
Call = Callable[..., Any]


def part(lane: str, start: float, end: float, label: str, measured: bool = True, **more: Any) -> dict[str, Any]:
    return {"lane": lane, "start": start, "end": end, "label": label, "measured": measured, **more}


INTERVALS = intervals(
    [
        part("draft", 0.0, 9.0, "draft, 1 row"),  # no part of the modelled order
        part("one device", 1.0, 3.0, "attention 1"),
        part("one device", 3.0, 5.0, "attention 2"),
        part("device 2", 1.0, 3.0, "scheduled: attention 2", False),
        part("device 1", 1.0, 3.0, "scheduled: attention 1", False),
        part("arena", 0.0, 400.0, "attention 1", unit="bytes"),
    ]
)


def test_the_modelled_order_stands_under_the_parts_that_it_is_made_of(js: Call) -> None:
    found = js("views/schedule.js", "M.parts(intervals)", intervals=INTERVALS)
    assert found["tracks"] == [["one device", True], ["device 1", False], ["device 2", False]]
    assert (found["start"], found["measured"], found["modelled"], found["long"]) == (1.0, 4.0, 2.0, 4.0)
    assert len(found["shown"]) == 4


def test_without_a_modelled_order_all_that_was_measured_is_shown(js: Call) -> None:
    found = js("views/schedule.js", "M.parts(intervals)", intervals=INTERVALS[:3])
    assert [lane for lane, _ in found["tracks"]] == ["draft", "one device"] and found["modelled"] is None
    assert js("views/schedule.js", "M.parts([])") is None
    assert js("views/schedule.js", "M.parts(intervals)", intervals=INTERVALS[-1:]) is None


@pytest.mark.parametrize("options", [{}, {"viewport": {"width": 390, "height": 800}, "color_scheme": "dark"}])
def test_lanes_that_ran_side_by_side_are_not_told_as_one_after_another(opened: Open, options: dict[str, Any]) -> None:
    """Both models of Mirror-SD in two threads: nothing is modelled, and what they share counts once."""
    given = {"max_new_tokens": 12, "execution": "threads", "kappa": 8}
    trace = engines.run("mirror-sd", "tiny-ar-m", "story: Mia, boat", params=given)
    page = opened([trace], folded=True, **options).page
    view = page.locator('[data-view="Schedule"]')
    for t, step in enumerate(trace.steps, 1):
        page.evaluate("t => handles[0].seek(t)", t)
        long = max(i.end for i in step.intervals) - min(i.start for i in step.intervals)
        both = sum(i.end - i.start for i in step.intervals) > long
        assert ("Side by side, measured" if both else "one after another") in view.inner_text()
    page.close()


@pytest.fixture(scope="module")
def trace() -> Trace:
    return engines.run("easyspec", "tiny-ar-m", "story: Mia, boat", params={"max_new_tokens": 16, "size": 3})


@pytest.mark.parametrize("options", [{}, {"viewport": {"width": 390, "height": 800}}, {"color_scheme": "dark"}])
def test_each_part_says_measured_or_modelled(opened: Open, trace: Trace, options: dict[str, Any]) -> None:
    page = opened([trace], folded=True, **options).page
    view = page.locator('[data-view="Schedule"]')
    for t, step in enumerate(trace.steps, 1):
        page.evaluate("t => handles[0].seek(t)", t)
        laid = [i for i in step.intervals if not i.measured]
        own = [i for i in step.intervals if i.track == "one device"] or [i for i in step.intervals if i.measured]
        titles = view.locator("svg g[transform]").filter(visible=True).locator("title").all_text_contents()
        assert len(titles) == len(own) + len(laid)
        assert sum(title.endswith("measured") for title in titles) == len(own)
        assert sum(title.endswith("modelled") for title in titles) == len(laid)
        said = view.locator(".dx-readout").first.inner_text()
        assert "measured" in said and ("modelled" in said) == bool(laid)
        at_once = view.locator("svg > g:nth-child(2) > g:visible").count()
        assert ("one input for all of" in view.inner_text()) == (at_once > 0)
        rows = sum(span.end - span.start for span in step.spans)
        assert view.locator("span[title^=position]").filter(visible=True).count() == rows


def test_branches_stand_after_the_drafts_that_they_suppose_and_the_one_that_came_true_is_marked(opened: Open) -> None:
    trace = engines.run("mirror-sd", "tiny-ar-l", "story: Mia, boat", params={"max_new_tokens": 24})
    page = opened([trace], folded=True).page
    rows = page.locator('[data-view="Schedule"] [role=listitem]:visible')
    kept = 0
    for t, step in enumerate(trace.steps, 1):
        page.evaluate("t => handles[0].seek(t)", t)
        own = [branch for branch in step.branches or [] if len(branch.tokens) > 1]
        assert rows.count() == len(own)
        told = [text.split("\n")[0] for text in rows.all_inner_texts()]
        for text, branch in zip(told, own, strict=True):
            assert text.startswith("✓ ") == (branch.fate == "chosen")
            if branch.fate == "chosen":  # it supposed as many as stayed
                assert f"if {int(step.facts['accepted'])} stay" in text
                kept += 1
    assert kept


def test_layers_that_a_modelled_order_does_at_once_are_found(js: Call) -> None:
    def made(track: str, start: float, label: str, measured: bool = False) -> dict[str, Any]:
        return {"track": track, "start": start, "end": start + 1, "label": label, "measured": measured}

    shown = [made(f"device {n}", 1.0, f"attention {n + 1}") for n in (1, 2, 3)]
    shown += [made("device 1", 2.0, "feed-forward 2"), made("device 1", 3.0, "attention 5"), made("x", 3.0, "head")]
    shown += [made("one device", 1.0, "attention 2", True), made("device 1", 4.0, "branches 1, 2")]
    (group,) = js("together.js", "M.together(shown)", shown=shown)
    assert (group["begin"], group["end"], group["first"], group["last"]) == (1.0, 2.0, 2, 4)
    assert (group["from"]["track"], group["to"]["track"]) == ("device 1", "device 3")
    assert js("together.js", "M.together([])") == []
