"""The pictures of what models see, keep and cost say what was recorded."""

import re
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import expect

import engines
from engines.methods.multimodal._seen import Vision
from explorer.runs.gallery import gallery
from tests.player.pictures import MAIN, OUTSIDE, Panel, Stage, decoded, with_odd_words


def test_places_and_letters_of_a_word_stand_after_the_step(stage: Stage) -> None:
    trace = MAIN["Word"]._replace(prompt="cafe").decode()
    picture, filled = stage.show(trace, "Word", details=True), trace.steps[0].records["sight"]["filled"]
    expect(picture.locator("image")).to_be_visible()  # before it is read
    expect(picture.readout).to_have_text("Not read yet.")
    assert picture.words("svg > g:nth-child(5) > g") == []
    dash = "(view, all) => all('svg > g:nth-child(5) rect').map((one) => one.getAttribute('stroke-dasharray'))"
    dashes, n = picture.after(1, dash), sum(chance > 0.5 for chance in filled)
    picture.says(f"Positions predicted occupied: {n} of {len(filled)}. Read: ‘{trace.text}’ after step 1.")
    assert picture.words("svg > g:nth-child(5) > g")[:n] == [*trace.text, "end"]
    assert dashes == ["none"] * n + ["3 4"] * (len(filled) - n)


@pytest.mark.parametrize("name", ["Seen", "Entering"])
def test_rounds_say_what_was_written_refused_and_looked_at(stage: Stage, name: str) -> None:
    trace, written = decoded(name), 0
    texts = {piece.id: "end" if piece.kind == "special" else piece.text.strip() for piece in trace.pieces}
    script = """(view, all) => [view.querySelector(".dx-readout").textContent, view.textContent,
      all(".dx-seen-round").at(-1)?.textContent, [...view.querySelectorAll("svg > g:nth-child(3) > g")].map((map) =>
        [...map.querySelector(":scope > g").querySelectorAll("rect")].map((one) => +one.getAttribute("opacity")))]"""
    first, *each = stage.show(trace, "Seen", details=True).each(script)
    assert first[0] == "The picture that is looked at."
    for t, (step, (said, text, last, heats)) in enumerate(zip(trace.steps, each, strict=True), 1):
        written += len(step.commits.tokens)
        assert said == f"{written} tokens after {t} forwards of the model."
        rows = list(zip(step.tree.tokens, step.tree.why, strict=True)) if step.tree else []
        refused = [texts[token] for token, why in rows if why == "mismatch"]
        assert last == "".join(texts[token] for token in step.commits.tokens) + ", ".join(refused[:2])
        vision = step.record("vision", Vision)
        if vision and vision.looks is not None:
            assert [int(np.argmax(heat)) for heat in heats] == vision.looks.array().argmax(1).tolist()
        if vision and vision.entries.get("text"):
            assert f"{vision.entries['picture']} of the picture" in text


@pytest.mark.parametrize(
    ("name", "best", "source"), [("222-context-cafe", 0.99, "T3"), ("223-context-wall", 0.57, "heavy")]
)
def test_a_scene_takes_the_short_track_or_the_long_one(stage: Stage, name: str, best: float, source: str) -> None:
    trace, places = gallery().get(name), []
    picture, last = stage.show(trace, "Scene", details=True), len(trace.steps)
    expect(picture.readout).to_have_text("Nothing was looked at yet.")
    for step, words in ((1, "Boxes with words: "), (2, "The caption is being written."), (15, "Light: ")):
        picture.seek(step)
        picture.says(words)
    for step in range(16, last + 1):
        places.append(float(picture.after(step, "(view) => view.querySelector('circle').getAttribute('cx')")))
    assert places == sorted(set(places))
    end = "heavy reader: left out" if source == "T3" else "heavy reader: 5 of 5 turns"
    assert {"threshold τ 0.8", f"best C {best}", end} <= set(picture.words())
    expect(picture.readout).to_have_text(f"Read: ‘{trace.text}’, by {source}, after step {last}.")


