"""Lecture mode: the scenes alone, by keys; a list of one's own; each scene live and back."""

from __future__ import annotations

import json

import gradio as gr
import pytest
from playwright.sync_api import Page, expect

from explorer import lecture
from explorer.page import lecture as page_lecture
from explorer.page.catalogue import Catalogue
from explorer.page.handlers import Handlers
from explorer.page.limits import Limits
from explorer.runs.gallery import gallery
from tests.page.test_stage import COUNT, MOST_CONTROLS, MOST_WORDS

SCENES = lecture.own().scenes(gallery())
ABOVE = """() => { const bar = document.querySelector('.lecture').getBoundingClientRect().top;
  const seen = [...document.querySelectorAll('#players .dx-panel')].filter((node) => node.getClientRects().length);
  return seen.length > 0 && seen.every((node) => node.getBoundingClientRect().bottom <= bar + 1); }"""
HIDDEN = ("#title", "#controls", "#toolbar", "[role=tablist]", "#stage .tabs", ".dx-forker", ".dx-details")


def at(page: Page, number: int) -> None:
    """The scene of that number, from 1, is shown."""
    scene = SCENES[number - 1]
    assert scene.voice
    expect(page.locator(".lecture-count")).to_have_text(f"{number} of {len(SCENES)}")
    expect(page.locator("#scene .scene-question")).to_have_text(scene.voice.question)
    for slot, name in enumerate(scene.voice.traces):
        expect(page.locator(f"#panel-{slot} .dx-panel h2 > span")).to_have_text(gallery().get(name).header.title)
    expect(page.locator('#players[style*="lecture-zoom"]:not([data-fitting])')).to_have_count(1)


def test_the_address_opens_the_scenes_alone_in_large_type(shipped, visit):
    page = visit("?lecture", folded=True, at=shipped, viewport={"width": 1440, "height": 900}).page
    at(page, 1)
    for one in HIDDEN:
        expect(page.locator(one).first).to_be_hidden()
    size = page.locator("#scene .scene-says").evaluate("(node) => parseFloat(getComputedStyle(node).fontSize)")
    assert size >= 28
    plain = visit(folded=True, at=shipped, viewport={"width": 1440, "height": 900}).page
    high = "(cell) => cell.getBoundingClientRect().height"
    cell = "#panel-1 .dx-board [data-s]"
    assert page.locator(cell).first.evaluate(high) > plain.locator(cell).first.evaluate(high)
    box = page.locator("#panel-1").bounding_box()
    assert box["y"] + box["height"] <= page.locator(".lecture").bounding_box()["y"]


