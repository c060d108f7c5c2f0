"""The pictures of what models see, keep and cost say what was recorded."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import expect

import engines
from engines.core.trace import Box, Commits, End, Interval, Piece, Step, Trace, Tree, pack
from engines.methods.architecture.pldr_llm.operators import Operator, Operators
from engines.methods.multimodal._scene import Reading, Scene
from engines.methods.multimodal._seen import Vision
from engines.methods.multimodal._word import Sight
from tests.player.handmade import header, records, table
from tests.player.pictures import MAIN, OUTSIDE, Panel, Picture, Stage, decoded, with_odd_words

LETTERS = [Piece(0, "<end>", "special"), *(Piece(i, chr(96 + i)) for i in range(1, 27))]


def made(method: str, steps: list[Step], pieces: list[Piece], ids: list[int], text: str) -> Trace:
    top = header(method, method, "multimodal")
    top.prompt_ids, top.eos_ids = [1] * 12, [0]
    return Trace(top, steps, pieces, End("complete", ids, text, 0.1, 0.01))


def step_of(i: int, tokens: list[int], at: int, cause: str = "greedy", **told: Any) -> Step:
    commits = Commits(list(range(at, at + len(tokens))), tokens, [cause] * len(tokens))
    return Step(i, {"reader": 1}, 1, 0.01, 0.001, {"reader": 2}, commits=commits, records=records(**told))


# a word that is read


def looked(*columns: int) -> Any:
    return pack(np.eye(32)[list(columns)], 0.0, 1.0)


PIXELS = pack(np.linspace(0, 1, 32 * 128).reshape(32, 128), 0.0, 1.0)


@cache
def word(at_once: bool) -> Trace:
    if at_once:
        sight = Sight(PIXELS, looked(2, 6, 9), {"e": 2}, [0.99, 0.98, 0.97, 0.02])
        steps = [step_of(0, [5, 5, 0], 12, "place", sight=sight)]
    else:
        steps = [
            step_of(i, [token], 12 + i, sight=Sight(None if i else PIXELS, looked(2 + 4 * i)))
            for i, token in enumerate([5, 5, 0])
        ]
    return made("cppd", steps, LETTERS, [5, 5, 0], "ee")


def test_counts_places_and_letters_of_a_word_stand_after_one_step(stage: Stage) -> None:
    picture = stage.show(word(True), "Word", details=True)
    expect(picture.locator("image")).to_be_visible()  # before it is read
    expect(picture.readout).to_have_text("Not read yet.")
    assert picture.words("svg > g:nth-child(5) > g") == []
    picture.seek(1)
    said = "Counted: e 2. Positions predicted occupied: 3 of 4. Read: ‘ee’ after step 1."
    expect(picture.readout).to_have_text(said)
    expect(picture.locator("svg")).to_have_attribute("aria-label", said)
    assert picture.words("svg > g:nth-child(5) > g") == ["e", "e", "end", ""]
    dashes = picture.now(
        "(view, all) => all('svg > g:nth-child(5) rect').map((one) => one.getAttribute('stroke-dasharray'))"
    )
    assert dashes == ["none", "none", "none", "3 4"]
    assert len(picture.words("svg > g:nth-child(6) rect")) == 2
    words = picture.words("svg > g:last-child text")
    assert words[:4] == ["99 %", "98 %", "97 %", "2 %"] and {"e", "× 2", "call 3"} <= {*words}
    late = picture.now(
        "(view, all) => all('svg > g:nth-child(7) > g').filter((one) => one.getAttribute('opacity') < 1).length"
    )
    assert late == 5, "the calls that reading letter by letter would still have to make"


def test_the_strip_of_a_word_follows_the_step(stage: Stage) -> None:
    picture = stage.show(word(False), "Word", details=True)
    for step in (1, 3, 2):
        shares = picture.after(
            step, "(view, all) => all('svg > g:nth-child(2) rect').map((one) => +one.getAttribute('opacity'))"
        )
        assert np.argmax(shares) == 2 + 4 * (step - 1)
        assert len(picture.words("svg > g:nth-child(3) path")) == step
    expect(picture.readout).to_have_text("Read so far: ‘ee’ after step 2.")


# a picture that is looked at

WORDS = ["<end>", " a", " red", " circle", " left", " blue"]


@cache
def rounds(*readers: str) -> Trace:
    """A first round that only reads, a second in which the draft's " blue" is refused, a third that is all accepted."""
    written = [([1], ["bonus"], ["function"]), ([2], ["residual"], ["attribute"])]
    written += [([3, 4, 0], ["accepted", "accepted", "bonus"], ["attribute", "place", "function"])]
    steps, at = [], 12
    for i, (tokens, causes, kinds) in enumerate(written):
        pixels = None if i else pack(np.full((6, 6, 3), [1.0, 0.0, 0.5]), 0.0, 1.0)
        looks = pack(np.eye(4)[[i % 4, 3][: len(readers)]], 0.0, 1.0) if i else None
        entries = {"picture": 4, "text": i} if i else {}
        vision = Vision(pixels, [2, 2], looks, [*readers] if i else [], entries, 500, kinds)
        step = Step(i, {"target": 1}, 11, 0.01, 0.001, {"target": 9}, records=records(vision=vision))
        step.commits = Commits(list(range(at, at + len(tokens))), tokens, causes)
        if i == 1:
            step.tree = Tree(at - 1, [-1, 0], [1, 5], [True, False], ["root", "mismatch"], [2])
        steps.append(step)
        at += len(tokens)
    pieces = [Piece(i, one, "special" if not i else "text") for i, one in enumerate(WORDS)]
    return made("msd", steps, pieces, [1, 2, 3, 4, 0], "a red circle left")


