"""The first screen: the scene's voice and its lever, and how little stands around them until the page is used."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from explorer.runs.gallery import gallery
from explorer.runs.scenarios import scenarios

COUNT = (Path(__file__).parent / "first_screen.js").read_text(encoding="utf-8")
MOST_CONTROLS, MOST_WORDS = 30, 250
SCENE = scenarios([card.id for card in gallery().cards])[0]
assert SCENE.lever


def says(page: Page, text: str) -> None:
    expect(page.locator("#scene .scene-says")).to_have_text(text)


@pytest.mark.parametrize("width,height", [(1440, 900), (1920, 1080), (390, 844)])
def test_a_page_that_nobody_has_used_is_quiet(shipped, visit, width, height):
    page = visit(folded=True, at=shipped, viewport={"width": width, "height": height}).page
    expect(page.locator("#scene .scene-question")).to_have_text(SCENE.question)
    expect(page.locator(".all-controls")).to_be_visible()
    seen = page.evaluate(COUNT)
    assert seen["controls"] and len(seen["controls"]) <= MOST_CONTROLS, seen["controls"]
    assert seen["words"] <= MOST_WORDS, seen["texts"]


def test_the_board_of_the_opening_stands_in_the_first_screen(shipped, visit):
    page = visit(folded=True, at=shipped, viewport={"width": 1440, "height": 900}).page
    box = page.locator("#panel-1 .dx-board").bounding_box()
    assert box["y"] <= 560 and box["y"] + box["height"] <= 900


@pytest.mark.parametrize("step", [0, 1, 2, 8])
def test_the_opening_stands_whole_in_a_low_window(shipped, visit, step):
    """Caption, lever, both boards, the bars below them and the answer: nothing of it is below the fold."""
    page = visit(folded=True, at=shipped, viewport={"width": 1280, "height": 720}).page
    place = page.get_by_label("Place in the run", exact=True)
    place.press("Home")
    for _ in range(step):
        page.get_by_role("button", name="Step forward").click()
    expect(page.locator("#panel-0 .dx-panel")).to_have_attribute("data-step", str(step))
    whole = ["#tour .tour-start", "#scene .scene-says", "#scene .scene-places", "#toolbar .dx-toolbar", ".scene-legend"]
    whole += [f"#panel-{slot} {part}" for slot in (0, 1) for part in (".dx-board", ".dx-bars-box", ".dx-words")]
    for part in whole:
        expect(page.locator(part)).to_be_in_viewport(ratio=1)
    for slot in (0, 1):
        tokens = page.locator(f"#panel-{slot} .dx-board [data-s]")
        assert tokens.evaluate_all("(cells) => cells.every((cell) => cell.scrollWidth <= cell.clientWidth + 1)")


@pytest.mark.parametrize("use", ["all controls", "the prompt"])
def test_what_is_hidden_comes_with_the_first_use_and_stays(shipped, visit, use):
    screen = visit(folded=True, at=shipped, viewport={"width": 1440, "height": 900})
    page = screen.page
    form, fork = page.locator(".slot-form").first, page.locator(".dx-forker").first
    page.locator("#scene-lever").press("End")  # the lever and the buttons that play ask for no more
    page.get_by_role("button", name="Step forward").click()
    expect(page.locator("#panel-1 .dx-panel")).to_have_attribute("data-step", str(SCENE.lever.stops[-1].calls))
    expect(form).to_be_hidden()
    expect(fork).to_be_hidden()
    if use == "the prompt":
        page.locator("#prompt textarea").click()
    else:
        page.get_by_role("button", name="Show everything", exact=True).click()
    expect(form).to_be_visible()
    expect(fork).to_be_visible()
    expect(page.locator(".all-controls")).to_be_hidden()
    page.reload()
    expect(form).to_be_visible()
    expect(page.locator(".all-controls")).to_be_hidden()


def test_a_link_that_leads_somewhere_hides_nothing(shipped, visit):
    page = visit(f"?gallery={SCENE.traces[0]}", folded=True, at=shipped).page
    expect(page.locator(".dx-forker").first).to_be_visible()
    expect(page.locator(".slot-form").first).to_be_visible()


def test_each_step_of_the_opening_is_told(shipped, visit):
    screen = visit(folded=True, at=shipped)
    page = screen.page
    says(page, SCENE.says[0].say)
    told = {said.at: said.say for said in SCENE.says}
    now = ""
    for step in range(max(told) + 1):
        now = told.get(step, now)
        says(page, now)
        page.get_by_role("button", name="Step forward").click()


def test_the_lever_shows_the_recorded_run_of_each_place_and_the_controls_take_it(shipped, visit):
    screen = visit(folded=True, at=shipped)
    page, lever = screen.page, screen.page.locator("#scene-lever")
    lever.press("Home")
    for at, stop in enumerate(SCENE.lever.stops):
        says(page, stop.say)
        steps = len(gallery().get(stop.trace).steps)
        for slot in (0, 1):  # as many steps of both: what one call each has written
            expect(screen.player(slot)).to_have_attribute("data-step", str(steps))
        expect(screen.player(1)).to_have_attribute("data-state", "done")
        mark = page.locator("#scene .scene-places li").nth(at)
        expect(mark).to_have_attribute("data-here", "")
        expect(mark).to_contain_text("✓" if stop.right else "✗")
        lever.press("ArrowRight")
    screen.page.get_by_role("button", name="Show everything", exact=True).click()
    screen.parameters(1) if page.locator("#slot-1 .slot-form[open]").count() else page.locator(
        "#slot-1 summary"
    ).first.click()
    expect(page.locator("#control-1-threshold")).to_have_value(str(SCENE.lever.stops[-1].value))


def test_other_runs_end_the_scene_and_its_own_bring_it_back(shipped, visit):
    screen = visit(at=shipped)
    page = screen.page
    page.get_by_role("button", name="See a draft tree", exact=True).click()
    tree = next(one for one in scenarios([card.id for card in gallery().cards]) if one.title == "See a draft tree")
    expect(page.locator("#scene .scene-question")).to_have_text(tree.question)
    expect(page.locator("#scene-lever")).to_have_count(0)
    expect(page.locator("#scenarios .scenario[data-now]")).to_have_text("See a draft tree")
    screen.prompt("sort: Mia, Leo")
    page.get_by_role("button", name="Many at once", exact=True).click()
    expect(page.locator("#scene .scene-question")).to_have_text(SCENE.question)
    screen.press("Run")
    screen.says("Done: 2 runs")
    expect(page.locator("#scene .scene")).to_be_hidden()
    expect(page.locator("#scenarios .scenario[data-now]")).to_have_count(0)


@pytest.mark.parametrize("width", [1280, 390])
def test_each_board_of_a_scene_says_its_part_and_its_method(shipped, visit, width):
    screen = visit("?scene=break-a-sum", at=shipped, viewport={"width": width, "height": 800})
    page = screen.page
    scene = next(one for one in scenarios([card.id for card in gallery().cards]) if one.name == "break-a-sum")
    for slot, name in enumerate(scene.traces):
        header = gallery().get(name).header
        head = page.locator(f"#panel-{slot} .dx-panel h2")
        expect(head.locator(".scene-role")).to_have_text(scene.roles[slot])
        expect(head.locator("span")).to_have_text(header.title)
        if width < 700:
            page.locator(".switcher button").nth(slot).click()
            expect(page.locator(".switcher button").nth(slot)).to_have_text(f"{slot + 1} {scene.roles[slot]}")
        role, apart = head.locator(".scene-role").bounding_box(), head.locator("strong").bounding_box()
        assert role["y"] + role["height"] <= apart["y"] + 1
        for part in (".scene-role", "strong"):  # the part it plays and what tells equal methods apart are whole
            assert head.locator(part).evaluate("(node) => node.scrollWidth <= node.clientWidth")
    if width > 700:
        screen.press("See a draft tree")
        expect(page.locator("#panel-1 h2 .scene-role")).to_have_text("A tree of guesses")
        screen.prompt("sort: Mia, Leo")
        screen.press("Many at once")
        screen.press("Run")
        screen.says("Done: 2 runs")
        expect(page.locator(".scene-role")).to_have_count(0)  # other runs play no part


@pytest.mark.parametrize("width", [1280, 390])
def test_a_scene_has_one_legend_for_all_its_boards(shipped, visit, width):
    screen = visit(folded=True, at=shipped, viewport={"width": width, "height": 800})
    page = screen.page
    written = page.locator(".dx-legend > span:visible", has_text="written in this step")
    for slot in (0, 1):
        expect(page.locator(f"#panel-{slot} .dx-legend > span", has_text="written in this step")).to_have_count(1)
    expect(written).to_have_count(1)
    if width < 700:
        return
    line = "(where) => document.querySelector(where + ' .dx-line').style.borderBottomColor"
    light = page.evaluate(line, ".scene-legend")
    page.evaluate("document.body.classList.add('dark')")
    page.wait_for_function(f"(light) => ({line})('#panel-1 .dx-under > .dx-legend') !== light", arg=light)
    page.wait_for_function(f"() => ({line})('.scene-legend') === ({line})('#panel-1 .dx-under > .dx-legend')")
    screen.prompt("sort: Mia, Leo")
    screen.press("Run")
    screen.says("Done: 2 runs")
    expect(written).to_have_count(2)  # no scene: each board has its own
    screen.press("See a draft tree")
    expect(page.locator(".scene-legend")).to_contain_text("bonus token")
    expect(written).to_have_count(1)


@pytest.mark.parametrize("width", [1440, 390])
def test_what_is_filled_in_to_be_tried_is_said_and_in_sight_and_ends_the_scene(shipped, visit, width):
    screen = visit("?tab=methods", folded=True, at=shipped, viewport={"width": width, "height": 900})
    page = screen.page
    page.locator("#chooser input[type=search]").fill("prompt lookup")
    page.get_by_role("button", name="Try: Prompt lookup").click()
    screen.says("The slots below hold Greedy autoregressive, Prompt lookup on ")
    expect(page.locator("#status")).to_be_in_viewport()
    form = page.locator("#slot-1 .slot-form")
    expect(form).to_have_attribute("open", "")
    expect(form.locator("#method-1")).to_have_value("prompt-lookup")
    if width > 700:
        expect(form.locator("#method-1")).to_be_in_viewport(ratio=1)
    expect(page.locator("#scene .scene")).to_be_hidden()
    expect(page.locator(".scene-role, #scenarios .scenario[data-now]")).to_have_count(0)
    page.get_by_role("button", name="Many at once", exact=True).click()
    expect(page.locator("#scene .scene-question")).to_have_text(SCENE.question)
    if width > 700:
        page.get_by_role("button", name="Compare on my text", exact=True).click()
        screen.says("The slots below hold ")
        expect(page.locator("#scene .scene")).to_be_hidden()


def test_a_lever_that_asks_for_another_run_gets_a_sentence(shipped, visit):
    screen = visit(folded=True, at=shipped)
    page = screen.page
    expect(page.locator("#scene-lever")).to_be_visible()
    page.evaluate("""() => { const send = JSON.stringify; JSON.stringify = (value, ...more) =>
      send(value?.stop ? { ...value, stop: "<b>none</b>" } : value, ...more); }""")
    page.locator("#scene-lever").press("Home")
    screen.says("No lever here leads to a recorded run '<b>none</b>'")


def test_the_warning_about_a_model_goes_with_the_model_also_where_the_server_fills_the_slots(shipped, visit):
    screen = visit(at=shipped)
    pays = next(one for one in scenarios([card.id for card in gallery().cards]) if one.title == "When it does not pay")
    screen.prompt(gallery().get(pays.traces[0]).header.prompt)
    warning = screen.page.locator("#elsewhere .status")
    expect(warning).to_contain_text("knows small tasks only")
    screen.press(pays.title)
    expect(screen.page.locator("#model-1")).to_have_value("smollm2")
    expect(warning).to_be_hidden()


def test_a_probability_stands_apart_from_its_token(shipped, visit):
    page = visit("?scene=when-it-does-not-pay&step=8", at=shipped).page
    rows = page.locator("#panel-0 .dx-next li")
    expect(rows.first).to_be_visible()
    gaps = rows.evaluate_all("""(rows) => rows.map((row) => {
      const [, token, share] = [...row.children].map((one) => one.getBoundingClientRect());
      return share.left - token.right; })""")
    assert len(gaps) > 2 and min(gaps) >= 4
