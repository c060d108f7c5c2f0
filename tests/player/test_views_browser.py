"""What is drawn: exported files opened from disk, driven as a person drives them. Time limits are three times what an
idle machine needs."""

from __future__ import annotations

import gzip
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
from tests.explorer.figures.lookback import looked
from tests.player.handmade import HOSTILE, batches, drafting, everything_else, hostile, masked
from tests.player.pictures import Panel, Stage, becomes, rests, until

Watched = Any  # conftest.Watched: a page with what it asked for and complained about
Open = Callable[..., Watched]


def debug(opened: Watched, slot: int = 0) -> dict[str, Any]:
    return opened.page.evaluate("slot => handles[slot].debug()", slot)


def steps(opened: Watched) -> list[int]:
    return opened.page.evaluate("handles.map(h => h.debug().step)")


def unit(opened: Watched, name: str) -> None:
    opened.page.get_by_role("button", name=name, exact=True).click()


def seek(opened: Watched, step: int, slot: int = 0) -> None:
    opened.page.evaluate("([slot, step]) => handles[slot].seek(step)", [slot, step])


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
    panel = page.page.locator(".dx-panel").first
    panel.focus()
    for key, expected in [
        ("ArrowRight", [1, 1]),
        ("ArrowRight", [2, 2]),
        ("ArrowLeft", [1, 1]),
        ("End", [16, 9]),
        ("ArrowLeft", [15, 9]),
        ("Home", [0, 0]),
    ]:
        page.page.keyboard.press(key)
        page.stands(*expected)
    page.page.keyboard.press("Control+ArrowRight")
    page.stands(0, 0)
    speed = page.page.get_by_label("Speed")
    page.page.keyboard.press("]")
    expect(speed).to_have_value("2")
    page.page.keyboard.press("[")
    page.page.keyboard.press("[")
    expect(speed).to_have_value("0.5")
    page.page.keyboard.press("Space")
    expect(panel).to_have_attribute("data-state", "playing")
    page.page.keyboard.press("Space")
    expect(panel).to_have_attribute("data-state", re.compile("ready"))


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
    unit(page, "Model calls")
    seek(page, 3, slot=1)  # 3 calls of the target; those of its draft are beside them
    page.stands(3, 3)
    unit(page, "Seconds")
    seek(page, 4, slot=1)  # 52 ms; a step of the masked run takes 4.7 to 6.7 ms
    page.stands(9, 4)
    page.page.evaluate("handles[0].seek(16)")
    until(page.page, "() => handles[0].debug().step === 16 && handles[1].debug().step < 9")


@pytest.mark.timing
def test_seconds_play_in_real_time_and_the_shorter_run_waits(opened: Open) -> None:
    fast, slow = masked(24, 4), masked(24, 4)
    for step in fast.steps:
        step.model_seconds, step.method_seconds = 0.05, 0.0
    for step in slow.steps:
        step.model_seconds, step.method_seconds = 0.2, 0.0
    page = opened([fast, slow])
    unit(page, "Seconds")
    took = page.page.evaluate(
        """() => new Promise((done) => { const start = performance.now(), marks = {}; handles[0].group.play();
        const look = () => { const [a, b] = handles.map((h) => h.debug().step), now = performance.now() - start;
          if (a === 4) marks.fast ??= now; if (b === 4) return done({ ...marks, slow: now });
            requestAnimationFrame(look); }; look(); })"""
    )
    print("seconds clock, 0.2 s and 0.8 s:", took)
    assert (
        150 < took["fast"] < 5000 and 750 < took["slow"] < 5000
    )  # never faster than it was; later only on a busy machine
    page.stands(4, 4)