def heats(picture: Picture) -> list[list[float]]:
    return picture.now(
        """(view) => [...view.querySelectorAll("svg > g:nth-child(3) > g")].map((map) =>
        [...map.querySelector(":scope > g").querySelectorAll("rect")].map((one) => +one.getAttribute("opacity")))"""
    )


def test_rounds_refusals_and_what_the_draft_keeps(stage: Stage) -> None:
    picture = stage.show(rounds("draft"), "Seen", details=True)
    side = picture.locator(".dx-seen-side")
    expect(picture.locator("svg > image")).to_be_visible()  # before it is looked at
    expect(picture.readout).to_have_text("The picture that is looked at.")
    assert picture.words(".dx-seen-round") == []
    picture.seek(2)
    assert picture.words(".dx-seen-round") == ["a", "redblue"], "below the model's word what the draft had guessed"
    expect(picture.readout).to_have_text("2 tokens after 2 forwards of the model.")
    expect(picture.locator("svg > g:nth-child(4) rect")).to_have_count(10)  # the target's and the draft's
    expect(picture.locator(".dx-seen-patch")).to_have_count(8)
    for said in ("4 of the picture (2.0 kB), 1 of text", "size, colour, shape 0 / 1"):
        expect(side).to_contain_text(said)
    picture.seek(3)
    expect(side).to_contain_text("size, colour, shape 1 / 2, place 1 / 1, other words 0 / 1")
    assert picture.words(".dx-seen-round")[-1] == "circleleftend"
    assert heats(picture) == [[0, 0, 0.9, 0]]


def test_each_reader_has_a_map_of_its_own(stage: Stage) -> None:
    picture = stage.show(rounds("compact token", "global vector"), "Seen", details=True)
    picture.seek(2)
    assert heats(picture) == [[0, 0.9, 0, 0], [0, 0, 0, 0.9]]
    names = picture.words("svg text")
    assert {"compact token: made from here", "global vector g: made from here"} <= {*names}
    assert not any("g joins every word" in name for name in names), "no vector was added in this run"


@pytest.mark.parametrize("params", [{}, {"global_vector": False}, {"compact": False}], ids=str)
def test_what_reaches_the_draft_is_what_the_run_gave_it(stage: Stage, params: dict[str, Any]) -> None:
    trace = MAIN["Seen"].decode(**params, max_new_tokens=12)
    picture = stage.show(trace, "Seen")
    picture.seek(2)
    compact, vector = params.get("compact", True), params.get("global_vector", True)
    draft = "1 compact token instead of 36, then" if compact else "no image token, only"
    assert picture.words("svg > g:nth-child(6) text") == [
        "Target model: all 36 image tokens, then the text",
        f"Draft: {draft} the text" + "; g joins every word" * vector,
    ]
    text = trace.steps[1].records["vision"]["entries"]["text"]
    assert len(picture.words("svg > g:nth-child(5) path")) == compact + text * vector


