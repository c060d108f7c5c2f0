"""What is drawn: exported files opened from disk, driven as a person drives them. Time limits are three times what an
idle machine needs."""

import json
import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from playwright.sync_api import expect

import engines
from engines.core.trace import GuessSource, Piece, Trace, pack
from explorer import ASSETS
from explorer.export.bundle import views, views_of
from explorer.figures.hindsight import CAVEAT
from tests.player.handmade import HOSTILE, batches, drafting, everything_else, hostile, masked
from tests.player.pictures import becomes, rests, until

Watched = Any  # conftest.Watched: a page with what it asked for and complained about
Open = Callable[..., Watched]


def debug(opened: Watched, slot: int = 0) -> dict[str, Any]:
    return opened.page.evaluate("slot => handles[slot].debug()", slot)


def steps(opened: Watched) -> list[int]:
    return opened.page.evaluate("handles.map(h => h.debug().step)")


def seek(opened: Watched, step: int, slot: int = 0) -> None:
    opened.page.evaluate("([slot, step]) => handles[slot].seek(step)", [slot, step])


def push(opened: Watched, some: list[dict[str, Any]]) -> None:
    opened.page.evaluate("(some) => some.forEach((b) => handles[0].push(b))", some)


def press(opened: Watched, timeline: Any, part: float) -> None:
    """One press of a timeline at this part of its width."""
    timeline.scroll_into_view_if_needed()
    rests(timeline)
    timeline.click(position={"x": timeline.bounding_box()["width"] * part, "y": 20})


def with_trees(**change: Any) -> Trace:
    """The drafting run with other trees."""
    trace = drafting()
    for step in trace.steps:
        step.tree = step.tree and msgspec.structs.replace(step.tree, **change)
    return trace


def cell(opened: Watched, position: int, slot: int = 0) -> Any:
    return opened.page.locator(".dx-panel").nth(slot).locator(".dx-cells .dx-cell").nth(position)


def test_every_view_that_a_run_asks_for_is_drawn(opened: Open) -> None:
    traces = [masked(), drafting(), everything_else()]
    page = opened(traces)
    for slot, trace in enumerate(traces):
        files = views_of([trace.to_json()])
        asked = {view.name for view in views() if view.file in files and view.place != "toolbar"}
        assert set(debug(page, slot)["views"]) == asked


def test_keys_scrub_all_players_of_the_group(opened: Open) -> None:
    page = opened([masked(), drafting()])
    panel, speed = page.page.locator(".dx-panel").first, page.page.get_by_label("Speed")
    panel.focus()
    keys = "ArrowRight ArrowRight ArrowLeft End ArrowLeft Home Control+ArrowRight".split()
    for key, at in zip(keys, [(1, 1), (2, 2), (1, 1), (16, 9), (15, 9), (0, 0), (0, 0)], strict=True):
        page.page.keyboard.press(key)
        page.stands(*at)
    for key, value in (("]", "2"), ("[", "1"), ("[", "0.5")):
        page.page.keyboard.press(key)
        expect(speed).to_have_value(value)
    for state in ("playing", re.compile("ready")):
        page.page.keyboard.press("Space")
        expect(panel).to_have_attribute("data-state", state)


def test_the_slider_keeps_its_own_keys(opened: Open) -> None:
    page = opened([masked()])
    slider = page.page.get_by_label("Place in the run")
    slider.focus()
    page.page.keyboard.press("ArrowRight")
    page.stands(1)
    expect(page.page.locator(".dx-panel")).to_have_attribute("data-step", "1")


def test_three_clocks(opened: Open) -> None:
    page = opened([masked(), drafting()])
    seek(page, 5, slot=1)
    page.stands(5, 5)
    seek(page, 0)
    page.page.get_by_role("button", name="Model calls", exact=True).click()
    seek(page, 3, slot=1)  # 3 calls of the target; those of its draft are beside them
    page.stands(3, 3)
    page.page.get_by_role("button", name="Seconds", exact=True).click()
    seek(page, 4, slot=1)  # 52 ms; a step of the masked run takes 4.7 to 6.7 ms
    page.stands(9, 4)
    seek(page, 16)
    until(page.page, "() => handles[0].debug().step === 16 && handles[1].debug().step < 9")


@pytest.mark.timing
def test_seconds_play_in_real_time_and_the_shorter_run_waits(opened: Open) -> None:
    traces = [masked(24, 4), masked(24, 4)]
    for trace, seconds in zip(traces, (0.05, 0.2), strict=True):
        for step in trace.steps:
            step.model_seconds, step.method_seconds = seconds, 0.0
    page = opened(traces)
    page.page.get_by_role("button", name="Seconds", exact=True).click()
    took = page.page.evaluate(
        """() => new Promise((done) => { const start = performance.now(), marks = {}; handles[0].group.play();
        const look = () => { const [a, b] = handles.map((h) => h.debug().step), now = performance.now() - start;
          if (a === 4) marks.fast ??= now; if (b === 4) return done({ ...marks, slow: now });
            requestAnimationFrame(look); }; look(); })"""
    )
    print("seconds clock, 0.2 s and 0.8 s:", took)
    assert 150 < took["fast"] < 5000 and 750 < took["slow"] < 5000  # later than it was only on a busy machine
    page.stands(4, 4)


