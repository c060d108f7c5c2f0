"""The view of guesses that drop back in: its paths are those of the tree, another first guess changes what is ranked
after it and nothing of the control, and a run without the link, or with gaps, is drawn as what it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from playwright.sync_api import expect

import engines
from engines.core.trace import Trace

Open = Callable[..., Any]
Call = Callable[..., Any]
WORDS = """() => { const shown = (node) => !node.closest('[style*="display: none"]') && node.textContent;
  const all = [...document.querySelectorAll(".dx-tower text")].filter(shown);
  const top = document.querySelector(".dx-tower").getBoundingClientRect().top;
  return all.map((text) => [Math.round(text.getBoundingClientRect().top - top), text.textContent]); }"""


@pytest.fixture(scope="module")
def story() -> Trace:
    return engines.run("clover", "tiny-ar-l", "story: Dan, coin", params={"max_new_tokens": 24, "nodes": 20})


def test_a_path_goes_over_what_was_accepted_else_over_the_best_ranked(js: Call) -> None:
    tree = {"parents": [-1, 0, 0, 0, 1, 2, 2, 6], "accepted": [True, False, True, False, False, False, True, False]}
    rows = [0, 1, 2, 6]
    path = "M.pathOf(tree, rows, first)"
    assert js("rounds.js", path, tree=tree, rows=rows, first=None) == [0, 2, 6]
    assert js("rounds.js", path, tree=tree, rows=rows, first=1) == [0, 1]
    assert js("rounds.js", path, tree=tree, rows=[0], first=1) == [0]
    tree["accepted"] = [True] + [False] * 7
    assert js("rounds.js", path, tree=tree, rows=rows, first=None) == [0, 1]


@pytest.mark.parametrize(
    ("n", "must", "shown"), [(10, [], [0, 1, 2]), (10, [7], [0, 1, 7]), (10, [9, 1, 9], [0, 1, 9]), (2, [1], [0, 1])]
)
def test_a_list_shows_the_first_ranks_and_those_that_it_must(
    js: Call, n: int, must: list[int], shown: list[int]
) -> None:
    assert js("views/belts.js", "M.shownRanks(n, must)", n=n, must=must) == shown


def test_another_first_guess_changes_what_is_ranked_after_it_and_nothing_of_the_control(
    opened: Open, story: Trace
) -> None:
    page = opened([story], folded=True).page
    view = page.locator('[data-view="Conveyor"]')
    page.evaluate("handles[0].seek(2)")
    buttons = view.get_by_role("group", name="Another first guess").get_by_role("button")
    expect(buttons).to_have_count(4)
    before = page.evaluate(WORDS)
    bottom = next(top for top, words in before if words == "control")
    buttons.nth(1).click()
    expect(buttons.nth(1)).to_have_attribute("aria-pressed", "true")
    after = page.evaluate(WORDS)
    percents = [[words for top, words in all_ if top >= bottom + 40] for all_ in (before, after)]
    assert percents[0] == percents[1] and any("%" in words for words in percents[0])
    assert [words for _, words in before] != [words for _, words in after]
    step = story.steps[1]
    record = step.records["rankings"]
    row = [row for row in record["rows"] if row and step.tree.parents[row] == 0 and not step.tree.accepted[row]][1]
    ranking = record["ranked"][record["rows"].index(row)]
    assert f"({int(100 * ranking['chances'][0] + 0.5)} %)" in view.locator(".dx-readout").inner_text()


def test_a_run_without_the_link_has_one_belt_on_which_nothing_drops(opened: Open) -> None:
    trace = engines.run("clover", "tiny-ar-l", "story: Dan, coin", params={"max_new_tokens": 12, "link": False})
    page = opened([trace], folded=True).page
    page.evaluate("handles[0].seek(2)")
    words = [words for _, words in page.evaluate(WORDS)]
    assert words.count("drop cut") == 1 and "control" not in words and "guess drops in" not in words
    expect(page.locator('[data-view="Conveyor"] .dx-readout')).to_contain_text("each place has one ranking")


def test_where_the_control_or_the_record_is_missing_the_rest_is_drawn(opened: Open, story: Trace) -> None:
    steps = [
        replace(step, records={"rankings": {**step.records["rankings"], "control": []}} if i % 2 else {})
        for i, step in enumerate(story.steps)
    ]
    page = opened([replace(story, steps=steps)], folded=True).page
    view = page.locator('[data-view="Conveyor"]')
    page.evaluate("handles[0].seek(2)")
    words = [words for _, words in page.evaluate(WORDS)]
    assert "Clover" in words and "control" not in words
    page.evaluate("handles[0].seek(3)")
    expect(view.locator(".dx-readout")).to_have_text("No draft was made in this step.")
    expect(view.locator("svg.dx-tower")).to_be_hidden()