# a scene that is read, on the short track and on the long one


@cache
def scene(bypass: bool) -> Trace:
    caption, box = "a cafe with a red awning", Reading("box 1", "cafe", 0.7)
    told = [
        Reading("picture", "xq", 0.1, 0.4, 0.2, 0.32, "a"),
        Reading("box 1", "cafe", 0.7, 0.9, 1.0, 0.94 if bypass else 0.6, "cafe", True),
    ]
    score = Scene("score", caption=caption, readings=told, tau=0.8, bypass=bypass)
    score.answer, score.source = ("cafe", "T3") if bypass else ("", "")
    picture, mask = pack(np.full((16, 96), 0.5), 0.0, 1.0), pack(np.eye(16, 32), 0.0, 1.0)
    stages = [
        Scene("segment", picture, mask, [Box(2, 4, 6, 20, "box 1")]),
        Scene("caption", caption=caption),
        Scene("read", readings=[Reading("picture", "xq", 0.1), box]),
        score,
    ]
    heavy = [Reading("box 1", "cape", 0.4, chosen=True), Reading("window 1", "", 0.9)]
    if not bypass:
        stages += [Scene("heavy", readings=heavy) for _ in range(4)]
        stages += [Scene("heavy", readings=heavy, answer="cape", source="heavy")]
    ids = [3, 1, 6 if bypass else 16, 5, 0]
    steps = [step_of(i, ids if one.answer else [], 4, "place", scene=one) for i, one in enumerate(stages)]
    trace = made("context-str", steps, LETTERS, ids, "cafe" if bypass else "cape")
    trace.header.prompt_ids = [3, 1, 16, 5]
    return trace


def test_the_stages_of_a_scene_one_by_one(stage: Stage) -> None:
    picture = stage.show(scene(True), "Scene", details=True)
    expect(picture.locator("canvas")).to_be_visible()
    expect(picture.readout).to_have_text("Nothing was looked at yet.")
    assert picture.words() == []
    said = {1: "Boxes with words: 1.", 2: "The caption is being written.", 3: "Light: xq, cafe."}
    for step, words in said.items():
        picture.seek(step)
        expect(picture.readout).to_have_text(words)
    assert {"p 0.7", "Light reading, with its chance p"} <= set(picture.words())
    picture.seek(4)
    expect(picture.readout).to_have_text("Read: ‘cafe’, by T3, after step 4.")
    parts = {"threshold τ 0.8", "best C 0.94", "taken: cafe", "heavy reader: left out", "meaning S", "spelling L"}
    assert parts <= set(picture.words())
    expect(picture.locator("span[style*=border-bottom]")).to_have_text(["cafe"])


def test_the_long_track_of_a_scene(stage: Stage) -> None:
    picture, places = stage.show(scene(False), "Scene", details=True), []
    picture.seek(4)
    expect(picture.readout).to_have_text("No reading fits well enough; the heavy reader reads.")
    for step in range(4, 10):
        places.append(float(picture.after(step, "(view) => view.querySelector('circle').getAttribute('cx')")))
    assert places == sorted(places) and places[0] < places[-1]
    words = set(picture.words())
    both = {"Light reading: does it fit the caption?", "C 0.6", "p 0.4"}  # readings, each named
    assert both | {"heavy reader: 5 of 5 turns"} <= words and "∅" not in words
    expect(picture.readout).to_have_text("Read: ‘cape’, by heavy, after step 9.")