def test_hovering_a_masked_position_shows_what_the_model_would_say(opened: Open) -> None:
    """So do the arrow keys on the board, and a click pins it."""
    trace = masked()
    page = opened([trace, drafting()])
    seek(page, 3)
    cell(page, trace.steps[3].commits.positions[0]).hover()
    pop, other = (page.page.locator(".dx-pop").nth(slot) for slot in (0, 1))
    expect(pop).to_contain_text("Candidates in step 3")
    expect(pop.locator(".dx-bars li")).to_have_count(4)
    expect(pop.locator("table")).to_contain_text("entropy")
    seek(page, 4)
    expect(pop).to_contain_text("written in this step")
    seek(page, 9)
    expect(pop).to_contain_text("Candidates in step 4")  # a written token keeps those of the step that wrote it
    page.page.mouse.move(2, 2)
    expect(pop).to_be_hidden()
    page.page.locator(".dx-board").first.focus()
    for _ in range(4):
        page.page.keyboard.press("ArrowDown")
    expect(pop).to_contain_text("Part of the prompt")
    page.page.keyboard.press("Escape")
    expect(pop).to_be_hidden()
    cell(page, 13, slot=1).click()
    page.page.mouse.move(2, 2)
    expect(other).to_contain_text("No candidates recorded at this step")


def test_the_board_shows_states_by_attribute_and_best_guesses_if_asked(opened: Open) -> None:
    trace = masked()
    page = opened([trace])
    seek(page, 2)
    board = debug(page)["board"]
    assert [i for i, one in enumerate(board) if one["state"] == "new"] == trace.steps[1].commits.positions
    expect(cell(page, trace.steps[1].commits.positions[0])).to_have_attribute("data-s", "new")
    expect(cell(page, 47)).to_have_attribute("data-s", "masked")
    expect(cell(page, 47)).to_have_attribute("data-k", "end")
    guessed = next(one["position"] for one in board if one["state"] == "masked")
    expect(cell(page, guessed)).to_have_attribute("data-k", "peek")
    page.page.get_by_role("button", name="Best guesses", pressed=True).click()
    expect(cell(page, guessed)).to_have_attribute("data-k", "mark")


def test_the_tree_tells_accepted_refused_unreached_and_gained(opened: Open) -> None:
    page = opened([with_trees(tails=[3, 2, *[1] * 8])])
    seek(page, 3)
    view = page.page.locator("[data-view=DraftTree]")
    nodes = view.locator("svg g > g[data-s]:visible")
    expect(nodes).to_have_count(11)
    states = nodes.evaluate_all("(nodes) => nodes.map((n) => n.dataset.s)")
    assert (states.count("accepted"), states.count("correction")) == (2, 1)
    assert {"rejected", "unreached"} <= set(states)
    expect(nodes.nth(1).locator("title")).to_contain_text("draft probability")
    expect(view).to_contain_text("Pseudo rows in this forward: 13.")
    tails = nodes.evaluate_all("(all) => all.map((n) => n.querySelectorAll(':scope > g > rect').length)")
    assert sorted(tails) == sorted([3, 2, *[1] * 8, 0])  # none below the token that the target gave
    seek(page, 5)
    expect(view).to_contain_text("No draft tree in step 5.")
    expect(view.locator("svg.dx-tree")).to_be_hidden()


def test_the_sources_of_the_guesses_stand_beside_the_tree(opened: Open) -> None:
    sources = [
        GuessSource("table", key=[5], tokens=[7, -1, 8], links=[(1, 0), (2, 2)], after=[7, 7, 8]),
        GuessSource("model", "draft model", links=[(3, -1), (1, -1)]),
        GuessSource("text", key=[5], tokens=[9, 9]),
    ]
    page = opened([with_trees(guessed_from=sources)])
    seek(page, 3)
    view = page.page.locator("[data-view=DraftTree]")
    expect(view).to_contain_text("Sources: 3, 1 of them unused.")
    nodes = view.locator("svg g[data-row]:visible")
    stripes = nodes.nth(1).locator(".dx-stripe:visible")
    becomes(lambda: stripes.evaluate_all("all => all.map((one) => one.dataset.source)"), ["table", "model"])
    expect(view.locator("g[data-cell]:visible")).to_have_count(5)
    expect(view).to_contain_text("↻ 1 updated")
    for hovered, hot in ((nodes.nth(1), 2), (view.locator("g[data-line='0'][data-cell='2']"), 1)):
        hovered.hover()
        expect(view.locator(".dx-threads .dx-hot")).to_have_count(hot)
    expect(view.locator(".dx-threads path:visible")).to_have_count(4)