def test_hovering_a_masked_position_shows_what_the_model_would_say(opened: Open) -> None:
    trace = masked()
    page = opened([trace])
    seek(page, 3)
    at = trace.steps[3].commits.positions[0]
    cell(page, at).hover()
    pop = page.page.locator(".dx-pop")
    expect(pop).to_be_visible()
    expect(pop).to_contain_text("Candidates in step 3")
    expect(pop.locator(".dx-bars li")).to_have_count(4)
    expect(pop.locator("table")).to_contain_text("entropy")
    seek(page, 4)
    expect(pop).to_contain_text("written in this step")
    expect(pop).to_contain_text("Candidates in step 4")
    seek(page, 9)
    expect(pop).to_contain_text("Candidates in step 4")  # a written token keeps those of the step that wrote it
    expect(pop).to_contain_text("cause: t")
    page.page.mouse.move(2, 2)
    expect(pop).to_be_hidden()


def test_details_by_keyboard_and_pinned_by_click(opened: Open) -> None:
    page = opened([masked(), drafting()])
    seek(page, 3)
    page.page.locator(".dx-board").first.focus()
    pop = page.page.locator(".dx-pop").first
    for _ in range(4):
        page.page.keyboard.press("ArrowDown")
    expect(pop).to_contain_text("position 4 ")
    expect(pop).to_contain_text("Part of the prompt")
    page.stands(3, 3)
    page.page.keyboard.press("Escape")
    expect(pop).to_be_hidden()
    cell(page, 13, slot=1).click()
    other = page.page.locator(".dx-pop").nth(1)
    expect(other).to_contain_text("No candidates recorded at this step")
    page.page.mouse.move(2, 2)
    expect(other).to_be_visible()


def test_the_board_shows_states_by_attribute_text_and_glyph(opened: Open) -> None:
    trace = masked()
    page = opened([trace])
    seek(page, 2)
    written = trace.steps[1].commits.positions
    assert [i for i, c in enumerate(debug(page)["board"]) if c["state"] == "new"] == written
    expect(cell(page, written[0])).to_have_attribute("data-s", "new")
    expect(cell(page, 47)).to_have_attribute("data-s", "masked")
    guesses = page.page.get_by_role("button", name="Best guesses")
    expect(guesses).to_have_attribute("aria-pressed", "true")
    expect(cell(page, 47)).to_have_attribute("data-k", "end")
    guessed = next(c["position"] for c in debug(page)["board"] if c["state"] == "masked")
    expect(cell(page, guessed)).to_have_attribute("data-k", "peek")
    guesses.click()
    expect(cell(page, guessed)).to_have_attribute("data-k", "mark")
    expect(cell(page, 1)).to_have_text("␣list")


def test_the_tree_tells_accepted_refused_unreached_and_gained(opened: Open) -> None:
    page = opened([drafting()])
    seek(page, 3)
    nodes = page.page.locator("[data-view=DraftTree] svg g > g:visible")
    expect(nodes).to_have_count(11)
    states = nodes.evaluate_all("(nodes) => nodes.map((n) => n.dataset.s)")
    assert (states.count("accepted"), states.count("correction")) == (2, 1)
    assert {"rejected", "unreached"} <= set(states)
    expect(nodes.nth(1).locator("title")).to_contain_text("draft probability")
    seek(page, 5)
    expect(page.page.locator("[data-view=DraftTree]")).to_contain_text("No draft tree in step 5.")
    expect(page.page.locator("[data-view=DraftTree] svg.dx-tree")).to_be_hidden()


def test_learned_embeddings_hang_below_their_nodes(opened: Open) -> None:
    tails = [3, 2, *[1] * 8]
    page = opened([with_trees(tails=tails)])
    seek(page, 3)
    view = page.page.locator("[data-view=DraftTree]")
    expect(view).to_contain_text("Pseudo rows in this forward: 13.")
    expect(view).to_contain_text("small cells: pseudo rows")
    nodes = view.locator("svg g > g[data-s]:visible")
    hang = nodes.evaluate_all("(all) => all.map((n) => n.querySelectorAll(':scope > g > rect').length)")
    assert sorted(hang) == sorted([*tails, 0])  # none below the token that the target gave