@pytest.mark.parametrize("width", [390, 820, 1440])
@pytest.mark.parametrize(
    ("name", "make", "wide"),
    [("Word", lambda: word(True), 300), ("Seen", lambda: rounds("draft"), 300), ("Scene", lambda: scene(False), 200)],
    ids=["word", "picture", "scene"],
)
def test_what_is_seen_fits_its_panel(stage: Stage, name: str, make: Callable[[], Trace], wide: int, width: int) -> None:
    trace = make()
    picture = stage.show(trace, name, Panel(width), details=True)
    small, outside, box, page = picture.after(
        len(trace.steps),
        f"""(view, all) => [all("svg text").filter((one) =>
          parseFloat(getComputedStyle(one).fontSize) * one.getScreenCTM().a < 11.9).map((one) => one.textContent),
          all("svg").flatMap({OUTSIDE}), view.querySelector("canvas, svg").getBoundingClientRect().width,
          document.documentElement.scrollWidth]""",
    )
    assert (outside, small) == ([], []) and page <= width and wide < box <= width


# operators that are kept

FIRST = np.linspace(-1, 1, 96).reshape(2, 3, 4, 4)


@cache
def kept(parted: bool = True) -> Trace:
    steps = []
    for i in range(3):
        maps = None if i else pack(FIRST, -1.5, 1.5)
        moved = pack(FIRST * 0.1 * i, -1.5, 1.5) if i else None
        decoders = [
            Operator("target", "own", i > 0, maps),
            Operator("reference", "own", False, maps, moved, at=12 + i),
        ]
        decoders[1].tokens = [20 if parted and i == 1 else 15 + i]
        step = step_of(i, [15 + i], 12 + i, operators=Operators(decoders))
        took = {"target": 0.002, "reference": 0.008 + 0.001 * i}
        step.intervals = [Interval(role, i, i + seconds, "forward") for role, seconds in took.items()]
        step.forwards = {"target": 1}
        steps.append(step)
    return Trace(header("kept", "Kept", "architecture"), steps, table(), End("complete", [15, 16, 17], "", 0.1, 0.01))


def test_the_kept_maps_are_frozen_and_the_others_move(stage: Stage) -> None:
    picture = stage.show(kept(), "Operators", details=True)
    paint = "(view) => [...view.querySelectorAll('canvas')].map((one) => [one.width, one.height, one.toDataURL()])"
    first = picture.after(1, paint)
    expect(picture.seen("b")).to_have_count(0)  # the first G was made
    later = picture.after(3, paint)
    expect(picture.locator("b").first).to_be_visible()
    expect(picture.seen("b")).to_have_count(1)
    names = ["This decoder: G kept", "No cache: G made again; since the prompt it has moved"]
    expect(picture.locator("div > div:first-child > span")).to_have_text(names)
    layers = ["layer 1", "layer 2", "layer 1: 20 %", "layer 2: 20 %"]
    expect(picture.locator("div > div + div > span")).to_have_text(layers)
    ran = ["runs"] * 3 + ["runs", "skipped", "skipped"]  # the decoder without a cache stands above
    expect(picture.locator("svg > g:nth-child(1) text")).to_have_text(ran)
    assert [one[:2] for one in later] == [[38, 4]] * 2, "two layers of three maps, a wider gap between the layers"
    assert first[0] == first[1] == later[0] != later[1]


@pytest.mark.parametrize("parted", [True, False])
def test_the_first_token_in_which_the_texts_differ_is_marked_and_both_times_are_drawn(
    stage: Stage, parted: bool
) -> None:
    picture = stage.show(kept(parted), "Operators", details=True)
    picture.seek(3)
    expect(picture.locator("svg > g:nth-child(4) g[data-s=rejected]")).to_have_count(int(parted))
    picture.says("differ from token 2 on" if parted else "the same so far")
    assert re.search(r"A token takes 2(\.00)? ms, without a cache 9(\.00)? ms", picture.words(".dx-readout")[0])
    bars = "(view, all) => all('svg > g:nth-child(5) rect').map((one) => +one.getAttribute('height'))"
    one_of_two = picture.after(2, bars)
    assert len(one_of_two) == 4 and min(one_of_two[2:]) > max(one_of_two[:2]), "the one without a cache is slower"


# layers, slots, experts