def test_a_click_on_the_strip_goes_to_that_step(opened: Open) -> None:
    trace = engines.run("greedy", "tiny-ar-m", "add: 45 + 86", params={"max_new_tokens": 16})
    page = opened([trace])
    strip = page.page.locator("[data-view=Lanes] .dx-timeline")
    press(page, strip, 5.5 / len(trace.steps))
    page.stands(6)
    at = trace.steps[5].commits.positions[0]
    until(
        page.page,
        """(y) => { const pen = new OffscreenCanvas(1, 1).getContext("2d");
          pen.drawImage(document.querySelector(".dx-strip"), 5, y, 1, 1, 0, 0, 1, 1);
          return `${pen.getImageData(0, 0, 1, 1).data}` === "245,184,61,255"; }""",
        at,
    )


def test_hindsight_tells_since_when_each_position_was_decodable(opened: Open) -> None:
    """Of a finished run alone, and only where candidates were recorded."""
    trace = masked(24, 6)
    at, wrong = trace.steps[4].commits.positions[0], trace.steps[1].candidates
    rows = wrong.tokens.array().copy()
    rows[wrong.positions.index(at)] = rows[wrong.positions.index(at), 0] + 1
    wrong.tokens = pack(rows)
    page, parts = opened([trace, drafting()]), batches(trace)
    push(page, parts[:-1])
    assert "Hindsight" not in debug(page)["views"]
    push(page, parts[-1:])
    lens = page.page.locator("[data-view=Hindsight]")
    expect(lens).to_have_count(1)  # the other run recorded no candidates
    said = rf"After 3 of 6 model calls \(50 %\).*{CAVEAT}.*Start known for 12 of 12 written positions\."
    expect(lens).to_contain_text(re.compile(said, re.IGNORECASE))
    place = lens.locator(f'[role=listitem][aria-label^="position {at},"]')
    expect(place).to_have_attribute("aria-label", re.compile("decodable since step 3, written in step 5$"))
    for step, state in [(2, "masked"), (3, "drafted"), (4, "drafted"), (5, "old"), (6, "old")]:
        seek(page, step)
        expect(place).to_have_attribute("data-s", state)
    press(page, lens.locator(".dx-timeline"), 1.5 / 6)
    page.stands(2, 2)
    waiting = [p for step in trace.steps[2:] for p in step.commits.positions if p != at]
    expect(lens).to_contain_text(f"{len(waiting)} decodable and not written yet")


def test_the_machine_is_named_and_a_step_is_told(opened: Open) -> None:
    page = opened([masked()])
    seek(page, 16)
    expect(page.page.locator("dl.dx-about")).to_contain_text("2 threads")
    expect(page.page.locator(".dx-say")).to_contain_text("Step 16 of 16", timeout=4000)


def test_hostile_tokens_stay_text_everywhere(opened: Open) -> None:
    trace, other = drafting(), everything_else()
    words = [Piece(p.id, HOSTILE[i % len(HOSTILE)]) for i, p in enumerate(trace.pieces[3:])]
    trace.pieces = other.pieces = [*trace.pieces[:3], *words]
    trace.steps[2].note, trace.header.title = HOSTILE[:2]
    other.steps[0].media.boxes[0].label = other.steps[0].intervals[0].track = HOSTILE[1]
    page = opened([hostile(), trace, other], title=HOSTILE[0])
    for step in (1, 5, 8, 3):
        seek(page, step, slot=1)
        for slot in (0, 1):
            cell(page, 12, slot).hover()
    alien = "[window.hacked ?? null, document.querySelectorAll('img, main script, iframe').length]"
    assert page.page.evaluate(alien) == [None, 0]
    assert debug(page, 1)["note"] == HOSTILE[0]
    shown = set(page.page.locator(".dx-panel").first.locator(".dx-cells .dx-cell").all_text_contents())
    assert "${window.hacked=3}" in shown and max(map(len, shown)) < 60
    cell(page, 9).hover()
    expect(page.page.locator(".dx-whole").first).to_have_text("a" * 10_000)


def test_what_cannot_be_played_is_a_sentence_not_a_blank(opened: Open) -> None:
    page, parts = opened([drafting()]), batches(drafting())
    alert = page.page.get_by_role("alert").first
    page.page.evaluate('handles[0].load(\'{"header": {"schema": 9}}\')')
    expect(alert).to_contain_text("schema version 9; this player reads version 3")
    assert debug(page)["state"] == "error"
    push(page, [*parts[:4], {"run": "r", "seq": 4, "state": "failed", "message": "the model ran out of memory"}])
    expect(alert).to_have_text("the model ran out of memory")
    assert debug(page)["state"] == "failed" and steps(page) == [2]
    gap = [part | {"run": "another"} for part in (*parts[:4], *parts[5:])]
    push(page, gap)
    assert debug(page)["state"] == "error" and "did not arrive" in debug(page)["message"] and debug(page)["steps"] == 2


