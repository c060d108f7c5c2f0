"""Lecture mode: the scenes alone, by keys; a list of one's own; each scene live and back."""

import json
import re

import pytest
from playwright.sync_api import Page, expect

from explorer import ASSETS, lecture
from explorer.page import lecture as page_lecture
from explorer.page.catalogue import Catalogue
from explorer.page.handlers import Handlers
from explorer.runs.gallery import gallery
from tests.page.conftest import desk

SCENES = lecture.own().scenes(gallery())
VOICE = SCENES[0].voice
assert VOICE and VOICE.lever
ABOVE = """() => { const bar = document.querySelector('.lecture').getBoundingClientRect().top;
  const seen = [...document.querySelectorAll('#players .dx-panel')].filter((node) => node.getClientRects().length);
  return seen.length > 0 && seen.every((node) => node.getBoundingClientRect().bottom <= bar + 1); }"""


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


def test_keys_go_through_the_scenes(shipped, visit):
    page = visit("?doc=teaching", folded=True, at=shipped, viewport={"width": 1280, "height": 720}).page
    page.locator("#docs-text").get_by_role("link", name="?lecture", exact=True).first.click()
    at(page, 1)
    assert page.evaluate("performance.getEntriesByType('navigation').length") == 1
    for one in ("#title", "#controls", "#toolbar", "[role=tablist]", ".dx-details"):
        expect(page.locator(one).first).to_be_hidden()
    page.wait_for_function(ABOVE)
    for key, number in (("2", 2), ("ArrowRight", 3), (" ", 4), ("PageUp", 3), ("8", 8), ("PageDown", 8), ("1", 1)):
        page.keyboard.press(key)
        at(page, number)
    expect(page).to_have_url(re.compile(r"\?lecture=1$"))
    named = {one.text_content().strip(): one for one in page.locator(".lecture-keys button").all()}
    for act, number in ((named[".step"].click, 1), (named[",step back"].click, 0)):
        act()
        step(page, number)
    page.keyboard.press(".")
    step(page, 1)
    said(page, VOICE.says[1].say)
    page.keyboard.press("p")
    expect(page.locator("#panel-0 .dx-panel")).to_have_attribute("data-state", "playing")
    page.keyboard.press("p")
    page.keyboard.press("ArrowUp")  # the lever
    said(page, VOICE.lever.stops[-1].say)
    lever = page.locator("#scene-lever")
    before = int(lever.input_value())
    lever.press("PageDown")  # its own key while it has the focus
    expect(lever).not_to_have_value(str(before))
    at(page, 1)
    said(page, VOICE.lever.stops[int(lever.input_value())].say)
    lever.click()  # the pointer gives the keys back
    page.keyboard.press("PageDown")
    at(page, 2)
    page.keyboard.press("Escape")
    expect(page.locator(".lecture")).to_be_hidden()
    page.go_back()
    at(page, 2)


def choose(page: Page, text: str) -> None:
    if page.locator(".lecture-list").is_hidden():
        page.keyboard.press("s")
    file = {"name": "mine.json", "mimeType": "application/json", "buffer": text.encode()}
    page.locator(".lecture-list input").set_input_files(files=[file])


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
    expect(page.locator(".lecture-said p")).to_have_count(2)  # the dead ones are named
    expect(page.locator("#scene .scene-question")).to_have_text(mine[0]["title"])
    said(page, "Look.")
    page.keyboard.press("PageDown")
    expect(page.locator("#scene .scene-question")).to_have_text("Again")
    choose(page, "x" * 100_001)
    expect(page.locator(".lecture-said p")).to_contain_text("mine.json has 100001 bytes; a list may have 100000.")
    page.reload()  # a bad file leaves the good list alone
    expect(page.locator(".lecture-count")).to_have_text("2 of 2")
    page.keyboard.press("s")
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
    page.keyboard.press("l")
    page.wait_for_function(shown, arg=recorded)
    at(page, 1)
    expect(page.locator("#scene .scene-says")).not_to_contain_text("Live")


@pytest.fixture(scope="module")
def handlers() -> Handlers:
    return desk(ASSETS / "traces")


@pytest.mark.parametrize("query", [None, "?tab=docs", "?run=gone", "?gallery=a,b,c,d,e", "x" * 3000])
def test_what_cannot_run_live_says_why_and_leaves_the_controls(handlers, query):
    told, filled = page_lecture.ready(handlers, query)
    said = json.loads(told)
    assert said["ready"] is False and said["said"].endswith(".") and said["said"][0].isupper()
    assert filled == [None] * len(filled)


def test_a_run_of_a_model_that_is_not_offered_cannot_be_made_here(handlers, monkeypatch):
    monkeypatch.setattr(Catalogue, "repeat", lambda *given: None)
    said = json.loads(page_lecture.ready(handlers, SCENES[0].query)[0])["said"]
    assert "cannot be made here: 'tiny-dlm' is not offered" in said


def test_a_list_that_is_sent_says_what_is_wrong_with_it_and_the_page_s_own_is_shown(handlers):
    told = json.loads(page_lecture.listing(handlers, lecture.own(), {"text": "[]", "name": "x" * 900}))
    assert told["said"].startswith("The lecture 'xxx") and len(told["said"]) < 300
    assert [one["title"] for one in told["scenes"]] == [scene.title for scene in SCENES] and not told["own"]