def test_the_grid_of_phases_follows_the_run(stage: Stage) -> None:
    trace = decoded("Phases")
    n = len(trace.header.prompt_ids)
    cells = """(view, all) => [[1, 2]
      .map((i) => [...view.querySelectorAll(`svg > g:nth-of-type(1) > g:nth-of-type(${i}) path`)])
      .map((paths) => paths.map((one) => (one.getAttribute("d").match(/M/g) ?? []).length).slice(1)),
      view.textContent, all("svg > g:nth-of-type(2) path").length]"""
    replies = 0
    for t, (step, (grids, text, drawn)) in enumerate(
        zip(trace.steps, stage.show(trace, "Phases").each(cells)[1:], strict=True), 1
    ):
        twin, ours = grids
        replies += any(i.about.get("phase") == "decode" and i.track == "decoder-only" for i in step.intervals)
        assert ours[0] == 3 * n and ours[1] + ours[2] == 8 * n + 3 * t
        assert sum(twin) == 12 * n + 12 * replies
        assert "8 layers read the input once, 3 write a token" in text and "12 layers for every token" in text
        (lane,) = [one for one in step.scores if one.name == "looked at"]
        assert drawn == int((lane.values.array() >= 0.03).sum())


def test_the_sky_of_slots_tells_what_the_record_tells(stage: Stage) -> None:
    trace = decoded("Starfield")
    picture = stage.show(trace, "Starfield")
    seen: list[set[int]] = [set(), set(), set(), set()]
    for step, now in picture.beside(trace, captions="figcaption"):
        for layer in range(4):
            seen[layer] |= set(step.routing[0].chosen.array()[:, layer].ravel().tolist())
        assert now["captions"] == [f"layer {layer}: {len(seen[layer])} read" for layer in range(4)]
    for layer in (3, 1):
        picture.locator("button").nth(layer).click()
        last = [set(one.routing[0].chosen.array()[:, layer].ravel().tolist()) for one in trace.steps[-3:]]
        experts = [set(one.routing[3].chosen.array()[:, layer].ravel().tolist()) - {-1} for one in trace.steps[-3:]]
        picture.locator("input[type=range]").fill("3")
        for said in (
            f"memory: {len(set.union(*last))} of 4489 slots",
            f"mixture of experts: {len(set.union(*experts))} of 32 experts",
        ):
            expect(picture.locator("text", has_text=said)).to_be_visible()
        expect(picture.seen("circle")).to_have_count(16 * 5)


def test_the_union_of_a_step_is_that_of_the_record(stage: Stage) -> None:
    trace = decoded("Experts")
    picture = stage.show(trace, "Experts")
    picture.locator("select").select_option("0")
    for step, now in picture.beside(trace):
        chosen, beside = (routing.chosen.array()[:, 0] for routing in step.routing[:2])
        union, words = len({int(e) for e in chosen.ravel() if e >= 0}), " ".join(now["words"])
        assert f"{len(chosen)} tokens together use {union} of 32 experts" in now["said"][0]
        heading = "1 token reads" if len(chosen) == 1 else f"{len(chosen)} tokens together read"
        assert f"{heading} {union} of 32 experts" in words
        assert f": {len({int(e) for e in beside.ravel()})} of 32" in words.replace(f"{union} of 32 experts", "")
    seen = []
    picture.seek(2)
    for width in (1, 8, 32):
        picture.locator("input[type=range]").fill(str(width))
        expect(picture.readout).to_contain_text(" use ")
        seen.append(int(picture.words(".dx-readout")[0].split(" use ")[1].split(" of ")[0]))
    assert seen == sorted(seen) and seen[0] < seen[-1]


def test_calls_that_stay_are_those_of_the_record(stage: Stage) -> None:
    trace = decoded("Exchange")
    picture, local, every = stage.show(trace, "Exchange"), 0, 0
    for layer in range(4):
        picture.locator("select").select_option(str(layer))
        picture.seek(1)
        words = picture.words(".dx-readout")[0].split()
        local, every = local + int(words[5]), every + int(words[7])
    picture.locator("button", has_text="regroup").click()
    assert every == trace.steps[0].facts["pairs"]
    assert local / every == pytest.approx(trace.steps[0].facts["lar"])


EVICTIONS = f"""(view) => {{ const next = [...view.querySelectorAll("button")].find(({{ textContent }}) =>
  textContent === "eviction ▸"), outside = [];
  let left = 99;
  for (; !next.disabled && left; left--) {{
    next.click();
    outside.push(...({OUTSIDE})(view.querySelector("svg.dx-tower")));
  }}
  return [left, outside]; }}"""


