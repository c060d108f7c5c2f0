"""The chooser of methods: what it is sent, and a visitor's way from four answers to a run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from explorer.page.catalogue import Catalogue
from explorer.page.chooser import payload
from explorer.page.handlers import Handlers
from explorer.page.limits import Limits
from explorer.runs.gallery import Gallery, gallery
from tests.page.conftest import PHONE, PROMPT
from tests.page.test_everybody import AXE, grave, settle

QUESTIONS = {"order": 0, "train": 1, "draft": 2, "same": 3}


@pytest.fixture(scope="module")
def sent() -> list[dict]:
    return payload(Handlers(gallery(), Catalogue.read(False), Limits(1000, 100, 60, False)))["entries"]


def test_each_method_is_tried_on_a_model_that_is_here(sent):
    for one in sent:
        assert bool(one["runs"]) == one["method"], one["id"]
    by_id = {one["id"]: one for one in sent}
    assert by_id["sjd"]["runs"] == ["tiny-digits", "tiny-shapes"], "a method for pictures is not tried on words"
    assert {"smollm2", "tiny-ar-l"} <= set(by_id["eagle"]["runs"])
    assert all(one["pictures"] for one in sent if one["play"])


def test_without_recordings_nothing_is_played(tmp_path: Path):
    found = payload(Handlers(Gallery(tmp_path), Catalogue.read(True), Limits(1000, 100, 60, True)))["entries"]
    assert found and not any(one["play"] or one["pictures"] for one in found)


# --- in the browser


def opened(visit, **options) -> tuple:
    screen = visit(**options)
    assert not any("chooser" in one or "finding" in one for one in screen.asked), "nothing of it is loaded before"
    screen.tab("Methods")
    chooser = screen.page.locator("#chooser .chooser")
    expect(chooser.locator(".card")).to_have_count(5)
    return screen, chooser


def answer(chooser: Locator, question: str, choice: str) -> None:
    chooser.locator("fieldset").nth(QUESTIONS[question]).get_by_label(choice, exact=True).check()


def test_four_answers_lead_to_five_cards_at_most_and_to_a_recording(visit, traces):
    screen, chooser = opened(visit)
    cards, said = chooser.locator(".card"), chooser.locator("[role=status]")
    everything = int(re.match(r"\d+", said.inner_text())[0])
    chooser.locator("fieldset").first.get_by_label("any").focus()
    screen.page.keyboard.press("ArrowRight")
    expect(chooser.locator("fieldset").first.get_by_label("left to right")).to_be_checked()
    screen.page.keyboard.press("Tab")
    expect(chooser.locator("fieldset").nth(1).get_by_label("any")).to_be_focused()
    expect(cards.first).to_contain_text("a left-to-right model")
    answer(chooser, "order", "masked")
    for question in ("train", "draft", "same"):
        answer(chooser, question, "no")
    expect(said).to_have_text(re.compile(rf"^\d+ of {everything} fit the answers\.$"))
    expect(cards.filter(has_text="a masked diffusion model; nothing trained, no second model")).to_have_count(5)
    fit = int(re.match(r"\d+", said.inner_text())[0])
    assert 5 < fit < everything
    for told in (re.compile("may differ from|it is a control|its own"), "Measured here"):
        expect(cards.filter(has_text=told)).to_have_count(5)
    more = chooser.locator(".chooser-more")
    expect(more.locator("summary")).to_have_text(f"{fit - 5} more")
    more.locator("summary").press("Enter")
    expect(more.locator("li:visible")).to_have_count(fit - 5)
    answer(chooser, "same", "yes")
    expect(said).to_have_text("No method fits these answers.")
    expect(cards).to_have_count(0)
    chooser.get_by_role("button", name="Forget the answers").click()
    expect(said).to_have_text(f"{everything} methods and papers.")
    header = traces[0].header
    chooser.get_by_role("searchbox").fill(header.title)
    expect(cards.first).to_have_attribute("data-id", header.method)
    cards.first.get_by_role("button", name=f"Play: {header.title}").click()
    screen.says(f"Recorded: {header.title}.")
    expect(screen.page).to_have_url(re.compile(f"gallery=0-{header.method}$"))
    screen.wait(0, "done")
    screen.page.go_back()
    expect(cards.first).to_have_attribute("data-id", header.method)
    screen.page.go_forward()
    expect(screen.player(0).locator("h2 > span")).to_have_text(header.title)


def test_try_fills_the_slots_control_first_with_one_rule_for_the_end_and_keeps_the_prompt(visit):
    screen, chooser = opened(visit)
    search, prompt = screen.page.locator("#chooser input[type=search]"), screen.page.locator("#prompt textarea")

    def tried(title: str, *slugs: str) -> None:
        search.fill(title)
        chooser.get_by_role("button", name=f"Try: {title}").click()
        for slot, slug in enumerate(slugs):
            expect(screen.page.locator(f"#method-{slot}")).to_have_value(slug)

    tried("Prompt lookup", "greedy", "prompt-lookup")
    expect(prompt).to_be_focused()
    model = screen.page.locator("#model-0").input_value()
    expect(screen.page.locator("#model-1")).to_have_value(model)
    expect(prompt).to_have_value(PROMPT)
    expect(screen.page).to_have_url(re.compile(r"\?still$"))
    screen.page.go_back()
    expect(chooser.locator(".card").first).to_have_attribute("data-id", "prompt-lookup")
    tried("LLaDA base", "llada")
    expect(screen.page.get_by_role("radio", name="1", exact=True)).to_be_checked()
    screen.tab("Methods")
    tried("CreditDecoding", "threshold", "creditdecoding")
    rule = screen.parameters(1).locator("#control-1-stop_at_end")
    expect(rule).not_to_be_checked()  # the control has none, so the method's is off beside it
    expect(rule.locator("xpath=ancestor::*[.//p][1]")).to_contain_text("off to compare fairly with Fast-dLLM threshold")


def test_the_way_to_a_rule_of_ones_own_stands_at_the_top_and_a_search_names_it(visit):
    screen, chooser = opened(visit)
    own = chooser.get_by_role("button", name="Write a rule of your own")
    expect(own).to_be_in_viewport()
    search, says = screen.page.locator("#chooser input[type=search]"), chooser.get_by_role("status")
    search.fill("own method")
    expect(says).to_contain_text("To write one yourself, choose “Write a rule of your own”.")
    search.fill("EAGLE")
    expect(says).not_to_contain_text("yourself")
    for _ in range(2):  # pressed again it stays open
        own.click()
        expect(screen.page.locator("#user-methods").get_by_text("The file is run as it stands")).to_be_in_viewport()


@pytest.mark.pages
def test_on_a_phone_a_card_is_one_column_and_the_way_to_a_rule_of_ones_own_leads_to_its_beginning(visit):
    screen = visit("?tab=methods", folded=True, viewport=PHONE)
    expect(screen.page.locator("#chooser .card")).to_have_count(5)
    screen.until("""() => new Set([...document.querySelectorAll("#chooser .card")]
      .map((card) => card.getBoundingClientRect().x)).size === 1""")
    screen.page.locator("#chooser").get_by_role("button", name="Write a rule of your own").click()
    screen.until("""() => { const top = document.querySelector("#user-methods").getBoundingClientRect().top;
      window.held = top >= -5 && top < 200 ? (window.held ?? 0) + 1 : 0;
      return window.held > 20; }""")  # and it stays there


def test_a_card_has_an_address_and_leads_to_its_lesson(visit):
    screen, chooser = opened(visit)
    search, said = screen.page.locator("#chooser input[type=search]"), chooser.locator("[role=status]")
    search.fill("eagel")
    expect(said).to_have_text("Nothing is called “eagel”; the closest match is “EAGLE”.")
    cards = chooser.locator(".card")
    cards.first.get_by_role("link", name="EAGLE", exact=True).click()
    expect(screen.page).to_have_url(re.compile("method=eagle$"))
    expect(cards).to_have_count(1)
    expect(cards).to_contain_text("Published, not measured here: 2.7× to 3.5×")
    expect(cards).to_contain_text("Departs from the paper: A small layer")
    paper = cards.get_by_role("link", name="Paper: EAGLE")
    assert paper.get_attribute("target") == "_blank" and "noopener" in (paper.get_attribute("rel") or "")
    assert paper.get_attribute("href") == "https://arxiv.org/abs/2401.15077"
    cards.get_by_role("button", name="Lesson: EAGLE").click()
    expect(screen.page.locator("#lessons .learn-text h2").first).to_have_text("EAGLE")
    expect(screen.page).to_have_url(re.compile("lesson=eagle$"))
    screen.page.go_back()
    expect(cards).to_have_count(1)
    chooser.get_by_role("button", name="All methods and papers").click()
    expect(screen.page).to_have_url(re.compile("tab=methods$"))
    search.fill("2502.09992")
    expect(cards.first).to_have_attribute("data-id", "llada")
    search.fill("<img src=x onerror=window.hit=1>")
    expect(said).to_contain_text("Nothing here is called “<img src=x onerror=window.hit=1>”")
    screen.page.goto(f"{screen.address}?paper=fast-dllm-v1")
    expect(cards).to_have_count(3)
    screen.page.get_by_role("link", name="All papers as a table").click()
    expect(screen.page.locator("#docs-text h1")).to_have_text("Papers and methods")
    expect(screen.page).to_have_url(re.compile("doc=papers$"))


@pytest.mark.pages
@pytest.mark.parametrize("width", [1440, 390])
def test_axe_finds_nothing_grave_and_no_card_is_too_wide(visit, width):
    screen = visit(
        "?tab=methods", viewport={"width": width, "height": 844}, reduced_motion="reduce", folded=width == 1440
    )
    page, chooser = screen.page, screen.page.locator("#chooser .chooser")
    expect(chooser.locator(".card")).to_have_count(5)
    page.evaluate(AXE.read_text("utf-8"))
    answer(chooser, "draft", "yes")
    settle(page)
    for dark in (False, True):
        page.evaluate("(dark) => document.body.classList.toggle('dark', dark)", dark)
        settle(page)
        assert grave(page, "#chooser", True) == []
    assert grave(page, "#chooser", False) == []
    screen.until(f"document.documentElement.scrollWidth <= {width}")
    chosen = chooser.locator("fieldset").nth(2).get_by_label("yes")
    assert chosen.evaluate("(box) => getComputedStyle(box).appearance") == "auto", "a chosen answer looks chosen"
