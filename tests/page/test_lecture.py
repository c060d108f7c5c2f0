"""Lecture mode: the scenes alone, by keys; a list of one's own; each scene live and back."""

from __future__ import annotations

import json
import re

import gradio as gr
import pytest
from playwright.sync_api import Page, expect

from explorer import lecture
from explorer.page import lecture as page_lecture
from explorer.page.catalogue import Catalogue
from explorer.page.handlers import Handlers
from explorer.page.limits import Limits
from explorer.runs.gallery import gallery
from tests.page.conftest import LAPTOP

SCENES = lecture.own().scenes(gallery())
VOICE = SCENES[0].voice
assert VOICE and VOICE.lever
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


def step(page: Page, number: int) -> None:
    expect(page.locator("#panel-0 .dx-panel")).to_have_attribute("data-step", str(number))


def said(page: Page, text: str) -> None:
    expect(page.locator("#scene .scene-says")).to_have_text(text)


def test_the_address_opens_the_scenes_alone_in_large_type(shipped, visit):
    page = visit("?lecture", folded=True, at=shipped, viewport=LAPTOP).page
    at(page, 1)
    for one in HIDDEN:
        expect(page.locator(one).first).to_be_hidden()
    page.wait_for_function("parseFloat(getComputedStyle(document.querySelector('#scene .scene-says')).fontSize) >= 28")
    page.wait_for_function(ABOVE)
    plain = visit(folded=True, at=shipped, viewport=LAPTOP).page
    high = "document.querySelector('#panel-1 .dx-board [data-s]').getBoundingClientRect().height"
    page.wait_for_function(f"(plain) => {high} > plain", arg=plain.evaluate(high))


@pytest.mark.pages
@pytest.mark.parametrize("width,height", [(1280, 720), (1920, 1080)])
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


UNCUT = """() => { const boxes = [...document.querySelectorAll("#players [data-idea] .dx-content")];
  return boxes.length === 2 && boxes.every((box) => { const zoom = Number(getComputedStyle(box).zoom);
    return box.scrollHeight - box.clientHeight <= 1 && zoom >= 0.7
      && box.querySelector("svg").clientWidth * zoom > 600; }); }"""


@pytest.mark.pages
def test_the_last_scene_shows_both_of_its_maps_whole_and_in_the_whole_width(shipped, visit):
    page = visit("?lecture=8", folded=True, at=shipped, viewport=LAPTOP).page
    at(page, 8)
    for _ in range(10):
        page.keyboard.press(".")
    step(page, 10)
    page.wait_for_function(UNCUT)


def test_keys_go_through_the_scenes(shipped, visit):
    page = visit("?doc=teaching", folded=True, at=shipped, viewport={"width": 1280, "height": 720}).page
    page.locator("#docs-text").get_by_role("link", name="?lecture", exact=True).first.click()
    at(page, 1)
    assert page.evaluate("performance.getEntriesByType('navigation').length") == 1
    for key, number in (
        ("2", 2), ("ArrowRight", 3), ("PageDown", 4), (" ", 5), ("PageUp", 4), ("ArrowLeft", 3),
        ("8", 8), ("PageDown", 8), ("1", 1),
    ):  # fmt: skip
        page.keyboard.press(key)
        at(page, number)
    expect(page).to_have_url(re.compile(r"\?lecture=1$"))
    keys = page.locator(".lecture-keys kbd:visible")
    expect(keys).to_have_text(["←", "→", "P", ",", ".", "↑", "↓", "L", "F", "S", "Esc"])
    page.wait_for_function("""() => new Set([...document.querySelectorAll(".lecture-keys kbd")]
      .filter((key) => key.checkVisibility()).map((key) => Math.round(key.getBoundingClientRect().y))).size === 1""")
    named = {one.text_content().strip(): one for one in page.locator(".lecture-keys button").all()}
    for act, number in (
        (named[".step"].click, 1), (named[",step back"].click, 0),
        (lambda: page.keyboard.press("."), 1), (lambda: page.keyboard.press(","), 0),
        (lambda: page.keyboard.press("."), 1),
    ):  # fmt: skip
        act()
        step(page, number)
    said(page, VOICE.says[1].say)
    page.keyboard.press("p")
    expect(page.locator("#panel-0 .dx-panel")).to_have_attribute("data-state", "playing")
    page.keyboard.press("p")
    expect(page.locator("#panel-0 .dx-panel")).not_to_have_attribute("data-state", "playing")
    page.keyboard.press("ArrowUp")  # the lever
    said(page, VOICE.lever.stops[-1].say)
    page.keyboard.press("ArrowDown")
    said(page, VOICE.lever.stops[-2].say)
    lever = page.locator("#scene-lever")
    before = int(lever.input_value())
    lever.press("PageDown")  # its own key while it has the focus
    expect(lever).not_to_have_value(str(before))
    at(page, 1)
    said(page, VOICE.lever.stops[int(lever.input_value())].say)
    lever.click()  # the pointer gives the keys back
    page.keyboard.press("PageDown")
    at(page, 2)
    expect(page.locator(".lecture-keys kbd", has_text="↑")).to_be_hidden()  # nothing to move there


