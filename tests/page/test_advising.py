"""*Will it help on my text?* on the page: from a prompt to verdicts in two clicks, Stop, and what is refused. The runs
are made; their seconds are ours."""

from __future__ import annotations

import json
import re
import threading
import types
from pathlib import Path

import pytest
from playwright.sync_api import expect

import engines
from explorer import ASSETS
from explorer.bench import advise, chosen
from explorer.figures import advice, pairs
from explorer.page import advising
from explorer.page.advising import Advising
from explorer.page.catalogue import Catalogue
from explorer.page.handlers import Handlers
from explorer.page.limits import Limits
from explorer.runs.gallery import Gallery
from tests.page.test_public import LIMITS

MODEL, PROMPT, BUTTON = "tiny-ar-s", "sort: Mia, Leo, Ada", "Will it help on my text?"
SECONDS = {"greedy": 1.0, "prompt-lookup": 1 / 1.4}


@pytest.fixture
def quiet(monkeypatch):
    """A machine of ours: methods take the SECONDS, any other one 2; nothing disturbs them. Returns the runs made."""
    real, made = advise.Stopwatch.run, []

    def run(self, slug, prompt, params, detail):
        found = real(self, slug, prompt, params, detail)
        made.append(slug)
        return found and (SECONDS.get(slug, 2.0), found[1])

    monkeypatch.setattr(advise.Stopwatch, "run", run)
    monkeypatch.setattr(advise.Stopwatch, "plain", lambda self: 0.03)
    for module, name, value in (
        (pairs, "displaced", lambda trace: False),
        (pairs, "stalled", lambda trace: 0.0),
        (advice, "displaced", lambda trace: False),
        (advice, "explained", lambda ours, control: 10.0),
    ):
        monkeypatch.setattr(module, name, value)
    return made


def asked(screen):
    screen.method(0, "greedy")
    screen.page.locator("#model-0").select_option(MODEL)
    screen.prompt(PROMPT)
    screen.press(BUTTON)


def test_two_clicks_lead_to_a_verdict_with_its_interval(visit, quiet):
    screen = visit()
    asked(screen)
    expect(screen.page.locator("#controls")).to_have_attribute("data-running", "")
    box = screen.page.locator("#advice .advice")
    expect(box.get_by_role("heading")).to_have_text(
        "Prompt lookup helps on this text here: 1.40× to 1.40×.", timeout=120_000
    )
    expect(screen.page.locator("#controls")).not_to_have_attribute("data-running", "")
    screen.says("Prompt lookup helps on this text here")
    lines = box.get_by_role("listitem")
    expect(lines).to_have_count(2)
    helps, other = (lines.filter(has_text=title) for title in ("Prompt lookup", "Adaptive drafts"))
    expect(helps).to_contain_text("Same text as the control.")
    expect(helps).to_contain_text("tokens per model call")
    expect(helps.get_by_role("img")).to_have_attribute("aria-label", "1.40× to 1.40×")
    expect(other).to_contain_text("does not help: 0.50× to 0.50×")
    for said in (MODEL, "float32", "batch 1", "one prompt"):
        expect(box).to_contain_text(said)
    for slot, title in enumerate(("Greedy autoregressive", "Prompt lookup")):
        screen.wait(slot, "done")
        expect(screen.player(slot).locator("h2")).to_contain_text(title)
        expect(screen.page.locator(f"#slot-{slot} .slot-said")).to_contain_text(f"{title} · {MODEL}")
    strip, results = screen.page.locator(".dx-verdict[data-ready]"), screen.page.locator("#results")
    expect(strip.locator("[data-part=judged]")).to_have_text("speed: measured above, in repeated runs")
    expect(strip.locator("[data-part=speed], [data-part=busy]")).to_have_count(0)  # no ratio of single runs
    expect(results).to_contain_text("Its speed is measured above, in repeated runs.")
    expect(results).not_to_contain_text("Tokens per second of the whole run, prompt included")
    box.get_by_role("button", name="Hide").click()
    expect(box).to_be_hidden()
    expect(strip.locator("[data-part=judged]")).to_have_count(0)
    expect(strip.locator("[data-part=speed], [data-part=busy]")).to_have_count(1)


@pytest.mark.pages
def test_stop_ends_the_measuring_and_what_there_is_is_judged(visit, quiet, monkeypatch):
    real, go, reached = advise.Stopwatch.run, threading.Event(), threading.Event()

    def run(self, slug, prompt, params, detail):
        if len(quiet) == 6:  # three to warm up, and one of three repeats more
            reached.set()
            assert go.wait(120)
        return real(self, slug, prompt, params, detail)

    monkeypatch.setattr(advise.Stopwatch, "run", run)
    screen = visit()
    asked(screen)
    screen.says("6 of 21 runs are made", 120)
    assert reached.wait(120)
    expect(screen.player(0)).not_to_have_attribute("data-expected", re.compile(""))  # what is measured is not its run
    screen.wait(0, "ready")
    screen.press("Stop")
    go.set()
    screen.says("Stopped. Too few repeats", 120)
    expect(screen.page.locator("#advice .advice")).to_contain_text("too few repeats to say: 1 of at least 6")
    expect(screen.page.locator("#controls")).not_to_have_attribute("data-running", "")
    screen.prompt(PROMPT)
    screen.run(0)
    expect(screen.page.locator("#advice .advice")).to_have_count(1)


def advisor(limits, models=()):
    catalogue = Catalogue.read(limits.public, models)
    return Advising(Handlers(Gallery(Path("no-such-folder")), catalogue, limits))