BEFORE = """([end, begin]) => { const view = document.querySelector("[data-view=DraftTree]"),
  [cell, node] = ["g[data-line]", "svg g[data-row]"].map((all) => [...view.querySelectorAll(all)]
    .find((one) => one.getClientRects().length).getBoundingClientRect());
  return cell[end] < node[begin]; }"""  # the first cell ends before the first node begins


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
    expect(view.locator(".dx-legend")).to_contain_text("a row of the tablethe draft modelcopied from the text")
    threads, nodes = view.locator(".dx-threads path:visible"), view.locator("svg g[data-row]:visible")
    expect(threads).to_have_count(4)
    stripes = nodes.nth(1).locator(".dx-stripe:visible")
    becomes(lambda: stripes.evaluate_all("all => all.map((one) => one.dataset.source)"), ["table", "model"])
    expect(view.locator("g[data-cell]:visible")).to_have_count(5)
    expect(view).to_contain_text("↻ 1 updated")
    nodes.nth(1).hover()
    expect(view.locator(".dx-threads .dx-hot")).to_have_count(2)
    view.locator("g[data-line='0'][data-cell='2']").hover()
    expect(view.locator(".dx-threads .dx-hot")).to_have_count(1)
    until(page.page, BEFORE, ["right", "left"])  # left of the tree
    page.page.set_viewport_size({"width": 390, "height": 844})
    expect(threads).to_have_count(4)
    until(page.page, BEFORE, ["bottom", "top"])  # above it


BARS = """([written, prompt]) => { const cells = [...document.querySelectorAll(".dx-board .dx-cell")],
  wide = cells[0].getBoundingClientRect().width,
  { x, y } = document.querySelector(".dx-bars-now").getBoundingClientRect(),
  path = document.querySelector(".dx-bar-now").getAttribute("d"),
  starts = [...path.matchAll(/M([\\d.]+),([\\d.]+)/g)].map((one) => [+one[2], +one[1]])
    .sort(([a, b], [c, d]) => a - c || b - d);
  return starts.length === written.length && starts.every(([, from], i) => {
    const by = x + from - cells[written[i] - prompt].getBoundingClientRect().x;
    return by > 0 && by < wide / 2; }) && [x + starts[0][1] + 2, y + starts[0][0] - 2]; }"""


@pytest.mark.parametrize("width", [390, 800, 1440])
def test_a_bar_stands_under_its_cell_and_wraps_with_it(stage: Stage, width: int) -> None:
    trace = masked(48, 6)
    picture, written = stage.show(trace, "Bars", Panel(width)), sorted(trace.steps[1].commits.positions)
    picture.seek(2)
    given = [written, len(trace.header.prompt_ids)]
    until(stage.page, BARS, given)
    picture.locator(".dx-bars-box").scroll_into_view_if_needed()
    x, y = stage.page.evaluate(BARS, given)
    stage.page.mouse.move(x, y)
    picture.says(f"position {written[0]}")


def test_the_baseline_of_one_token_a_call_stands_beside_the_tree(stage: Stage) -> None:
    trace, widths = drafting(), []
    picture = stage.show(trace, "DraftTree", Panel(1440))
    ghost = stage.page.locator(".dx-ghosts")
    for step in (2, 4):
        picture.seek(step)
        tokens = sum(len(one.commits.tokens) for one in trace.steps[:step])
        said = f"After {step} model calls this run has {tokens} tokens; one by one there would be {step}."
        expect(ghost).to_have_attribute("aria-label", said)
        expect(ghost).to_contain_text(f"{step}, derived")
        clips = ghost.locator("clipPath rect").evaluate_all("all => all.map((r) => +r.getAttribute('width'))")
        assert abs(clips[0] / clips[1] - tokens / step) < 0.05  # both on one axis
        widths.append(clips[1])
    assert abs(widths[1] / widths[0] - 2) < 0.05
    stage.show(masked(24, 4), "Tokens")
    expect(ghost).to_have_count(0)


