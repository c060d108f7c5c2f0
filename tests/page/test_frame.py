"""The frame of the page: what stands where, what is folded, what Run becomes, what is said before it."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

import engines

TOP = "(node) => node.getBoundingClientRect().top"


def test_both_boards_begin_in_the_first_screen_and_two_runs_fit_in_1100_pixels(visit):
    screen = visit(viewport={"width": 1440, "height": 900}, folded=True)
    for slot in (0, 1):
        board = screen.player(slot).locator(".dx-board").element_handle()
        screen.page.wait_for_function(f"(node) => ({TOP})(node) <= 330", arg=board)  # once all is laid out
        expect(screen.player(slot).locator(".dx-cells .dx-cell").first).to_be_in_viewport()
    screen.player(0).press("End")
    expect(screen.player(1).locator(".dx-mark")).to_contain_text("by the task's exact check")
    for slot in (0, 1):
        box = screen.player(slot).bounding_box()
        assert box["height"] <= 1100


def test_a_player_shows_board_idea_and_answer_and_folds_the_rest_for_all(visit):
    screen = visit(folded=True)
    screen.everything()
    parts = "(panel) => [...panel.querySelectorAll('.dx-part')].map((part) => part.dataset.view)"
    assert screen.player(0).evaluate(parts) == ["Headline", "Tokens", "Bars", "Text", "Difference"]
    numbers = screen.page.locator("[data-view=Counters]")
    expect(numbers).to_have_count(0)
    screen.player(0).locator(".dx-details > summary").click()
    expect(numbers).to_have_count(2)
    screen.page.reload()
    screen.wait(0, "ready")
    expect(numbers).to_have_count(2)
    screen.player(1).locator(".dx-details > summary").press("Enter")
    expect(numbers).to_have_count(0)


def test_the_prompt_is_a_chip_end_marks_are_one_word_and_best_guesses_stand_in_open_cells(visit, traces):
    screen = visit(folded=True)
    screen.everything()
    first = screen.player(0).locator(".dx-cells .dx-cell").first
    prompt = len(traces[0].header.prompt_ids)
    chips = screen.page.get_by_role("button", name=f"Prompt, {prompt} tokens", exact=True)
    expect(first).to_have_attribute("data-s", "masked")
    chips.first.click()
    expect(chips.nth(1)).to_have_attribute("aria-expanded", "true")
    expect(first).to_have_attribute("data-s", "prompt")
    chips.nth(1).click()
    expect(first).to_have_attribute("data-s", "masked")

    screen.player(0).press("ArrowRight")
    cells = screen.player(0).locator(".dx-cells .dx-cell")
    guesses = cells.filter(has_not=screen.page.locator("[data-k=end]")).and_(screen.page.locator("[data-k=peek]"))
    assert guesses.count() > 0
    at = traces[0].steps[0].candidates
    best = {position: int(row[0]) for position, row in zip(at.positions, at.tokens.array(), strict=True)}
    pieces = {piece.id: piece.text for piece in traces[0].pieces}
    words = {pieces[token].strip() for position, token in best.items()}
    assert {text.replace("␣", "").strip() for text in guesses.all_inner_texts()} <= words
    screen.player(0).press("End")
    ids = traces[0].output_ids
    ends = len(ids) - next(i for i, token in enumerate(ids) if token in traces[0].header.eos_ids)
    expect(cells.filter(has_text=re.compile(f"^end ×{ends}$"))).to_have_count(1)


def test_run_is_stop_while_a_run_goes_on(visit, slowly):
    screen = visit()
    run, stop = (screen.page.get_by_role("button", name=name, exact=True) for name in ("Run", "Stop"))
    expect(stop).to_be_hidden()
    run.click()
    expect(run).to_be_hidden()
    expect(stop).to_be_focused()
    screen.wait(0, "live")
    stop.click()
    screen.wait(0, "stopped")
    expect(run).to_be_visible()
    screen.prompt("")
    run.click()
    screen.says("prompt is empty")
    expect(run).to_be_visible()


def test_a_prompt_that_a_task_model_cannot_know_is_said_before_run(visit):
    screen = visit(folded=True)
    said = screen.page.locator("#elsewhere .status")
    expect(said).to_be_hidden()
    screen.prompt("What is the capital of France?")
    expect(said).to_contain_text("small tasks only")
    screen.prompt("4+8-9*7")  # a task of ours, and none of this model's
    expect(screen.page.locator("#elsewhere button")).to_contain_text("reasoner")
    expect(said).to_contain_text("“copy: ")
    screen.prompt("sort: Mia, Leo")
    expect(said).to_be_hidden()
    screen.prompt("What is the capital of France?")
    other = screen.page.locator("#elsewhere button")
    expect(other).to_have_text(re.compile(r"^Use \S+ instead$"))
    name = other.inner_text().split()[1]
    other.click()
    for slot in (0, 1):
        expect(screen.page.locator(f"#slot-{slot} .slot-said")).to_contain_text(name)
    lines = screen.page.locator(".slot-said").all_inner_texts()
    assert lines[0] != lines[1], "two slots are two methods"
    expect(said).to_be_hidden()


@pytest.mark.parametrize("width", [1440, 1000])
def test_the_inspector_stands_beside_the_boards_or_at_the_foot(visit, width):
    screen = visit(viewport={"width": width, "height": 900}, folded=True)
    cell = screen.player(1).locator(".dx-cells .dx-cell").nth(2)
    cell.click()
    box, board = screen.page.locator(".dx-pop:visible").bounding_box(), screen.player(0).bounding_box()
    if width >= 1280:
        assert box["x"] + box["width"] <= board["x"]
    assert box["y"] + box["height"] >= 880
    screen.page.keyboard.press("Escape")
    screen.player(0).locator(".dx-headline button").first.click()
    receipt = screen.page.get_by_role("dialog").bounding_box()
    assert abs(receipt["x"] - box["x"]) < 2
    screen.page.keyboard.press("Escape")
    screen.player(0).press("f")
    form = screen.player(0).locator(".dx-fork")
    expect(form).to_be_visible()
    assert abs(form.bounding_box()["x"] - box["x"]) < 2


def test_a_comparison_on_my_text_begins_with_the_prompt(visit):
    screen = visit(folded=True)
    screen.everything()
    screen.press("Compare on my text")
    prompt = screen.page.locator("#prompt textarea")
    expect(prompt).to_be_focused()
    screen.page.keyboard.type("Who wrote Faust?")
    expect(prompt).to_have_value("Who wrote Faust?")
    lines = [screen.page.locator(f"#slot-{slot} .slot-said").inner_text() for slot in (0, 1)]
    titles, models = [line.split(" · ")[0] for line in lines], {info.name for info in engines.list_models()}
    on = [models.intersection(line.split(" · ")) for line in lines]
    assert titles[0] != titles[1] and on[0] == on[1] and len(on[0]) == 1
    control, ours = (next(info for info in engines.list_methods() if info.title == title) for title in titles)
    assert not control.baseline and ours.lossless and ours.baseline == control.slug, "never beam search"
    expect(screen.page.locator("#elsewhere .status")).to_be_hidden()