def test_a_live_run_is_followed_until_the_person_looks_back(opened: Open) -> None:
    page, trace = opened([drafting()]), drafting()
    parts = batches(trace)
    push(page, parts[:1])
    assert debug(page)["state"] == "queued"
    push(page, parts[1:5])
    assert (debug(page)["state"], steps(page)) == ("live", [3])
    assert set(debug(page)["views"]) >= {"DraftTree", "Ribbon", "Facts"}
    seek(page, 1)
    push(page, [*parts[5:8], parts[7]])  # a batch that comes twice changes nothing
    assert steps(page) == [1] and debug(page)["steps"] == 6
    seek(page, 6)
    push(page, parts[8:])
    assert (debug(page)["state"], steps(page)) == ("done", [9])
    whole = "(text) => { handles[0].load(text, { at: 'end' }); return handles[0].debug().board; }"
    assert debug(page)["board"] == page.page.evaluate(whole, trace.to_json())


def test_light_and_dark_and_a_phone(opened: Open) -> None:
    theme = json.loads((ASSETS / "theme.json").read_text("utf-8"))
    page = opened([masked(), drafting()])
    for scheme, ground, width in (("light", "light", 1200), ("dark", "dark", 390), ("light", "dark", 390)):
        page.page.emulate_media(color_scheme=scheme)
        page.page.set_viewport_size({"width": width, "height": 900})
        if ground != scheme:  # a page that has colours of its own
            page.page.evaluate("document.body.classList.add('dark')")
        colour = _rgb(theme["surface"][ground]["panel"])
        expect(page.page.locator(".dx-panel").first).to_have_css("background-color", colour)
        until(page.page, "(width) => document.documentElement.scrollWidth === width", width)


def test_reduced_motion_has_no_transitions(opened: Open) -> None:
    page = opened([masked(24, 4)], reduced_motion="reduce")
    assert cell(page, 12).evaluate("(n) => getComputedStyle(n).transitionDuration") == "0s"


def test_memory_thermometer_and_chart_of_work_follow_the_step(opened: Open) -> None:
    opened_ = opened([everything_else(12)])
    page = opened_.page
    seek(opened_, 3)
    now = "all => all.map((row) => row.classList.contains('dx-now'))"
    becomes(lambda: page.locator(".dx-memory > div:visible").evaluate_all(now), [True, True, False, False])
    said = page.locator(".dx-readout", has_text="entries touched")
    expect(said).to_have_text("4 entries touched so far; this step drafted from 1 (→) and changed 1 (+).")
    expect(page.get_by_text("and 100 more")).to_be_visible()
    seek(opened_, 2)
    tube = page.get_by_role("img", name="3 tokens kept")
    titles = tube.locator("rect > title").all_text_contents()
    assert [title.rpartition(": ")[2] for title in titles] == ["0 bits", "1.38 bits", "1.62 bits", "0.918 bits"]
    assert "refused" in titles[2] and "drawn" in titles[3], "the one that was drawn is painted last"
    line = float(tube.locator(".dx-threshold").get_attribute("d").split(",")[1].split("H")[0])
    tops = [float(rect.get_attribute("y")) for rect in tube.locator("rect", has=page.locator("title")).all()]
    assert tops[2] < line < min(tops[0], tops[1], tops[3])
    seek(opened_, 10)
    expect(page.locator(".dx-gantt rect:visible")).to_have_count(2 * 7)  # five steps up to the cursor, two behind it
    expect(page.locator(".dx-gantt rect.dx-modelled:visible")).to_have_count(4)


def test_cells_wear_the_colours_of_their_state(opened: Open) -> None:
    """Text and ground of an accepted token are the theme's pair, whose contrast is checked elsewhere."""
    page = opened([drafting()])
    seek(page, 2)
    wanted = json.loads((ASSETS / "theme.json").read_text("utf-8"))["states"]["accepted"]["light"]
    board = page.page.locator('.dx-cells .dx-cell[data-s="accepted"]').first
    expect(board).to_have_css("color", _rgb(wanted["text"]))
    expect(board).to_have_css("background-color", _rgb(wanted["fill"]))
    expect(page.page.locator('.dx-tree g[data-s="accepted"] text').first).to_have_css("fill", _rgb(wanted["text"]))


def _rgb(code: str) -> str:
    return f"rgb({', '.join(str(int(code[i : i + 2], 16)) for i in (1, 3, 5))})"