def test_who_wrote_a_token_colours_the_board_where_models_take_turns(opened: Open) -> None:
    path = next(path for path in sorted((ASSETS / "traces").glob("*.json.gz")) if "ead" in path.name.split("-"))
    trace = Trace.from_json(gzip.decompress(path.read_bytes()))
    page = opened([trace], folded=True)
    seek(page, len(trace.steps))
    expect(page.page.locator("[data-view=Tokens] .dx-controls select")).to_have_value("@author")
    paint = "all => [...new Set(all.map((one) => getComputedStyle(one).backgroundColor))]"
    swatches = page.page.locator(".dx-under .dx-legend .dx-swatch").evaluate_all(paint)
    cells = page.page.locator(".dx-cells .dx-cell:visible").evaluate_all(paint)
    authors = {author for step in trace.steps if step.commits for author in step.commits.authors}
    assert len(swatches) == len(authors) > 1 and set(swatches) <= set(cells)  # the key has the colours of the board


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
    trace = masked(24, 6)
    at = trace.steps[4].commits.positions[0]
    wrong = trace.steps[1].candidates
    rows = wrong.tokens.array().copy()
    rows[wrong.positions.index(at)] = rows[wrong.positions.index(at), 0] + 1
    wrong.tokens = pack(rows)
    page = opened([trace, drafting()])
    lens = page.page.locator("[data-view=Hindsight]")
    expect(lens).to_have_count(1)  # the other run recorded no candidates
    expect(lens).to_contain_text(
        re.compile(
            rf"After 3 of 6 model calls \(50 %\).*{CAVEAT}.*Start known for 12 of 12 written positions\.",
            re.IGNORECASE,
        )
    )
    place = lens.locator(f'[role=listitem][aria-label^="position {at},"]')
    expect(place).to_have_attribute("aria-label", re.compile("decodable since step 3, written in step 5$"))
    expect(place).to_have_attribute("title", re.compile("decodable since step 3, written in step 5$"))
    for step, state in [(0, "masked"), (2, "masked"), (3, "drafted"), (4, "drafted"), (5, "old"), (6, "old")]:
        seek(page, step)
        expect(place).to_have_attribute("data-s", state)
    assert place.evaluate("(node) => node.style.background") != ""
    bars = lens.locator("rect").filter(has=page.page.locator("title", has_text=f"position {at},"))
    assert bars.evaluate_all("(bars) => bars.map((bar) => [bar.x.baseVal.value, bar.width.baseVal.value])") == [
        [2, 2],
        [4, 1],
    ]
    press(page, lens.locator(".dx-timeline"), 1.5 / 6)
    page.stands(2, 2)
    waiting = [p for step in trace.steps[2:] for p in step.commits.positions if p != at]
    expect(lens).to_contain_text(f"{len(waiting)} decodable and not written yet")
    page.page.locator(".dx-panel").first.press("ArrowRight")
    until(
        page.page,
        """() => { const hand = document.querySelector("[data-view=Hindsight] .dx-hand").getBoundingClientRect().left,
          { left, width } = document.querySelector("[data-view=Hindsight] .dx-timeline").getBoundingClientRect();
          return Math.abs(hand - left - width / 2) <= 3; }""",
    )


def test_hindsight_says_when_it_has_nothing_to_show_and_what_is_unknown(opened: Open) -> None:
    early = looked([({2: 4}, [(2, 4)]), ({3: 5}, [(3, 5)])], canvas=4)
    torn = looked(
        [({2: 4, 3: 5, 4: 4}, []), ({3: 5, 4: 5}, [(2, 4)]), ({4: 6}, []), ({3: 5, 4: 6}, [(3, 5), (4, 4)])], canvas=6
    )
    page = opened([early, torn])
    lenses = page.page.locator("[data-view=Hindsight]")
    expect(lenses.first).to_contain_text(
        "Nothing to show: no candidates were recorded for a position before the step that wrote it."
    )
    expect(lenses.first.locator("svg, [role=listitem]")).to_have_count(0)
    labels = (
        lenses.nth(1)
        .locator("[role=listitem]")
        .evaluate_all("(nodes) => nodes.map((n) => [n.dataset.k, n.ariaLabel.split(': ').slice(1).join(': ')])")
    )
    assert labels == [
        ["unknown", "decodable since: unknown, written in step 2"],
        ["since", "decodable since step 4 or earlier, written in step 4"],
        ["other", "not the top guess, written in step 4"],
    ]
    for part in (
        "Start known for 1 of 3",
        "1 of them perhaps earlier",
        "1 not the top guess",
        "1 without candidates",
        "1 never written",
    ):
        expect(lenses.nth(1)).to_contain_text(part)