@pytest.mark.parametrize("width,height", [(1280, 720), (1440, 900), (1920, 1080)])
def test_every_scene_stands_above_the_bar_at_every_step(shipped, visit, width, height):
    page = visit("?lecture", folded=True, at=shipped, viewport={"width": width, "height": height}).page
    for number in range(1, len(SCENES) + 1):
        page.keyboard.press(str(number))
        at(page, number)
        steps = int(page.evaluate("document.querySelector('#toolbar input[type=range]').max"))
        for _ in range(3):
            page.wait_for_function(ABOVE)
            for _ in range(steps // 2):
                page.keyboard.press(".")


CUT = """() => [...document.querySelectorAll("#players [data-idea] .dx-content")].map((box) =>
  [box.scrollHeight - box.clientHeight, Number(getComputedStyle(box).zoom), box.querySelector("svg").clientWidth])"""


def test_the_last_scene_shows_both_of_its_maps_whole_and_in_the_whole_width(shipped, visit):
    page = visit("?lecture=8", folded=True, at=shipped, viewport={"width": 1440, "height": 900}).page
    at(page, 8)
    for _ in range(10):
        page.keyboard.press(".")
    expect(page.locator("#panel-0 .dx-panel")).to_have_attribute("data-step", "10")
    found = page.evaluate(CUT)
    assert len(found) == 2
    for over, zoom, wide in found:
        assert over <= 1 and zoom >= 0.7 and wide * zoom > 600


EARLY = """const due = setInterval(() => {
  if (!globalThis.dxKeys || document.querySelector(".lecture")) return;
  clearInterval(due);
  for (const key of ["3", ".", "."]) document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
}, 5);"""


def test_keys_that_are_pressed_before_the_view_and_its_runs_are_there_count(shipped, visit):
    page = visit("?lecture=2", folded=True, at=shipped, first=EARLY).page
    at(page, 3)
    expect(page.locator("#panel-0 .dx-panel")).to_have_attribute("data-step", "2")


def test_a_scene_that_is_answered_late_does_not_take_the_place_of_a_later_one(shipped, visit):
    page = visit("?lecture", folded=True, at=shipped).page
    at(page, 1)
    held = []

    def hold(route):
        if not held and "show" in (route.request.post_data or ""):
            held.append(route)
        else:
            route.continue_()

    page.route("**/run/predict*", hold)
    page.keyboard.press("2")
    page.keyboard.press("3")
    while not held:
        page.wait_for_timeout(20)
    page.wait_for_timeout(500)  # for an answer about the third scene, if it is asked for beside the second
    with page.expect_response(lambda answer: answer.request == held[0].request):
        held[0].continue_()
    page.wait_for_timeout(500)
    at(page, 3)


def test_keys_go_through_the_scenes(shipped, visit):
    page = visit("?lecture=2", folded=True, at=shipped).page
    at(page, 2)
    for key, number in (
        ("ArrowRight", 3), ("PageDown", 4), (" ", 5), ("PageUp", 4), ("ArrowLeft", 3),
        ("8", 8), ("PageDown", 8), ("1", 1),
    ):  # fmt: skip
        page.keyboard.press(key)
        at(page, number)
    assert page.evaluate("location.search") == "?lecture=1"
    page.keyboard.press(".")
    expect(page.locator("#panel-0 .dx-panel")).to_have_attribute("data-step", "1")
    expect(page.locator("#scene .scene-says")).to_have_text(SCENES[0].voice.says[1].say)
    page.keyboard.press("p")
    expect(page.locator("#panel-0 .dx-panel")).to_have_attribute("data-state", "playing")
    page.keyboard.press("p")
    expect(page.locator("#panel-0 .dx-panel")).not_to_have_attribute("data-state", "playing")


def test_the_bar_names_the_keys_and_each_does_what_it_says(shipped, visit):
    page = visit("?lecture", folded=True, at=shipped, viewport={"width": 1280, "height": 720}).page
    at(page, 1)
    keys = page.locator(".lecture-keys kbd:visible")
    assert keys.all_text_contents() == ["←", "→", "P", ",", ".", "↑", "↓", "L", "F", "S", "Esc"]
    tops = {round(one.bounding_box()["y"]) for one in keys.all()}
    assert len(tops) == 1  # one line, at this width too
    named = {one.text_content().strip(): one for one in page.locator(".lecture-keys button").all()}
    for act, step in (
        (named[".step"].click, 1), (named[",step back"].click, 0),
        (lambda: page.keyboard.press("."), 1), (lambda: page.keyboard.press(","), 0),
    ):  # fmt: skip
        act()
        expect(page.locator("#panel-0 .dx-panel")).to_have_attribute("data-step", str(step))
    page.keyboard.press("2")
    at(page, 2)
    expect(page.locator(".lecture-keys kbd", has_text="↑")).to_be_hidden()  # nothing to move there
    page.keyboard.press("s")
    expect(page.locator(".lecture-jump")).to_have_text("1–9the scene of that number")


def test_keys_are_the_slider_s_while_it_has_the_focus(shipped, visit):
    page = visit("?lecture", folded=True, at=shipped).page
    at(page, 1)
    lever = page.locator("#scene-lever")
    before = int(lever.input_value())
    lever.press("PageDown")
    at(page, 1)
    assert int(lever.input_value()) < before
    said = {stop.say for stop in SCENES[0].voice.lever.stops}
    expect(page.locator("#scene .scene-says")).to_have_text(SCENES[0].voice.lever.stops[int(lever.input_value())].say)
    lever.click()  # the pointer gives the keys back
    assert page.locator("#scene .scene-says").text_content() in said
    page.keyboard.press("PageDown")
    at(page, 2)


def test_the_arrows_move_the_lever(shipped, visit):
    page = visit("?lecture", folded=True, at=shipped).page
    at(page, 1)
    page.keyboard.press("ArrowUp")
    expect(page.locator("#scene .scene-says")).to_have_text(SCENES[0].voice.lever.stops[-1].say)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(page.locator("#scene .scene-says")).to_have_text(SCENES[0].voice.lever.stops[-3].say)


def test_a_button_opens_it_in_full_screen_and_escape_leaves_it(shipped, visit):
    page = visit(folded=True, at=shipped, viewport={"width": 1440, "height": 900}).page
    expect(page.locator(".all-controls")).to_be_visible()
    seen = page.evaluate(COUNT)
    assert len(seen["controls"]) <= MOST_CONTROLS and seen["words"] <= MOST_WORDS
    door = page.get_by_role("button", name="Lecture", exact=True)
    expect(door).to_be_in_viewport(ratio=1)  # a teacher finds it without a click
    door.click()
    at(page, 1)
    page.wait_for_function("document.fullscreenElement !== null")
    page.evaluate("document.exitFullscreen()")  # what Escape does there, before any script hears of it
    expect(page.locator(".lecture")).to_be_hidden()
    expect(page.locator("#controls")).to_be_visible()
    page.get_by_role("button", name="Lecture", exact=True).click()
    at(page, 1)
    page.wait_for_function("document.fullscreenElement !== null")
    page.keyboard.press("f")
    page.wait_for_function("document.fullscreenElement === null")
    at(page, 1)
    page.keyboard.press("Escape")
    expect(page.locator(".lecture")).to_be_hidden()
    assert "lecture" not in page.evaluate("location.search")
    page.go_back()
    at(page, 1)


def test_the_text_for_teachers_leads_there(shipped, visit):
    page = visit("?doc=teaching", folded=True, at=shipped).page
    page.locator("#docs-text").get_by_role("link", name="?lecture", exact=True).first.click()
    at(page, 1)
    assert page.evaluate("performance.getEntriesByType('navigation').length") == 1


def choose(page: Page, text: str, name: str = "mine.json") -> None:
    if page.locator(".lecture-list").is_hidden():
        page.keyboard.press("s")
    page.locator(".lecture-list input").set_input_files(
        files=[{"name": name, "mimeType": "application/json", "buffer": text.encode()}]
    )


def test_a_list_of_one_s_own_is_kept_and_its_dead_links_are_named(shipped, visit):
    page = visit("?lecture", folded=True, at=shipped).page
    at(page, 1)
    trace = SCENES[1].voice.traces[0]
    mine = [
        {"link": f"http://elsewhere/?gallery={trace}", "title": "<img src=x onerror=window.hit=1>", "say": "Look."},
        {"link": "?gallery=gone-for-good", "title": "Gone"},
        {"link": "?tab=docs"},
        {"link": f"?gallery={trace}", "title": "Again"},
    ]
    choose(page, json.dumps(mine))
    expect(page.locator(".lecture-count")).to_have_text("1 of 2")
    said = page.locator(".lecture-said p")
    expect(said).to_have_count(2)
    expect(said.nth(0)).to_have_text("Scene 2 is left out: there is no recorded trace 'gone-for-good'.")
    expect(said.nth(1)).to_contain_text("Scene 3 is left out: the link names no run")
    expect(page.locator("#scene .scene-question")).to_have_text(mine[0]["title"])
    expect(page.locator("#scene .scene-says")).to_have_text("Look.")
    page.keyboard.press("PageDown")
    expect(page.locator("#scene .scene-question")).to_have_text("Again")
    page.reload()
    expect(page.locator(".lecture-count")).to_have_text("2 of 2")
    page.keyboard.press("s")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Download this list").click()
    assert json.loads(saved.value.path().read_text("utf-8")) == mine
    page.get_by_role("button", name="Back to the list of this page").click()
    at(page, 1)


def test_a_list_that_cannot_be_read_is_refused_in_a_sentence(shipped, visit):
    page = visit("?lecture", folded=True, at=shipped).page
    at(page, 1)
    choose(page, "{]")
    expect(page.locator(".lecture-said p")).to_contain_text("The lecture 'mine.json' is not understood")
    at(page, 1)
    good = [{"link": f"?gallery={SCENES[1].voice.traces[0]}", "title": "Mine"}]
    choose(page, json.dumps(good))
    expect(page.locator("#scene .scene-question")).to_have_text("Mine")
    choose(page, "{]")
    expect(page.locator(".lecture-said p")).to_contain_text("The lecture 'mine.json' is not understood")
    expect(page.locator("#scene .scene-question")).to_have_text("Mine")
    page.reload()
    expect(page.locator("#scene .scene-question")).to_have_text("Mine")  # a bad file leaves the good list alone
    page.keyboard.press("s")
    page.get_by_role("button", name="Back to the list of this page").click()
    at(page, 1)
    page.keyboard.press("s")
    choose(page, "x" * 100_001)
    expect(page.locator(".lecture-said p")).to_have_text(
        "mine.json has 100001 bytes; a list may have 100000. Make it shorter."
    )
    page.reload()
    at(page, 1)
    expect(page.locator(".lecture-said p")).to_have_count(0)


def test_a_scene_runs_live_with_its_own_settings_and_comes_back(shipped, visit):
    screen = visit("?lecture=2", folded=True, at=shipped)
    page, recorded = screen.page, gallery().get(SCENES[1].voice.traces[1])
    at(page, 2)
    page.keyboard.press("l")
    expect(page.locator(".lecture[data-live]")).to_be_visible()
    expect(page.locator("#scene .scene-says")).to_contain_text("Live: the same prompt")
    expect(page.locator(".lecture-said")).to_contain_text("Done: 2 runs", timeout=120_000)
    expect(page.locator(".lecture-said")).not_to_contain_text("arrows")  # here they change the scene
    expect(page.locator("#scene .scene-question")).to_have_text(SCENES[1].voice.question)
    live = page.evaluate("globalThis.dxRuns.get(1) ?? null")
    assert live != SCENES[1].voice.traces[1]
    expect(page.locator("#prompt textarea")).to_have_value(recorded.header.prompt)
    assert page.locator("#control-1-threshold").input_value() == str(recorded.header.params["threshold"])
    page.keyboard.press("l")
    page.wait_for_function("(name) => globalThis.dxRuns.get(1) === name", arg=SCENES[1].voice.traces[1])
    at(page, 2)
    expect(page.locator("#scene .scene-says")).to_have_text(SCENES[1].voice.says[0].say)


def test_live_runs_what_the_lever_shows(shipped, visit):
    screen = visit("?lecture=1", folded=True, at=shipped)
    page, voice = screen.page, SCENES[0].voice
    at(page, 1)
    first = next(n for n, stop in enumerate(voice.lever.stops) if stop.trace == voice.traces[voice.lever.slot])
    other = voice.lever.stops[first - 1]
    shown = f"(name) => globalThis.dxRuns.get({voice.lever.slot}) === name"
    page.wait_for_function(shown, arg=voice.traces[voice.lever.slot])
    page.keyboard.press("ArrowDown")
    page.wait_for_function(shown, arg=other.trace)
    expect(page.locator("#scene-lever")).to_have_value(str(first - 1))
    page.keyboard.press("l")
    expect(page.locator(".lecture-said")).to_contain_text("Done: 2 runs", timeout=120_000)
    asked = gallery().get(other.trace).header.params["threshold"]
    expect(page.locator(f"#control-{voice.lever.slot}-threshold")).to_have_value(str(asked))
    expect(screen.player(voice.lever.slot)).to_contain_text(f"the threshold is {asked:.3f}")


@pytest.mark.parametrize("sent", ["", "[1]", "{", None, 7, "[" * 100_000, "x" * 400_000])
def test_what_is_sent_and_is_no_request_asks_for_nothing(sent):
    assert page_lecture._asked(sent) == {}


@pytest.fixture(scope="module")
def handlers() -> Handlers:
    limits = Limits.from_env()
    return Handlers(gallery(), Catalogue.read(limits.public, limits.models, limits.new_tokens), limits)


@pytest.mark.parametrize("query", [None, 7, "", "?tab=docs", "?run=gone", "?gallery=a,b,c,d,e", "x" * 3000])
def test_what_cannot_run_live_says_why_and_leaves_the_controls(handlers, query):
    told, filled = page_lecture.ready(handlers, query)
    said = json.loads(told)
    assert said["ready"] is False and said["said"].endswith(".") and said["said"][0].isupper()
    assert all(one == gr.skip() for one in filled)


def test_a_run_of_a_model_that_is_not_offered_cannot_be_made_here(handlers, monkeypatch):
    monkeypatch.setattr(Catalogue, "repeat", lambda *given: None)
    said = json.loads(page_lecture.ready(handlers, SCENES[0].query)[0])["said"]
    assert said == "The run of player 1 cannot be made here: 'tiny-dlm' is not offered."


def test_a_list_that_is_sent_says_what_is_wrong_with_it_and_the_page_s_own_is_shown(handlers):
    told = json.loads(page_lecture.listing(handlers, lecture.own(), {"text": "[]", "name": "x" * 900}))
    assert told["said"].startswith("The lecture 'xxx") and len(told["said"]) < 300
    assert [one["title"] for one in told["scenes"]] == [scene.title for scene in SCENES] and not told["own"]