@pytest.mark.parametrize("width", [1280, pytest.param(820, marks=pytest.mark.pages), 390])
def test_the_picture_of_slots_holds_at_each_eviction(stage: Stage, width: int) -> None:
    picture = stage.show(with_odd_words(decoded("Slots")), "Slots", Panel(width))
    picture.seek(1)
    for c in ("1", "2", "3"):
        picture.locator("input").fill(c)
        expect(picture.locator("[aria-live]")).to_contain_text("derived: loads: ")
        left, outside = picture.now(EVICTIONS)
        assert left and outside == []


def test_hits_are_those_of_the_run(stage: Stage) -> None:
    trace = engines.run("read-me", "tiny-ar-m", "add: 45 + 86", params={"max_new_tokens": 8, "slots": 1})
    for step, now in stage.show(trace, "Slots").beside(trace, view=".dx-content"):
        for rule in ("lru", "look-ahead", "random"):
            hits = step.facts[f"hits_{rule.replace('-', '_')}"]
            assert f"{rule}: {hits:.0f} of {step.facts['requests']:.0f} hits" in now["view"][0]


# bytes, schedules, workers, devices


def test_each_part_of_the_bytes_says_measured_or_modelled(stage: Stage) -> None:
    trace = decoded("Arena")
    picture = stage.show(trace, "Arena")
    picture.locator("summary").click()
    for step, now in picture.beside(trace, rows="div:has(> i + span)"):
        assert "% of the budget of 26.0 MB" in now["said"][0] and "22.6 MB, weights, are not drawn" in now["said"][0]
        parts = [i for i in step.intervals if i.unit == "bytes" and i.label != "limit"]
        assert sum(text.endswith("measured") for text in now["rows"]) == sum(i.measured for i in parts)
        assert sum(text.endswith("modelled") for text in now["rows"]) == sum(not i.measured for i in parts)


def test_lanes_that_ran_side_by_side_are_not_told_as_one_after_another(stage: Stage) -> None:
    """Both models of Mirror-SD in two threads: nothing is modelled, and what they share counts once."""
    given = {"max_new_tokens": 12, "execution": "threads", "kappa": 8}
    trace = engines.run("mirror-sd", "tiny-ar-m", "story: Mia, boat", params=given)
    for step, now in stage.show(trace, "Schedule").beside(trace, view=".dx-content"):
        long = max(i.end for i in step.intervals) - min(i.start for i in step.intervals)
        both = sum(i.end - i.start for i in step.intervals) > long
        assert ("Side by side, measured" if both else "one after another") in now["view"][0]


def test_each_part_of_a_schedule_says_measured_or_modelled(stage: Stage) -> None:
    trace = decoded("Schedule")
    script = """(view, all) => [all("svg g[transform]").map((one) => one.querySelector("title")?.textContent)
      .filter(Boolean), view.querySelector(".dx-readout").textContent, view.textContent,
      all("svg > g:nth-child(2) > g").length, all("span[title^=position]").length]"""
    each = stage.show(trace, "Schedule").each(script)[1:]
    for step, (titles, said, text, at_once, rows) in zip(trace.steps, each, strict=True):
        laid = [i for i in step.intervals if not i.measured]
        own = [i for i in step.intervals if i.track == "one device"] or [i for i in step.intervals if i.measured]
        assert len(titles) == len(own) + len(laid)
        assert sum(title.endswith("measured") for title in titles) == len(own)
        assert sum(title.endswith("modelled") for title in titles) == len(laid)
        assert "measured" in said and ("modelled" in said) == bool(laid)
        assert ("one input for all of" in text) == (at_once > 0)
        assert rows == sum(span.end - span.start for span in step.spans)


def test_of_the_branches_after_drafts_the_one_that_came_true_is_marked(stage: Stage) -> None:
    trace = engines.run("mirror-sd", "tiny-ar-l", "story: Mia, boat", params={"max_new_tokens": 24})
    chosen = 0
    for step, now in stage.show(trace, "Schedule").beside(trace, rows="[role=listitem]"):
        own = [branch for branch in step.branches or [] if len(branch.tokens) > 1]
        for text, branch in zip(now["rows"], own, strict=True):
            assert text.startswith("✓ ") == (branch.fate == "chosen")
            if branch.fate == "chosen":  # it supposed as many as stayed
                assert f"if {int(step.facts['accepted'])} stay" in text
                chosen += 1
    assert chosen


