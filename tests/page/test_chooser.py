"""The chooser of methods: what it is sent, and a visitor's way from four answers to a run."""

import re
import threading

from playwright.sync_api import Locator, expect

from explorer import ASSETS
from explorer.page import blocks
from explorer.page.chooser import payload
from tests.page.conftest import PROMPT, desk

QUESTIONS = {"order": 0, "train": 1, "draft": 2, "same": 3}


def opened(visit, **options) -> tuple:
    screen = visit(**options)
    assert not any("chooser" in one or "finding" in one for one in screen.asked), "nothing of it is loaded before"
    screen.tab("Methods")
    chooser = screen.page.locator("#chooser .chooser")
    expect(chooser.locator(".card")).to_have_count(5)
    return screen, chooser


def answer(chooser: Locator, question: str, choice: str) -> None:
    chooser.locator("fieldset").nth(QUESTIONS[question]).get_by_label(choice, exact=True).check()


def test_each_method_is_tried_on_a_model_that_is_here():
    by_id = {one["id"]: one for one in payload(desk(ASSETS / "traces"))["entries"]}
    for one in by_id.values():
        assert bool(one["runs"]) == one["method"], one["id"]
    assert by_id["sjd"]["runs"] == ["tiny-digits", "tiny-shapes"], "a method for pictures is not tried on words"
    assert {"smollm2", "tiny-ar-l"} <= set(by_id["eagle"]["runs"])
    assert all(one["pictures"] for one in by_id.values() if one["play"])
    assert not any(one["play"] or one["pictures"] for one in payload(desk())["entries"]), "without recordings"


def test_four_answers_lead_to_five_cards_at_most_to_a_recording_and_into_the_slots(visit, traces):
    screen, chooser = opened(visit)
    cards, said = chooser.locator(".card"), chooser.locator("[role=status]")
    everything = int(re.match(r"\d+", said.inner_text())[0])
    answer(chooser, "order", "masked")
    for question in ("train", "draft", "same"):
        answer(chooser, question, "no")
    expect(said).to_have_text(re.compile(rf"^\d+ of {everything} fit the answers\.$"))
    expect(cards.filter(has_text="a masked diffusion model; nothing trained, no second model")).to_have_count(5)
    answer(chooser, "same", "yes")
    expect(said).to_have_text("No method fits these answers.")
    chooser.get_by_role("button", name="Forget the answers").click()
    header = traces[0].header
    chooser.get_by_role("searchbox").fill(header.title)
    expect(cards.first).to_have_attribute("data-id", header.method)
    cards.first.get_by_role("button", name=f"Play: {header.title}").click()
    screen.says(f"Recorded: {header.title}.")
    expect(screen.page).to_have_url(re.compile(f"gallery=0-{header.method}$"))
    screen.wait(0, "done")
    screen.page.go_back()
    screen.says("Opened from the link.")
    chooser.get_by_role("searchbox").fill("CreditDecoding")
    chooser.get_by_role("button", name="Try: CreditDecoding").click()
    for slot, slug in enumerate(("threshold", "creditdecoding")):
        expect(screen.page.locator(f"#method-{slot}")).to_have_value(slug)
    expect(screen.page.locator("#prompt textarea")).to_have_value(PROMPT)
    rule = screen.parameters(1).locator("#control-1-stop_at_end")
    expect(rule).not_to_be_checked()  # the control has none, so the method's is off beside it


def test_what_is_tried_stays_where_the_settings_of_runs_opened_before_come_late(visit, traces, monkeypatch):
    come, real, seed = threading.Event(), blocks.updates, 7

    def late(*given):
        assert come.wait(60)
        prompt, _, *others = real(*given)
        return [prompt, seed, *others]

    screen, chooser = opened(visit)
    first = screen.page.locator("#method-0")
    tried = next(slug for slug in ("threshold", "creditdecoding") if slug != traces[0].header.method)
    monkeypatch.setattr(blocks, "updates", late)
    for header in (trace.header for trace in traces[:2]):
        screen.tab("Methods")
        chooser.get_by_role("searchbox").fill(header.title)
        chooser.locator(".card").first.get_by_role("button", name=f"Play: {header.title}").click()
        screen.says(f"Recorded: {header.title}.")
        if not come.is_set():
            screen.tab("Methods")
            chooser.get_by_role("searchbox").fill("CreditDecoding")
            chooser.get_by_role("button", name="Try: CreditDecoding").click()
            expect(first).to_have_value(tried)
        came = come.is_set()
        come.set()
        expect(screen.page.locator("#seed input")).to_have_value(str(seed))  # the settings are there
        expect(first).to_have_value(header.method if came else tried)
        seed += 1


def test_a_card_has_an_address_and_leads_to_its_lesson_and_a_search_names_the_way_to_a_rule_of_ones_own(visit):
    screen, chooser = opened(visit)
    search, said = screen.page.locator("#chooser input[type=search]"), chooser.locator("[role=status]")
    search.fill("eagel")
    expect(said).to_have_text("Nothing is called “eagel”; the closest match is “EAGLE”.")
    cards = chooser.locator(".card")
    cards.first.get_by_role("link", name="EAGLE", exact=True).click()
    expect(screen.page).to_have_url(re.compile("method=eagle$"))
    expect(cards).to_have_count(1)
    paper = cards.get_by_role("link", name="Paper: EAGLE")
    assert paper.get_attribute("target") == "_blank" and "noopener" in (paper.get_attribute("rel") or "")
    cards.get_by_role("button", name="Lesson: EAGLE").click()
    expect(screen.page).to_have_url(re.compile("lesson=eagle$"))
    screen.page.go_back()
    chooser.get_by_role("button", name="All methods and papers").click()
    expect(screen.page).to_have_url(re.compile("tab=methods$"))
    search.fill("<img src=x onerror=window.hit=1>")
    expect(said).to_contain_text("Nothing here is called “<img src=x onerror=window.hit=1>”")
    search.fill("own method")
    expect(said).to_contain_text("To write one yourself, choose “Write a rule of your own”.")
    for _ in range(2):  # pressed again it stays open
        chooser.get_by_role("button", name="Write a rule of your own").click()
        expect(screen.page.locator("#user-methods").get_by_text("The file is run as it is")).to_be_in_viewport()