def test_kept_maps_are_frozen_and_those_of_the_other_decoder_move(stage: Stage) -> None:
    trace = decoded("Operators")
    picture = stage.show(trace, "Operators", details=True)
    paint = "(view) => [...view.querySelectorAll('canvas')].map((one) => one.toDataURL())"
    first, later = picture.after(1, paint), picture.after(len(trace.steps), paint)
    assert first[0] == first[1] == later[0] != later[1]
    ran = picture.words("svg > g:nth-child(1) text")  # the decoder without a cache stands above
    assert ran[: len(ran) // 2] == ["runs"] * (len(ran) // 2)
    assert ran[len(ran) // 2 :] == ["runs", *["skipped"] * (len(ran) // 2 - 1)]


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
        replies += any(i.kind == "decode" and i.track == "decoder-only" for i in step.intervals)
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


SLID = f"""(view, [inputs, all]) => {{ const wrong = [];
  for (const values of all) {{
    values.forEach((value, i) => {{ const input = [...view.querySelectorAll("input")].at(inputs[i]);
      input.value = value; input.dispatchEvent(new Event("input")); }});
    wrong.push(...({OUTSIDE})(view.querySelector("svg.dx-tower")).map((words) => [values, words]));
  }}
  return wrong; }}"""


@pytest.mark.parametrize("width", [1280, pytest.param(820, marks=pytest.mark.pages), 390])
@pytest.mark.parametrize(
    ("name", "inputs", "values"),
    [
        ("Slots", [0], [["1"], ["2"], ["3"]]),
        ("Workers", [0, 1, 2], [["0", "0", "0"], ["10", "11", "13"], ["6", "5", "4"]]),
        ("Pipeline", [0, 1], [[most, n] for most in ("1", "6") for n in ("10", "20")]),
        ("Attentions", [0, -1], [[str(n), price] for n in range(10, 21) for price in ("-2", "-0.5", "1")]),
    ],
    ids=str,
)
def test_words_stay_in_the_drawing_wherever_the_sliders_stand(
    stage: Stage, name: str, inputs: list[int], values: list[list[str]], width: int
) -> None:
    """From one slot to three with odd words, and up to a million tokens."""
    picture = stage.show(with_odd_words(decoded(name)) if name == "Slots" else decoded(name), name, Panel(width))
    picture.seek(2)
    assert picture.root.evaluate(SLID, [inputs, values]) == []


def test_a_size_moves_over_those_that_the_method_was_asked_about(stage: Stage) -> None:
    picture = stage.show(decoded("Workers"), "Workers")
    picture.seek(1)
    heads, slots = (picture.locator("input[type=range]").nth(i) for i in (1, 2))
    said = picture.locator("output")
    expect(said).to_have_text(["7 tokens", "4", "6"])
    for key, now in (("ArrowRight", "6"), ("ArrowRight", "8"), ("ArrowLeft", "6")):
        heads.press(key)
        expect(said).to_have_text(["7 tokens", now, "6"])
    slots.press("ArrowLeft")
    expect(said).to_have_text(["7 tokens", "4", "3"])


def test_each_part_of_the_bytes_says_measured_or_modelled(stage: Stage) -> None:
    trace = decoded("Arena")
    picture = stage.show(trace, "Arena")
    picture.locator("summary").click()
    for step, now in picture.beside(trace, rows="div:has(> i + span)"):
        assert "% of the budget of 26.0 MB" in now["said"][0] and "22.6 MB, weights, are not drawn" in now["said"][0]
        parts = [i for i in step.intervals if i.unit == "bytes" and i.label != "limit"]
        assert sum(text.endswith("measured") for text in now["rows"]) == sum(i.measured for i in parts)
        assert sum(text.endswith("modelled") for text in now["rows"]) == sum(not i.measured for i in parts)


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
    """Both models of Mirror-SD in two threads: nothing is modelled, and what they share counts once."""
    params = {"max_new_tokens": 24, "execution": "threads", "kappa": 8}
    trace, chosen = engines.run("mirror-sd", "tiny-ar-l", "story: Mia, boat", params=params), 0
    for step, now in stage.show(trace, "Schedule").beside(trace, rows="[role=listitem]", view=".dx-content"):
        own = [branch for branch in step.branches or [] if len(branch.tokens) > 1]
        for text, branch in zip(now["rows"], own, strict=True):
            assert text.startswith("✓ ") == (branch.fate == "chosen")
            if branch.fate == "chosen":  # it supposed as many as stayed
                assert f"if {int(step.facts['accepted'])} stay" in text
                chosen += 1
        long = max(i.end for i in step.intervals) - min(i.start for i in step.intervals)
        both = sum(i.end - i.start for i in step.intervals) > long
        assert ("Side by side, measured" if both else "one after another") in now["view"][0]
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


def test_every_bar_of_two_devices_says_its_microbatch_and_layer(stage: Stage) -> None:
    trace = decoded("Pipeline")
    picture = stage.show(trace, "Pipeline")
    titles = '(view) => [[...view.querySelectorAll("svg title")].map((one) => one.textContent), view.textContent]'
    for t, (step, (all_, said)) in enumerate(zip(trace.steps, picture.each(titles)[1:], strict=True), 1):
        own = sorted(f"{i.track}: {i.label}" for i in step.intervals)
        shown = sorted(re.sub(r", [^,]*$", "", title) for title in all_)
        assert len(own) == 2 * 2 * 4 and shown == sorted(own * 4)  # turns, measured, modelled, at full size
        assert "A step of 4 texts" in said and "In two processes" in said and f"Median of steps 1 to {t}:" in said
    for bar in trace.steps[1].intervals:
        bar.start, bar.end = 3 * bar.start, 3 * bar.end
    picture = stage.show(trace, "Pipeline", Panel(1440))
    picture.seek(2)
    expect(picture.root).to_contain_text("this machine's load refutes the model here")


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