TITLES = {
    "lean": ("② the pieces stacked, one worker each (stream-K)", "② stacked"),
    "plain": ("instead: one worker per head", "one worker per head"),
    "flash_decoding": ("instead: every head cut in the same way (fixed split)", "fixed split"),
}


@pytest.mark.parametrize("panel", [Panel(), Panel(390, dark=True)])
def test_lengths_of_workers_are_told_and_a_head_can_be_chosen(stage: Stage, panel: Panel) -> None:
    trace, wide = decoded("Workers"), panel.width > 400
    picture = stage.show(trace, "Workers", panel)
    for step, now in picture.beside(trace, view=".dx-content"):
        text = now["view"][0]
        for way, title in TITLES.items():
            long = f"{step.facts[f'makespan_{way}']:.0f}"
            assert f"{way.replace('_', '-')} {long}" in text
            assert any(f"{name}: {long} {'tiles ' * wide}long" in text for name in title)
        assert sum("carried out" in words for words in now["words"]) == wide and "tile units, modelled" in text
    picture.root.get_by_role("button", name="head 2").click()
    own = [i for i in trace.steps[-1].intervals if i.track.startswith("lean") and i.label.startswith("head 2,")]
    expect(picture.seen("li")).to_have_count(len(own))
    expect(picture.seen("li").first).to_contain_text(re.compile("this worker merges.*, l |, l .*this worker merges"))


@pytest.mark.parametrize("width", [1280, pytest.param(820, marks=pytest.mark.pages), 390])
def test_the_charts_of_workers_hold_up_to_a_million_tokens(stage: Stage, width: int) -> None:
    picture = stage.show(decoded("Workers"), "Workers", Panel(width))
    picture.seek(2)
    before = picture.words("svg.dx-tower text")
    for values in (("10", "1", "2"), ("20", "64", "128"), ("16", "11", "10"), ("20", "3", "2")):
        for i, value in enumerate(values):
            picture.locator("input").nth(i).fill(value)
        expect(picture.locator("svg.dx-tower")).to_contain_text("① modelled: ")
        assert picture.locator("svg.dx-tower").evaluate(OUTSIDE) == [], values
    picture.locator("button", has_text="as recorded").click()
    expect(picture.seen("svg.dx-tower text")).to_have_text(before)


SLID = f"""(view, [inputs, all]) => {{ const wrong = [];
  for (const values of all) {{
    values.forEach((value, i) => {{ const input = [...view.querySelectorAll("input")].at(inputs[i]);
      input.value = value; input.dispatchEvent(new Event("input")); }});
    wrong.push(...({OUTSIDE})(view.querySelector("svg.dx-tower")).map((words) => [values, words]));
  }}
  return wrong; }}"""


@pytest.mark.parametrize("panel", [Panel(), pytest.param(Panel(820), marks=pytest.mark.pages), Panel(390, dark=True)])
def test_every_bar_of_two_devices_says_its_microbatch_and_layer(stage: Stage, panel: Panel) -> None:
    trace = decoded("Pipeline")
    picture = stage.show(trace, "Pipeline", panel)
    titles = '(view) => [[...view.querySelectorAll("svg title")].map((one) => one.textContent), view.textContent]'
    for t, (step, (all_, said)) in enumerate(zip(trace.steps, picture.each(titles)[1:], strict=True), 1):
        own = sorted(f"{i.track}: {i.label}" for i in step.intervals)
        shown = sorted(re.sub(r", [^,]*$", "", title) for title in all_)
        assert len(own) == 2 * 2 * 4 and shown == sorted(own * 4)  # turns, measured, modelled, at full size
        assert "A step of 4 texts" in said and "In two processes" in said and f"Median of steps 1 to {t}:" in said
    slid = [[most, n] for most in ("1", "6") for n in ("10", "20")]
    assert picture.root.evaluate(SLID, [[0, 1], slid]) == []


