"""*Will it help on my text?* on the page: from a prompt to verdicts in two clicks, Stop, and what is refused. The runs
are made; their seconds are ours."""

import json
from dataclasses import replace

import pytest
from playwright.sync_api import expect

from explorer.bench import advise
from explorer.figures import advice, pairs
from explorer.page import advising
from explorer.page.advising import Advising
from tests.page.conftest import PROMPT, desk, visitor
from tests.page.test_public import LIMITS

MODEL = "tiny-ar-s"
SECONDS = {"greedy": 1.0, "prompt-lookup": 1 / 1.4}


@pytest.fixture
def quiet(monkeypatch):
    """A machine of ours: methods take the SECONDS, any other one 2; nothing disturbs them."""
    real = advise.Stopwatch.run

    def run(self, slug, prompt, params, detail):
        found = real(self, slug, prompt, params, detail)
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


def test_two_clicks_lead_to_a_verdict_with_its_interval(visit, quiet):
    screen = visit()
    screen.method(0, "greedy")
    screen.model(0, MODEL)
    screen.prompt(PROMPT)
    screen.press("Will it help on my text?")
    expect(screen.page.locator("#controls")).to_have_attribute("data-running", "")
    box = screen.page.locator("#advice .advice")
    expect(box.get_by_role("heading")).to_have_text(
        "Prompt lookup helps on this text here: 1.40× to 1.40×.", timeout=120_000
    )
    expect(screen.page.locator("#controls")).not_to_have_attribute("data-running", "")
    lines = box.get_by_role("listitem")
    expect(lines).to_have_count(2)
    helps, other = (lines.filter(has_text=title) for title in ("Prompt lookup", "Adaptive drafts"))
    expect(helps).to_contain_text("Same text as the control.")
    expect(helps.get_by_role("img")).to_have_attribute("aria-label", "1.40× to 1.40×")
    expect(other).to_contain_text("does not help: 0.50× to 0.50×")
    for slot, title in enumerate(("Greedy autoregressive", "Prompt lookup")):
        screen.wait(slot, "done")
        expect(screen.player(slot).locator("h2")).to_contain_text(title)
    strip = screen.page.locator(".dx-verdict[data-ready]")
    measured, single = strip.locator("[data-part=judged]"), strip.locator("[data-part=speed], [data-part=busy]")
    expect(measured).to_have_text("speed: measured above, in repeated runs")
    expect(single).to_have_count(0)  # no ratio of single runs
    screen.parameters(1).locator("#control-1-length").fill("3")
    screen.press("Run")
    expect(single).to_have_count(1)
    expect(measured).to_have_count(0)


def advisor(limits=None):
    return Advising(desk(limits=limits))


def form(model=MODEL):
    return json.dumps({"method": "greedy", "model": model, "params": {}})


def test_what_it_refuses():
    public = advisor(LIMITS)

    def said(who, *given):
        return json.loads(list(who.ask(visitor(), *given))[-1][2])["text"]

    assert "The prompt is empty" in said(public, " ", form())
    assert "at most" in said(public, "x" * 100_000, form())
    assert "The form could not be read" in said(public, PROMPT, "{")
    narrow = advisor(replace(LIMITS, models=("tiny-dlm",)))
    assert "No model that reads any text" in said(narrow, PROMPT, form("tiny-dlm"))
    public.handlers.session(visitor()).begin()
    assert "A run is going on" in said(public, PROMPT, form())


def test_the_model_of_the_first_slot_is_taken_where_it_reads_the_prompt():
    home = advisor()
    able = home.model(advising.read(form("tiny-dlm")), PROMPT)
    assert home.model(advising.read(form(MODEL)), PROMPT) == MODEL
    assert home.model(advising.read(form(MODEL)), "Who wrote Faust?") == able != MODEL
    assert home.model(advising.read(form("me/mine")), PROMPT) == "me/mine"
    public = advisor(replace(LIMITS, models=()))
    assert public.model(advising.read(form("me/mine")), PROMPT) == able, "a stranger names listed ones alone"
    assert LIMITS.advice_tokens <= 32 < home.handlers.limits.advice_tokens, "and measures less"