def test_a_button_opens_it_in_full_screen_and_escape_leaves_it(shipped, visit):
    page = visit(folded=True, at=shipped, viewport=LAPTOP).page
    door = page.get_by_role("button", name="Lecture", exact=True)
    expect(door).to_be_in_viewport(ratio=1)  # a teacher finds it without a click
    door.click()
    at(page, 1)
    page.wait_for_function("document.fullscreenElement !== null")
    page.evaluate("document.exitFullscreen()")  # what Escape does there, before any script hears of it
    expect(page.locator(".lecture")).to_be_hidden()
    expect(page.locator("#controls")).to_be_visible()
    door.click()
    at(page, 1)
    page.wait_for_function("document.fullscreenElement !== null")
    page.keyboard.press("f")
    page.wait_for_function("document.fullscreenElement === null")
    at(page, 1)
    page.keyboard.press("Escape")
    expect(page.locator(".lecture")).to_be_hidden()
    expect(page).not_to_have_url(re.compile("lecture"))
    page.go_back()
    at(page, 1)


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
    left_out = page.locator(".lecture-said p")
    expect(left_out).to_have_count(2)
    expect(left_out.nth(0)).to_have_text("Scene 2 is left out: there is no recorded trace 'gone-for-good'.")
    expect(left_out.nth(1)).to_contain_text("Scene 3 is left out: the link names no run")
    expect(page.locator("#scene .scene-question")).to_have_text(mine[0]["title"])
    said(page, "Look.")
    page.keyboard.press("PageDown")
    expect(page.locator("#scene .scene-question")).to_have_text("Again")
    for bad, why in (
        ("{]", "The lecture 'mine.json' is not understood"),
        ("x" * 100_001, "mine.json has 100001 bytes; a list may have 100000."),
    ):
        choose(page, bad)
        expect(page.locator(".lecture-said p")).to_contain_text(why)
    page.reload()  # a bad file leaves the good list alone
    expect(page.locator(".lecture-count")).to_have_text("2 of 2")
    page.keyboard.press("s")
    expect(page.locator(".lecture-jump")).to_have_text("1–9the scene of that number")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Download this list").click()
    assert json.loads(saved.value.path().read_text("utf-8")) == mine
    page.get_by_role("button", name="Back to the list of this page").click()
    at(page, 1)


def test_a_scene_runs_live_as_its_lever_stands_and_comes_back(shipped, visit):
    page = visit("?lecture=1", folded=True, at=shipped).page
    at(page, 1)
    slot, recorded = VOICE.lever.slot, VOICE.traces[VOICE.lever.slot]
    shown = f"(name) => globalThis.dxRuns.get({slot}) === name"
    first = next(n for n, stop in enumerate(VOICE.lever.stops) if stop.trace == recorded)
    other = VOICE.lever.stops[first - 1]
    page.wait_for_function(shown, arg=recorded)
    page.keyboard.press("ArrowDown")
    page.wait_for_function(shown, arg=other.trace)
    expect(page.locator("#scene-lever")).to_have_value(str(first - 1))
    page.keyboard.press("l")
    expect(page.locator(".lecture[data-live]")).to_be_visible()
    expect(page.locator("#scene .scene-says")).to_contain_text("Live: the same prompt")
    expect(page.locator(".lecture-said")).to_contain_text("Done: 2 runs", timeout=120_000)
    expect(page.locator("#scene .scene-question")).to_have_text(VOICE.question)
    asked = gallery().get(other.trace).header
    expect(page.locator("#prompt textarea")).to_have_value(asked.prompt)
    expect(page.locator(f"#control-{slot}-threshold")).to_have_value(str(asked.params["threshold"]))
    expect(page.locator(f"#panel-{slot}")).to_contain_text(f"the threshold is {asked.params['threshold']:.3f}")
    page.keyboard.press("l")
    page.wait_for_function(shown, arg=recorded)
    at(page, 1)
    expect(page.locator("#scene .scene-says")).not_to_contain_text("Live")


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
