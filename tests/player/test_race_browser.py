"""Race and difference: the player's rules against Python's, and what is drawn of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from playwright.sync_api import expect

from engines.core.trace import Commits, Piece, Trace
from explorer.figures.clock import steps_within
from explorer.figures.compare import Difference, answer_ids, difference
from explorer.figures.curves import growth
from explorer.figures.work import lasting, work
from tests.explorer.figures.lookback import invented, moving, noisy
from tests.explorer.figures.standing import standing
from tests.player.handmade import both_at_once, drafting, masked, recorded
from tests.player.pictures import becomes, until

Call = Callable[..., Any]
RUN = "const run = modules['store.js'].Run.from(text);"


@pytest.mark.parametrize(
    "traces",
    [
        lambda: [*map(invented, range(120))],
        lambda: [*map(moving, range(60))],
        recorded,
        lambda: [masked(), drafting(), noisy()],
    ],
    ids=["invented", "moving", "recorded", "made"],
)
def test_what_stands_at_a_budget_is_the_same_in_python_and_in_the_player(js: Call, traces: Call) -> None:
    revised = 0
    for trace in traces():
        there = js(
            "race.js",
            f"(() => {{ {RUN} return [run.steps.map((_, t) => M.standing(run, t)), M.growth(run)]; }})()",
            text=trace.to_json(),
        )
        here = [standing(trace, steps) for steps in range(len(trace.steps))]
        for mine, theirs in zip(here, there[0], strict=True):
            assert {**theirs, "seconds": 0} == {**msgspec.structs.asdict(mine), "seconds": 0}
            assert theirs["seconds"] == pytest.approx(mine.seconds)
            revised += mine.revised
        assert there[1] == [n for _, n in growth(trace)]
        for clock in (clock for clock in ("steps", "forwards", "seconds", "work") if clock not in trace.header.missing):
            budgets = [0.5, 1, 2, 3.7, 10, 1000] if clock != "seconds" else [0.01, 0.05, 0.123, 60]
            cut = "budgets.map((n) => modules['clock.js'].cursor(run.axes[clock], n + M.SLACK))"
            inside = js(
                "race.js", f"(() => {{ {RUN} return {cut}; }})()", text=trace.to_json(), clock=clock, budgets=budgets
            )
            assert inside == [steps_within(trace, clock, n) for n in budgets]
    assert revised or traces is not recorded


def test_growth_goes_on_where_a_live_run_had_ended(js: Call) -> None:
    for trace in (masked(), drafting()):
        body = (
            "const { steps, ...rest } = JSON.parse(text), run = new (modules['store.js'].Run)(rest.header, "
            "rest.pieces);"
        )
        seen = js(
            "race.js",
            f"(() => {{ {body} return steps.map((s) => (run.addSteps([s]), M.growth(run).at(-1))); }})()",
            text=trace.to_json(),
        )
        assert seen == [n for _, n in growth(trace)][1:]


def test_when_the_models_computed_is_the_same_in_python_and_in_the_player(js: Call) -> None:
    shown = 0
    for trace in (*recorded(), drafting(), both_at_once()):
        there = js("race.js", f"(() => {{ {RUN} return [...M.work(run)]; }})()", text=trace.to_json())
        done = work(trace)
        if len(done.rows) < 2:
            assert there == []
            continue
        assert [lane for lane, _ in there] == [*done.rows, "at once"]
        for lane, spells in there:
            mine = done.at_once if lane == "at once" else done.rows[lane]
            assert lasting([(a, b) for a, b in spells], 1) == [pytest.approx(spell, abs=1e-5) for spell in mine]
        shown += 1
    assert shown > 3


def differ(js: Call, a: Trace, b: Trace) -> dict[str, Any]:
    body = "const [one, two] = texts.map((text) => modules['store.js'].Run.from(text));"
    return js("race.js", f"(() => {{ {body} return M.difference(one, two); }})()", texts=[a.to_json(), b.to_json()])


def agree(js: Call, a: Trace, b: Trace) -> Difference:
    """What Python says of two runs, which the player says, too."""
    there, here = differ(js, a, b), difference(a, b)
    assert {name: there[name] for name in here.__struct_fields__} == msgspec.structs.asdict(here)
    return here


def test_outputs_part_where_python_says_they_do(js: Call) -> None:
    first: dict[str, Trace] = {}  # of each prompt: the others are held against it
    found = [
        agree(js, trace, other)
        for trace in recorded()
        if (other := first.setdefault(trace.header.prompt, trace)) is not trace
    ]
    assert {(one.unit, one.at is None) for one in found} >= {("token", True), ("token", False)}


def known(trace: Trace) -> Trace:
    """The trace, with ids of a tokenizer that is known."""
    trace.header.models[0].tokenizer = "one"
    return trace


def test_runs_that_were_stopped_or_have_other_ids_are_compared_as_far_as_both_go(js: Call) -> None:
    a, b = known(masked()), known(masked())
    b.end.reason, b.end.output_ids = "stopped", a.end.output_ids[:3]
    assert agree(js, a, b) == Difference("token", None, 3, True)
    b = known(masked())
    b.end.output_ids = [*a.end.output_ids[:2], 9, *a.end.output_ids[3:]]
    assert agree(js, a, b) == Difference("token", 2, len(answer_ids(b)), False, True), "the same text in other tokens"
    b.header.missing = ["token_ids"]
    assert agree(js, a, b) == Difference("character", None, len(a.text), False), "ids that nobody knows"
    b.end.reason, b.end.text = "stopped", a.text[:4]
    assert agree(js, a, b) == Difference("character", None, 4, True)


def test_other_tokenizers_are_compared_by_characters_and_the_token_is_found(js: Call) -> None:
    a, b = masked(), masked()
    b.header.models[0].tokenizer = "another"
    b.end.text = a.end.text.replace("octopus", "octopux")
    found = differ(js, a, b)
    at = a.end.text.index("octopus") + 6
    assert (found["unit"], found["at"], found["ours"], found["theirs"]) == ("character", at, "s", "x")
    token = next(i for i in range(len(a.output_ids)) if len("".join(_texts(a)[: i + 1])) > at)
    assert found["position"] == len(a.header.prompt_ids) + token and "octopus" in _texts(a)[token]
    a.end.text = "spelt otherwise"
    assert differ(js, a, b)["position"] is None
    b.end.text = a.end.text
    assert differ(js, a, b)["at"] is None


def _texts(trace: Trace) -> list[str]:
    table = {piece.id: piece.text for piece in trace.pieces}
    return [table[token] for token in answer_ids(trace)]


# what is drawn


def twins() -> tuple[Trace, Trace]:
    """Two runs on one prompt whose outputs part at the fourth token; the second takes one of its tokens back on the
    way."""
    a, b = masked(24, 4), masked(24, 8)
    for one in (a, b):
        one.header.prompt, one.header.models[0].tokenizer = "the same", "one"
    b.pieces = [*b.pieces, Piece(90, " <b>other</b>")]
    place = len(b.header.prompt_ids) + 3
    step = next(s for s in b.steps if place in s.commits.positions)
    step.commits.tokens[step.commits.positions.index(place)] = 90
    b.end.output_ids[3], b.end.text = 90, "other text"
    early = b.steps[0].commits.positions[0]
    b.steps[2].commits = Commits(
        [*b.steps[2].commits.positions, early],
        [*b.steps[2].commits.tokens, 0],
        [*b.steps[2].commits.causes, "remasked"],
    )
    b.steps[5].commits = Commits(
        [*b.steps[5].commits.positions, early],
        [*b.steps[5].commits.tokens, b.steps[0].commits.tokens[0]],
        [*b.steps[5].commits.causes, "top1"],
    )
    return a, b


def test_the_place_where_outputs_part_is_marked_and_told(opened: Call) -> None:
    a, b = twins()
    page = opened([a, b])
    line = page.page.locator(".dx-differ")
    expect(line.nth(0)).to_be_hidden()
    theirs = next(p.text for p in a.pieces if p.id == a.output_ids[3]).replace(" ", "␣")
    mark = page.page.locator(".dx-panel").nth(1).locator(".dx-marks b:visible")
    page.page.evaluate("handles[1].seek(7)")
    expect(line.nth(1)).to_have_text("To be compared with player 1 once both were shown to their end. Show now")
    expect(mark).to_have_count(0)  # no word of the end is told before both players were there
    line.nth(1).get_by_role("button").press("Enter")
    expect(line.nth(1)).to_have_text(
        f"Same text as player 1 up to token 3; then ‘␣<b>other</b>’ instead of ‘{theirs}’."
    )
    expect(mark).to_have_count(1)
    expect(mark).to_have_text("≠")
    expect(mark).to_have_attribute("data-position", "15")
    until(
        page.page,
        """() => { const panel = document.querySelectorAll(".dx-panel")[1],
          sign = panel.querySelector(".dx-marks b").getBoundingClientRect(),
          cell = panel.querySelectorAll(".dx-cells .dx-cell")[15].getBoundingClientRect();
          return Math.abs(sign.x + 8 - cell.right) < 12 && Math.abs(sign.y + 8 - cell.y) < 12; }""",
    )
    expect(page.page.locator(".dx-panel").nth(1).locator(".dx-words .dx-differs")).to_have_text(" <b>other</b>")
    expect(page.page.locator(".dx-panel").nth(0).locator(".dx-differs, .dx-marks b:visible")).to_have_count(0)
    page.page.evaluate("handles[0].clear()")
    expect(line).to_be_hidden()
    expect(mark).to_have_count(0)


def test_the_race_stands_on_one_axis_and_a_click_seeks(opened: Call) -> None:
    page = opened([masked(24, 4), drafting()])
    page.page.get_by_role("button", name="Model calls", exact=True).click()
    lanes = page.page.locator(".dx-lane:visible")
    expect(lanes).to_have_count(2)
    ends = "(nodes) => nodes.map((n) => parseFloat(n.style.left))"  # never stretched to one length
    becomes(lambda: lanes.locator("i").evaluate_all(ends), [pytest.approx(100 * 4 / 9, abs=0.01), 100])
    box = lanes.nth(0).locator(".dx-track").bounding_box()
    page.page.mouse.click(box["x"] + box["width"] * 4.5 / 9, box["y"] + 5)
    page.stands(4, 4)
    tokens = [str(page.page.evaluate(f"handles[{slot}].debug().sums.tokens")) for slot in (0, 1)]
    expect(lanes.locator(".dx-count")).to_have_text([re.compile(f"^{n} ") for n in tokens])
    expect(lanes.nth(0).locator(".dx-count")).to_contain_text("■")
    expect(lanes.nth(1).locator(".dx-count")).not_to_contain_text("■")
    page.page.mouse.move(box["x"] + 3, box["y"] + 5)
    page.page.mouse.down()
    page.page.mouse.move(box["x"] + box["width"] * 6.5 / 9, box["y"] + 5)
    page.page.mouse.up()
    page.stands(4, 6)


def test_freezing_at_a_budget_says_what_each_run_has_by_then(opened: Call) -> None:
    a, b = twins()
    page = opened([a, b, drafting()])
    page.page.get_by_label("Clock of the budget").select_option("forwards")
    page.page.get_by_label("Freeze at").fill("2")
    page.page.get_by_label("Freeze at").press("Enter")
    page.stands(2, 2, 2)
    rows = page.page.locator(".dx-standing tbody tr")
    for row, trace in zip(range(3), (a, b, drafting()), strict=True):
        here = standing(trace, 2)
        figures = [here.tokens, here.revised, here.missing, here.forwards]
        first = [re.compile(rf"^{n}\b") for n in figures]
        for cell, figure in zip(range(4), first, strict=True):
            expect(rows.nth(row).locator("td").nth(cell)).to_have_text(figure)
    expect(rows.nth(1).locator("td").nth(1)).to_have_text("1 (1 re-masked)")
    page.page.keyboard.press("Tab")
    page.page.locator(".dx-panel").first.press("ArrowRight")
    expect(rows.locator("td:nth-of-type(4)")).to_have_text(["3", "3", "3"])  # it follows the cursor while it is frozen
    page.page.get_by_label("Freeze at").fill("")
    page.page.get_by_label("Freeze at").press("Enter")
    expect(page.page.locator(".dx-race [role=status]")).to_have_text("Type a number of model calls from 0 to 9.")
    freeze = page.page.get_by_role("button", name="Freeze", exact=True)
    freeze.click()
    expect(page.page.locator(".dx-standing")).to_be_hidden()
    page.page.evaluate("handles[0].group.play()")
    page.page.get_by_label("Freeze at").fill("1")
    freeze.click()  # leaves the field, which must not freeze first so that the click would thaw again
    expect(freeze).to_have_attribute("aria-pressed", "true")
    page.stands(1, 1, 1)


def test_boards_side_by_side_start_at_one_height(opened: Call) -> None:
    a, b = twins()
    a.header.departures, b.header.departures = "Everything is a little different here. " * 9, "Little."
    a.header.models[0].name = "a-model-with-a-name-that-is-much-longer-than-usual-" * 4
    a.steps[2].note, b.steps[2].note = (
        "The filter accepts 14 of 16 masks in the block, and there is more to say about this step. " * 4,
        "Short.",
    )
    page = opened([a, b])
    for step in (0, 3, 8):
        page.page.evaluate("(step) => handles[1].seek(step)", step)
        for part, of in ((".dx-board", "Math.round(n.getBoundingClientRect().top)"), (".dx-note", "n.offsetHeight")):
            until(
                page.page,
                f"([part]) => new Set([...document.querySelectorAll(part)].map((n) => {of})).size === 1",
                [part],
            )
    page.page.evaluate("handles[1].seek(3)")
    note = page.page.locator(".dx-note").first
    assert note.evaluate("(n) => { n.scrollTop = 1e4; return n.scrollTop > 0 && n.textContent.length > 300; }"), (
        "all of it can be read"
    )
    expect(page.page.locator("dl.dx-about").first).to_contain_text("a little different")


def test_a_token_of_the_hindsight_goes_to_its_commit(opened: Call) -> None:
    trace = masked(24, 6)
    page = opened([trace])
    at = trace.steps[4].commits.positions[0]
    place = page.page.locator(f'[data-view=Hindsight] [role=listitem][aria-label^="position {at},"]')
    place.click()
    page.stands(5)
    page.page.locator(".dx-late").focus()
    page.page.keyboard.press("ArrowDown")
    page.page.keyboard.press("Enter")
    first = min(p for step in trace.steps for p in step.commits.positions)
    page.stands(next(s.index for s in trace.steps if first in s.commits.positions) + 1)


def test_on_the_clock_of_target_calls_the_draft_calls_stand_beside(opened: Call) -> None:
    page = opened([masked(24, 4), drafting()]).page
    lanes = page.locator(".dx-lane:visible")
    expect(lanes.nth(1).locator("small")).to_have_text("")
    page.get_by_role("button", name="Model calls", exact=True).click()
    drafts = sum(step.forwards["draft"] for step in drafting().steps)
    expect(lanes.nth(1).locator("small")).to_have_text(f"+ {drafts} draft calls")
    expect(lanes.nth(0).locator("small")).to_have_text("")
    calls = sum(step.forwards["draft"] > 0 for step in drafting().steps)
    drawn = lanes.nth(1).locator("path").nth(1)
    becomes(lambda: (drawn.get_attribute("d") or "").count("M"), calls)
    assert float(re.findall(r"H([\d.]+)V", drawn.get_attribute("d"))[-1]) == pytest.approx(9), (
        "the axis is that of the target's calls"
    )
    expect(lanes.nth(1).locator("[role=img]")).to_have_attribute("aria-label", re.compile(f"{drafts} draft calls"))
