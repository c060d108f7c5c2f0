"""Addresses of what the players show: scenes, added runs and forks write one, Back shows what was there, a live run
takes out what no longer holds, and a scene that is gone gets a sentence."""

from __future__ import annotations

import re
from contextlib import closing

import pytest
from playwright.sync_api import expect

from engines import UserError
from explorer.export.bundle import views
from explorer.page.links import read_query
from explorer.runs.gallery import gallery
from explorer.runs.scenarios import scenarios, scene
from tests.page.conftest import PHONE, soon

IDS = [card.id for card in gallery().cards]
SCENES = scenarios(IDS)
FIRST, THIRD, FOURTH = SCENES[0], SCENES[2], SCENES[3]


def test_every_scene_has_a_name_of_its_own_that_leads_to_it():
    assert len({one.name for one in SCENES}) == len(SCENES)
    for one in SCENES:
        assert re.fullmatch(r"[a-z0-9-]+", one.name) and scene(one.name, IDS) == scene(one.title, IDS) == one
        assert (link := read_query(f"?scene={one.name}&step=2")) and (link.scene, link.view) == (one.name, {"step": 2})
    assert (link := read_query(f"?scene={FIRST.name}&run=abc")) and not link.scene, "runs win"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("many-at-onse", "there is no scene 'many-at-onse' here; the nearest is ?scene=many-at-once."),
        ("\x1b<b>\n", "there is no scene ' <b> ' here; the chips beside the prompt show all that there are."),
        ("x" * 500, f"there is no scene '{'x' * 60}' here; the chips"),
    ],
)
def test_a_scene_that_is_not_here_is_refused(name, said):
    with pytest.raises(UserError, match="there is no scene") as error:
        scene(name, IDS)
    assert said in str(error.value)


# --- in the browser


def at(screen, pattern: str) -> None:
    expect(screen.page).to_have_url(re.compile(pattern + "$"))


def plays(screen, one) -> None:
    expect(screen.page.locator("#scene .scene-question")).to_have_text(one.question)
    expect(screen.page.locator("#scenarios .scenario[data-now]")).to_have_text(one.title)


def chip(screen, one) -> None:
    screen.page.locator(f"#scene-{one.name}").click()
    plays(screen, one)


BELOW = """globalThis.highest = 1e9; globalThis.frames = 0;
const watch = () => { const tabs = document.querySelector("#stage > .tabs");
  if (tabs) globalThis.highest = Math.min(globalThis.highest, tabs.getBoundingClientRect().top);
  globalThis.frames++;
  requestAnimationFrame(watch); }; requestAnimationFrame(watch);"""
LATER = "(was) => globalThis.frames > was + 20"


@pytest.mark.pages
def test_on_a_phone_what_stands_below_waits_for_the_runs_of_the_address_and_for_the_view_of_the_idea(shipped, browser):
    """The module of a view comes after its run: until then the player is short."""
    held, free = [], []
    names = "|".join(view.file for view in views() if view.needs)
    with closing(browser.new_context(viewport=PHONE)) as context:
        page = context.new_page()
        page.add_init_script(BELOW)
        page.route(
            re.compile(rf"/player/views/({names})\.js"), lambda route: route.continue_() if free else held.append(route)
        )
        page.goto(f"{shipped}?scene={THIRD.name}")
        expect(page.locator("#panel-0 .dx-panel")).not_to_have_attribute("data-state", "empty")
        soon(page, lambda: held)
        page.wait_for_function(LATER, arg=page.evaluate("frames"))
        foot = page.locator("#controls").bounding_box()  # covers what is below its upper edge
        assert page.evaluate("highest") > foot["y"] > 600
        free.append(True)
        for route in held:
            route.continue_()
        expect(page.locator("#panel-0 .dx-part[data-idea]")).to_be_attached()
        page.wait_for_function(LATER, arg=page.evaluate("frames"))
        assert page.evaluate("highest") > foot["y"]


@pytest.mark.pages
def test_on_a_phone_nothing_moves_while_the_sentences_change(shipped, visit):
    screen = visit(at=shipped, query=f"?scene={FIRST.name}", viewport=PHONE)
    plays(screen, FIRST)
    screen.player(0).press("Home")
    says, high = screen.page.locator("#scene .scene-says"), "document.querySelector('.scene-said').offsetHeight"
    told, heights = {said.at: said.say for said in FIRST.says}, []
    assert len({len(one) // 40 for one in told.values()}) > 1, "sentences of several lengths are said"
    for step in range(max(told) + 1):
        screen.go(0, step)
        expect(says).to_have_text(told[max(at for at in told if at <= step)])
        heights.append(screen.page.evaluate(high))
    screen.page.locator("#scene-lever").press("Home")
    expect(says).to_have_text(FIRST.lever.stops[0].say)
    assert {*heights, screen.page.evaluate(high)} == {heights[0]}


def test_scenes_stand_in_the_address_their_lever_and_a_live_run_do_not_and_back_goes_through_them(shipped, visit):
    screen = visit(at=shipped)
    page, prompt = screen.page, screen.page.locator("#prompt textarea")
    plays(screen, FIRST)
    screen.until("history.state?.runs?.length")  # the opening is known by its runs, which come after it
    chip(screen, THIRD)
    at(screen, rf"\?still&scene={THIRD.name}")
    expect(prompt).to_have_value(gallery().get(THIRD.traces[0]).header.prompt)  # the scene has filled the form
    screen.prompt(" ")
    screen.press("Run")  # is refused, and all stays
    expect(page.locator("#status .status").first).to_have_attribute("data-kind", "error")
    at(screen, rf"\?still&scene={THIRD.name}")
    chip(screen, FOURTH)
    at(screen, rf"\?still&scene={FOURTH.name}")
    page.go_back()
    plays(screen, THIRD)
    at(screen, rf"scene={THIRD.name}")
    page.go_back()
    plays(screen, FIRST)
    at(screen, r"\?still")
    page.go_forward()
    plays(screen, THIRD)
    page.reload()
    plays(screen, THIRD)
    screen.says("Opened from the link.")
    chip(screen, FIRST)
    page.locator("#scene-lever").press("Home")
    expect(page.locator("#scene .scene-says")).to_have_text(FIRST.lever.stops[0].say)
    at(screen, rf"scene={FIRST.name}")
    expect(prompt).not_to_have_value("")
    screen.press("Run")
    screen.says("Done: 2 runs")
    at(screen, r"\?still")
    page.go_back()
    plays(screen, FIRST)
    at(screen, rf"scene={FIRST.name}")
    page.go_forward()
    expect(page.locator("#scene .scene")).to_be_hidden()
    page.goto(f"{shipped}?scene=many-at-onse")
    screen.says("there is no scene 'many-at-onse' here; the nearest is ?scene=many-at-once.")


def test_what_is_added_and_forked_has_an_address(shipped, visit):
    screen = visit(at=shipped)
    page = screen.page
    screen.press("Run")
    screen.says("Done: 2 runs")
    chip(screen, FIRST)
    screen.tab("My runs")
    page.locator("#runs").get_by_role("button", name=re.compile("^Add ")).first.click()
    names = ",".join(FIRST.traces)
    at(screen, rf"run={names},[0-9a-f]{{16}}")
    screen.player(0).press("f")
    screen.player(0).locator(".dx-fork").get_by_role("button", name="Continue from here").click()
    at(screen, rf"run={names},[0-9a-f]{{16}},[0-9a-f]{{16}}")
    screen.wait(3, "done")
    page.reload()
    screen.says("Opened from the link.")
    expect(screen.player(3)).to_be_visible()