def test_hindsight_waits_for_the_end_of_a_live_run(opened: Open) -> None:
    page, parts = opened([masked(24, 4)]), batches(masked(24, 4))
    page.page.evaluate("(some) => some.forEach((b) => handles[0].push(b))", parts[:-1])
    assert "Hindsight" not in debug(page)["views"]
    page.page.evaluate("(b) => handles[0].push(b)", parts[-1])
    assert "Hindsight" in debug(page)["views"]
    expect(page.page.locator("[data-view=Hindsight] [role=listitem]")).to_have_count(12)


def test_the_machine_is_named_and_a_step_is_told(opened: Open) -> None:
    page = opened([masked()])
    seek(page, 16)
    expect(page.page.locator("dl.dx-about")).to_contain_text("2 threads")
    expect(page.page.locator(".dx-say")).to_contain_text("Step 16 of 16", timeout=4000)


def test_hostile_tokens_stay_text_everywhere(opened: Open) -> None:
    trace = drafting()
    trace.pieces = [
        *trace.pieces[:3],
        *(Piece(p.id, HOSTILE[i % len(HOSTILE)]) for i, p in enumerate(trace.pieces[3:])),
    ]
    trace.steps[2].note = HOSTILE[0]
    trace.header.title = HOSTILE[1]
    other = everything_else()
    other.pieces = trace.pieces
    other.steps[0].media.boxes[0].label = other.steps[0].intervals[0].track = HOSTILE[1]
    page = opened([hostile(), trace, other], title=HOSTILE[0])
    for step in range(1, 9):
        seek(page, step, slot=1)
        for slot in (0, 1):
            cell(page, 12, slot).hover()
    seek(page, 3, slot=1)
    assert page.page.evaluate(
        "[window.hacked ?? null, document.querySelectorAll('img, main script, iframe').length]"
    ) == [None, 0]
    assert debug(page, 1)["note"] == HOSTILE[0]
    shown = set(page.page.locator(".dx-panel").first.locator(".dx-cells .dx-cell").all_text_contents())
    assert "${window.hacked=3}" in shown and max(map(len, shown)) < 60
    cell(page, 9).hover()
    expect(page.page.locator(".dx-whole").first).to_have_text("a" * 10_000)
    assert page.page.title() == HOSTILE[0]


def test_a_lone_surrogate_is_shown_as_unknown(opened: Open) -> None:
    page = opened([masked(24, 4)])
    page.page.evaluate("(text) => handles[0].load(text.replace(' list', '\\\\ud800'))", masked(24, 4).to_json())
    assert debug(page)["state"] == "ready"
    expect(cell(page, 1)).to_have_text("\ufffd")


def test_a_bad_trace_is_a_sentence_not_a_blank(opened: Open) -> None:
    page = opened([masked(24, 4)])
    page.page.evaluate('handles[0].load(\'{"header": {"schema": 9}}\')')
    expect(page.page.get_by_role("alert").first).to_contain_text("schema version 9; this player reads version 3")
    assert debug(page)["state"] == "error"


def test_a_live_run_is_followed_until_the_person_looks_back(opened: Open) -> None:
    page, trace = opened([drafting()]), drafting()
    parts = batches(trace)

    def push(some: list[dict[str, Any]]) -> None:
        page.page.evaluate("(some) => some.forEach((b) => handles[0].push(b))", some)

    push(parts[:1])
    assert debug(page)["state"] == "queued"
    push(parts[1:5])
    assert (debug(page)["state"], steps(page)) == ("live", [3])
    assert set(debug(page)["views"]) >= {"DraftTree", "Ribbon", "Facts"}
    seek(page, 1)
    push(parts[5:8])
    assert steps(page) == [1] and debug(page)["steps"] == 6
    push(parts[7:8])  # a batch that comes twice changes nothing
    assert debug(page)["steps"] == 6
    seek(page, 6)
    push(parts[8:])
    assert (debug(page)["state"], steps(page)) == ("done", [9])
    assert debug(page)["board"] == page.page.evaluate(
        "(text) => { handles[0].load(text, { at: 'end' }); return handles[0].debug().board; }", trace.to_json()
    )


