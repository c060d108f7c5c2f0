"""The first screen: the scene's voice and its lever, and how little stands around them until the page is used."""

import json
from types import SimpleNamespace

from playwright.sync_api import Page, expect

from explorer.page import gallery as chips
from explorer.runs.gallery import gallery
from explorer.runs.scenarios import scenarios
from tests.page.conftest import LAPTOP

SCENES = {one.title: one for one in scenarios([card.id for card in gallery().cards])}
SCENE = next(iter(SCENES.values()))
assert SCENE.lever


def says(page: Page, text: str) -> None:
    expect(page.locator("#scene .scene-says")).to_have_text(text)


def asks(page: Page, scene) -> None:
    expect(page.locator("#scene .scene-question")).to_have_text(scene.question)


def test_the_opening_stands_whole_in_a_low_window_and_each_of_its_steps_is_told(shipped, visit):
    screen = visit(folded=True, at=shipped, viewport={"width": 1280, "height": 720})
    page, told = screen.page, {said.at: said.say for said in SCENE.says}
    page.get_by_label("Place in the run", exact=True).press("Home")
    whole = ["#scene .scene-says", "#toolbar .dx-toolbar", ".scene-legend"]
    whole += [f"#panel-{slot} {part}" for slot in (0, 1) for part in (".dx-board", ".dx-bars-box", ".dx-words")]
    for step in range(max(told) + 1):
        screen.at(0, step)
        says(page, told[max(at for at in told if at <= step)])
        for part in whole if step in (0, 1, 2, 8) else []:
            expect(page.locator(part)).to_be_in_viewport(ratio=1)
        page.get_by_role("button", name="Step forward").click()


def test_a_page_that_nobody_has_used_is_quiet_and_what_is_hidden_comes_with_the_first_use_and_stays(shipped, visit):
    screen = visit(folded=True, at=shipped, viewport=LAPTOP)
    page = screen.page
    asks(page, SCENE)
    expect(page.locator("#panel-1 .dx-board")).to_be_in_viewport(ratio=1)
    form, fork = page.locator(".slot-form").first, page.locator(".dx-forker").first
    expect(form).to_be_hidden()
    expect(fork).to_be_hidden()
    page.locator("#prompt textarea").click()
    for _ in range(2):
        expect(form).to_be_visible()
        expect(fork).to_be_visible()
        expect(page.locator(".all-controls")).to_be_hidden()
        page.reload()


def test_the_lever_shows_the_recorded_run_of_each_place(shipped, visit):
    screen = visit(folded=True, at=shipped)
    page, lever = screen.page, screen.page.locator("#scene-lever")
    lever.press("Home")
    for at, stop in enumerate(SCENE.lever.stops):
        says(page, stop.say)
        for slot in (0, 1):  # as many steps of both: what one call each has written
            screen.at(slot, len(gallery().get(stop.trace).steps))
        screen.wait(1, "done")
        mark = page.locator("#scene .scene-places li").nth(at)
        expect(mark).to_have_attribute("data-here", "")
        expect(mark).to_contain_text("✓" if stop.right else "✗")
        lever.press("ArrowRight")


def test_boards_of_a_scene_say_their_parts_under_one_legend_and_other_runs_end_it(shipped, visit):
    scene, tree = SCENES["Break a sum"], SCENES["See a draft tree"]
    screen = visit(f"?scene={scene.name}", folded=True, at=shipped, viewport={"width": 1280, "height": 800})
    page = screen.page
    expect(page.locator(".slot-form").first).to_be_visible()  # a link that leads somewhere hides nothing
    for slot, name in enumerate(scene.traces):
        head = page.locator(f"#panel-{slot} .dx-panel h2")
        expect(head.locator(".scene-role")).to_have_text(scene.roles[slot])
        expect(head.locator("span")).to_have_text(gallery().get(name).header.title)
        expect(head.locator("strong")).to_have_text(f" · threshold {('0.9', '0.4')[slot]}")
    written = page.locator(".dx-legend > span:visible", has_text="written in this step")
    expect(written).to_have_count(1)
    screen.press(tree.title)
    asks(page, tree)
    expect(page.locator("#scene-lever")).to_have_count(0)
    screen.prompt("sort: Mia, Leo")
    screen.press(SCENE.title)
    asks(page, SCENE)
    screen.press("Run")
    screen.says("Done: 2 runs")
    expect(page.locator("#scene .scene")).to_be_hidden()
    expect(page.locator(".scene-role, #scenarios .scenario[data-now]")).to_have_count(0)
    expect(written).to_have_count(2)  # no scene: each board has its own


def test_a_lever_that_asks_for_another_run_gets_a_sentence():
    heard = []
    lever = SimpleNamespace(submit=lambda act, *rest, **more: heard.append(act))
    chips.connect_scenes(SimpleNamespace(gallery=gallery()), [], lever, [])
    for sent in ('{"slot": 1, "stop": "<b>none</b>"}', None, "{", "[" * 100_000, '{"slot": 1}'):
        _, said, _ = heard[0](sent, None)
        assert "No lever here leads to a recorded run" in json.loads(said)["text"] and "<" not in said