def request(key="a"):
    return types.SimpleNamespace(session_hash=key, client=types.SimpleNamespace(host="127.0.0.1"), headers={})


def form(model=MODEL):
    return json.dumps({"method": "greedy", "model": model, "params": {}})


def test_what_it_refuses():
    public = advisor(LIMITS)

    def said(who, *given):
        return json.loads(list(who.ask(request(), *given))[-1][2])["text"]

    assert "The prompt is empty" in said(public, " ", form())
    assert "at most" in said(public, "x" * 100_000, form())
    assert "The form could not be read" in said(public, PROMPT, "{")
    assert "No model that reads any text" in said(advisor(LIMITS, ["tiny-dlm"]), PROMPT, form("tiny-dlm"))
    busy = public.handlers.session(request("b")).begin()
    assert "A run is going on" in json.loads(list(public.ask(request("b"), PROMPT, form()))[-1][2])["text"]
    busy.end()


def test_the_model_of_the_first_slot_is_taken_where_it_reads_the_prompt():
    home = advisor(Limits.from_env())
    able = home.model(advising.read(form("tiny-dlm")), PROMPT)
    assert home.model(advising.read(form(MODEL)), PROMPT) == MODEL
    assert home.model(advising.read(form(MODEL)), "Who wrote Faust?") == able != MODEL
    assert home.model(advising.read(form("me/mine")), PROMPT) == "me/mine"
    assert advisor(LIMITS).model(advising.read(form("me/mine")), PROMPT) == able, "a stranger names listed ones alone"


def test_a_public_host_measures_less_and_shorter():
    home, public = Limits.from_env(), LIMITS
    assert public.advice_tokens <= 32 < home.advice_tokens and public.advice_seconds <= public.seconds


@pytest.mark.pages
def test_it_says_that_it_measures_the_page_s_example_and_why_these_methods(visit, quiet):
    screen = visit()
    screen.method(0, "greedy")
    screen.page.locator("#model-0").select_option(MODEL)
    screen.page.evaluate("""() => { const line = document.querySelector("#status"), said = (window.said = []);
      new MutationObserver(() => said.push(line.textContent)).observe(line, { childList: true, subtree: true }); }""")
    screen.press(BUTTON)
    box = screen.page.locator("#advice .advice")
    expect(box.locator(".advice-on")).to_have_text(
        f"Measured on the page's example “{PROMPT}”; type your own prompt to measure that.", timeout=120_000
    )
    example = f"on the page's example “{PROMPT}”; to measure your own text, press Stop and type it."
    assert any(example in one for one in screen.page.evaluate("said"))
    expect(box.locator(".advice-conditions")).to_contain_text("chosen because they keep the control's text and were")
    screen.prompt("sort: Zoe, Ada")
    screen.press(BUTTON)
    expect(box.filter(has_not=screen.page.locator(".advice-on"))).to_have_count(1, timeout=120_000)


@pytest.mark.pages
def test_what_was_not_measured_above_is_not_said_to_be(visit, quiet):
    """Other parameters, other forwards of the model, and two methods that were not held against each other."""
    screen = visit()
    asked(screen)
    strip = screen.page.locator(".dx-verdict[data-ready]")
    measured, single = strip.locator("[data-part=judged]"), strip.locator("[data-part=speed], [data-part=busy]")
    expect(measured).to_have_count(1, timeout=120_000)
    tokens = screen.parameters(1).locator("#control-1-max_new_tokens").input_value()
    screen.press("Run")
    screen.says("Done: 2 runs")
    expect(measured).to_have_count(1)  # the same methods with the same parameters, once more
    screen.parameters(1).locator("#control-1-length").fill("3")
    screen.press("Run")
    expect(single).to_have_count(1)
    expect(measured).to_have_count(0)
    screen.parameters(1).get_by_role("button", name="Reset all to the defaults").click()
    screen.parameters(1).locator("#control-1-max_new_tokens").fill(tokens)
    screen.press("Run")
    expect(measured).to_have_count(1)
    screen.parameters(1).locator("#control-1-row_invariant").check()  # another model, in a way
    screen.press("Run")
    expect(single).to_have_count(1)
    expect(measured).to_have_count(0)
    screen.parameters(1).get_by_role("button", name="Reset all to the defaults").click()
    screen.parameters(1).locator("#control-1-max_new_tokens").fill(tokens)
    screen.method(0, "adaptive-drafts")
    screen.press("Run")
    expect(strip).to_contain_text("Adaptive drafts")
    expect(single).to_have_count(1)
    expect(measured).to_have_count(0)
    expect(screen.page.locator("#advice .advice")).to_have_count(1)


@pytest.mark.pages
def test_all_slots_hold_what_was_measured_whatever_names_the_model(visit, quiet, monkeypatch):
    """A model of one's own is named by its folder, not by the name in its record; slots out of sight come along."""
    folder = str(ASSETS / "models" / "tiny-ar-m")
    monkeypatch.setattr(Advising, "model", lambda *given: folder)
    named = chosen.named(["prompt-lookup", "token-recycling", "speculative-sampling"], engines.load_model("tiny-ar-m"))
    monkeypatch.setattr(advise, "chosen", lambda model: named)
    screen = visit()
    screen.prompt(PROMPT)
    screen.press(BUTTON)
    expect(screen.page.locator("#advice .advice")).to_have_count(1, timeout=120_000)
    screen.slots(4)
    for slot, title in enumerate(("Greedy autoregressive", "Prompt lookup", "Token Recycling", "Speculative sampling")):
        expect(screen.page.locator(f"#slot-{slot} .slot-said")).to_contain_text(f"{title} · {folder}")