def test_a_missing_batch_is_said_not_hidden(opened: Open) -> None:
    page, parts = opened([drafting()]), batches(drafting())
    page.page.evaluate("(some) => some.forEach((b) => handles[0].push(b))", [*parts[:4], *parts[5:]])
    assert debug(page)["state"] == "error" and "did not arrive" in debug(page)["message"] and debug(page)["steps"] == 2


def test_a_failed_run_keeps_its_message(opened: Open) -> None:
    page, parts = opened([masked(24, 4)]), batches(drafting())
    failed = {"run": "r", "seq": 4, "state": "failed", "message": "the model ran out of memory"}
    page.page.evaluate("(some) => some.forEach((b) => handles[0].push(b))", [*parts[:4], failed])
    expect(page.page.get_by_role("alert").first).to_have_text("the model ran out of memory")
    assert debug(page)["state"] == "failed" and steps(page) == [2]


def test_light_and_dark_and_a_phone(opened: Open) -> None:
    theme = json.loads((ASSETS / "theme.json").read_text("utf-8"))
    page = opened([masked(), drafting()])
    for scheme, width in (("light", 1200), ("dark", 390)):
        page.page.emulate_media(color_scheme=scheme)
        page.page.set_viewport_size({"width": width, "height": 900})
        ground = _rgb(theme["surface"][scheme]["panel"])
        expect(page.page.locator(".dx-panel").first).to_have_css("background-color", ground)
        until(page.page, "(width) => document.documentElement.scrollWidth === width", width)


def test_a_dark_class_above_the_player_is_obeyed(opened: Open) -> None:
    page = opened([masked(24, 4)], color_scheme="light")
    seek(page, 2)
    page.page.evaluate("document.body.classList.add('dark')")
    until(
        page.page,
        "() => getComputedStyle(document.querySelector('.dx-panel')).getPropertyValue('--dx-mode') === 'dark'",
    )


def test_reduced_motion_has_no_transitions(opened: Open) -> None:
    page = opened([masked(24, 4)], reduced_motion="reduce")
    assert cell(page, 12).evaluate("(n) => getComputedStyle(n).transitionDuration") == "0s"


def test_the_memory_shows_the_entries_touched_last_and_what_they_expect(opened: Open) -> None:
    page = opened([everything_else()])
    seek(page, 3)
    rows = page.page.locator(".dx-memory > div:visible")
    expect(rows).to_have_count(4)  # the entry with one key token was written again and again, each other one once
    now = "all => all.map((row) => row.classList.contains('dx-now'))"
    becomes(lambda: rows.evaluate_all(now), [True, True, False, False])
    table = {piece.id: piece.text for piece in everything_else().pieces}
    texts = rows.nth(1).locator("span > span").all_text_contents()  # the view may lie below the screen
    assert [text.removeprefix("␣") for text in texts] == [table[17].strip(), table[16].strip()]
    expect(rows.nth(1).locator("span > span").first).to_have_attribute("title", "0.750")
    expect(rows.nth(1)).to_have_attribute("title", re.compile("2-gram, drafted from, in step 3"))
    said = page.page.locator(".dx-readout", has_text="entries touched")
    expect(said).to_have_text("4 entries touched so far; this step drafted from 1 (→) and changed 1 (+).")