def test_a_step_that_is_slower_than_modelled_says_so(stage: Stage) -> None:
    slow = decoded("Pipeline")
    for bar in slow.steps[1].intervals:
        bar.start, bar.end = 3 * bar.start, 3 * bar.end
    picture = stage.show(slow, "Pipeline", Panel(1440))
    picture.seek(2)
    expect(picture.root).to_contain_text("this machine's load refutes the model here")


def test_bars_of_the_cache_grow_with_the_text_and_keep_their_order(stage: Stage) -> None:
    trace, before = decoded("Attentions"), [0.0] * 4
    script = """(view, all) => [[...view.querySelectorAll("svg > g:nth-of-type(5) > g")].map((g) =>
      +g.childNodes[1].getAttribute("width")), all("svg text").map((one) => one.textContent), view.textContent]"""
    each = stage.show(trace, "Attentions").each(script)[1:]
    for step, (wide, texts, said) in zip(trace.steps, each, strict=True):
        assert all(a > b for a, b in zip(wide, before, strict=True)) and wide == sorted(wide, reverse=True)
        assert wide[0] / wide[-1] == pytest.approx(4.0)
        assert [text for text in texts if text in ("MHA", "GQA", "MLA", "MFA")] == ["MHA", "GQA", "MLA", "MFA"]
        assert f"After {int(step.facts['context'])} tokens" in said
        before = wide


@pytest.mark.parametrize("width", [1280, pytest.param(820, marks=pytest.mark.pages), 390])
def test_the_plane_of_attentions_holds_from_a_thousand_to_a_million_tokens(stage: Stage, width: int) -> None:
    picture = stage.show(decoded("Attentions"), "Attentions", Panel(width))
    picture.seek(2)
    expect(picture.root).to_contain_text("Step-3 (MFA): in 4 of 4 boxes" if width > 800 else "Step-3: 4 of 4")
    slid = [[str(exponent), price] for exponent in range(10, 21) for price in ("-2", "-0.5", "1")]
    assert picture.root.evaluate(SLID, [[0, -1], slid]) == []


# pictures that are drawn


@pytest.mark.parametrize(
    "params", [{"window": 1}, {"window": 64}, {"init": "left"}, {"criterion": "jacobi"}, {"max_new_tokens": 1}], ids=str
)
def test_a_window_of_any_width_shows_the_tests_of_its_call(stage: Stage, params: dict[str, Any]) -> None:
    trace, known = MAIN["Media"].decode(**params), 0
    script = """(view, all) => [view.querySelector(".dx-readout").textContent, all("svg.dx-tower").length,
      all("svg.dx-tower > g:last-child text").map((one) => one.textContent),
      all("svg.dx-tower > g:nth-child(2) g").map((one) => one.dataset.s)]"""
    each = stage.show(trace, "Media").each(script)
    assert each[0][0] == "No picture yet."
    rule = "the same token again?" if params.get("criterion") == "jacobi" else "min(1, p/q)"
    fates = {"accepted": "accepted", "mismatch": "rejected", "unreached": "unreached"}
    for t, (step, (said, towers, names, states)) in enumerate(zip(trace.steps, each[1:], strict=True), 1):
        known += len(step.commits.tokens)
        assert said == f"{known} of 64 picture tokens after {t} calls; one token per call: {t}."
        assert towers == (step.tree is not None)
        if step.tree:
            assert any(text.startswith(f"call {t}") and text.endswith(rule) for text in names)
            guessed = [fates[why] for why in step.tree.why[1:]]
            assert states == guessed[: len(states)] and len(states) >= min(15, len(guessed))


def test_a_gap_in_the_record_leaves_the_picture_of_the_call_before(stage: Stage) -> None:
    trace = MAIN["Media"].decode(max_new_tokens=24)
    trace.steps[2].media = None
    picture = stage.show(trace, "Media")
    picture.seek(3)
    known = sum(len(step.commits.tokens) for step in trace.steps[:2])
    picture.says(f"{known} of 64 picture tokens after 3 calls")
    expect(picture.seen("canvas")).to_have_count(3)
    expect(picture.locator("svg.dx-tower")).to_be_hidden()