def test_the_thermometer_stacks_tokens_under_the_line_and_hollows_the_refused_one(opened: Open) -> None:
    page = opened([everything_else()])
    seek(page, 2)
    tube = page.page.get_by_role("img", name="3 tokens kept")
    titles = tube.locator("rect > title").all_text_contents()
    assert [title.rpartition(": ")[2] for title in titles] == ["0 bits", "1.38 bits", "1.62 bits", "0.918 bits"]
    assert "refused" in titles[2] and "drawn" in titles[3], "the one that was drawn is painted last"
    hollow = tube.locator("rect", has=page.page.locator("title", has_text="refused"))
    expect(hollow).to_have_attribute("style", re.compile("fill: ?none"))
    line = float(tube.locator(".dx-threshold").get_attribute("d").split(",")[1].split("H")[0])
    tops = [float(rect.get_attribute("y")) for rect in tube.locator("rect", has=page.page.locator("title")).all()]
    assert tops[2] < line < min(tops[0], tops[1], tops[3])
    words = page.page.get_by_role("img", name="Tokens kept by several samplers").locator("text")
    own = ["this run", "3 tokens · 70 %"]
    assert words.all_text_contents()[2:] == [*own, "top-k 50", "50 tokens", "top-p 0.9", "1001 tokens"]
    said = page.page.locator(".dx-readout", has_text=" kept with ")
    sentence = "3 tokens kept with 70 % of the mass; entropy of the kept tokens: 1.38 against the threshold 1.40, "
    expect(said).to_have_text(sentence + "3.50 in all (bits).")
    seek(page, 3)
    expect(page.page.get_by_text("and 100 more")).to_be_visible()


def test_the_chart_of_work_follows_the_cursor(opened: Open) -> None:
    page = opened([everything_else(12)])
    seek(page, 10)
    bars = page.page.locator(".dx-gantt rect:visible")
    expect(bars).to_have_count(2 * 7)  # five steps up to the cursor and two behind it, two workers
    expect(page.page.locator(".dx-gantt rect.dx-modelled:visible")).to_have_count(4)
    said = page.page.locator(".dx-readout", has_text="bright: this step")
    expect(said).to_have_text(re.compile("^100"))  # milliseconds: step 5 began then
    seek(page, 2)
    expect(said).to_have_text(re.compile("^0 "))
    expect(bars).to_have_count(2 * 4)


def test_cells_wear_the_colours_of_their_state(opened: Open) -> None:
    """Text and ground of an accepted token are the theme's pair, whose contrast is checked elsewhere."""
    page = opened([drafting()])
    seek(page, 2)
    wanted = json.loads((ASSETS / "theme.json").read_text("utf-8"))["states"]["accepted"]["light"]
    board = page.page.locator('.dx-cells .dx-cell[data-s="accepted"]').first
    seen = board.evaluate("cell => [getComputedStyle(cell).color, getComputedStyle(cell).backgroundColor]")
    in_tree = page.page.locator('.dx-tree g[data-s="accepted"] text').first.evaluate(
        "text => getComputedStyle(text).fill"
    )
    assert [*seen, in_tree] == [_rgb(wanted["text"]), _rgb(wanted["fill"]), _rgb(wanted["text"])]


def _rgb(code: str) -> str:
    return f"rgb({', '.join(str(int(code[i : i + 2], 16)) for i in (1, 3, 5))})"


@pytest.mark.parametrize(("name", "parts"), [("02-credit-sum", True), ("learn2pd", False)])
def test_a_bar_has_a_part_of_confidence_only_where_something_was_added_to_it(
    opened: Open, name: str, parts: bool
) -> None:
    """Learn2PD's filter is a probability of its own, above the confidence at some places and below it at others."""
    path = next(path for path in sorted((ASSETS / "traces").glob("*.json.gz")) if name in path.name)
    page = opened([Trace.from_json(gzip.decompress(path.read_bytes()))])
    seek(page, 2)
    key = page.page.locator("[data-view=Bars] .dx-legend")
    expect(key).to_contain_text("not written yet")
    for words in ("added to it", "confidence, not written yet"):
        (expect(key).to_contain_text if parts else expect(key).not_to_contain_text)(words)
    written = "written in this step"  # the board's legend says it, and the bars have its colour
    expect(page.page.locator(".dx-legend:visible span", has_text=written)).to_have_count(1)
