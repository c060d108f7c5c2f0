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


BELOW = """const watch = () => { const tabs = document.querySelector("#stage > .tabs");
  if (tabs) globalThis.highest = Math.min(globalThis.highest ?? 1e9, tabs.getBoundingClientRect().top);
  requestAnimationFrame(watch); }; requestAnimationFrame(watch);"""


@pytest.mark.parametrize("motion", ["no-preference", "reduce"])
def test_what_stands_below_the_players_is_not_shown_before_the_runs_of_the_address(shipped, visit, motion):
    phone = {"viewport": {"width": 390, "height": 844}, "reduced_motion": motion}
    screen = visit(at=shipped, query=f"?scene={THIRD.name}", first=BELOW, **phone)
    plays(screen, THIRD)
    foot = screen.page.locator("#controls").bounding_box()  # covers what is below its upper edge
    assert screen.page.evaluate("highest") > foot["y"] > 600


def test_what_stands_below_waits_for_the_view_of_the_idea_too(shipped, browser):
    """The module of a view comes after its run: until then the player is short."""
    held, free = [], []
    names = "|".join(view.file for view in views() if view.needs)
    with closing(browser.new_context(viewport={"width": 390, "height": 844})) as context:
        page = context.new_page()
        page.add_init_script(BELOW)
        page.route(
            re.compile(rf"/player/views/({names})\.js"), lambda route: route.continue_() if free else held.append(route)
        )
        page.goto(f"{shipped}?scene={THIRD.name}")
        expect(page.locator("#panel-0 .dx-panel")).not_to_have_attribute("data-state", "empty")
        while not held:
            page.wait_for_timeout(20)
        page.wait_for_timeout(500)
        foot = page.locator("#controls").bounding_box()
        assert page.evaluate("highest") > foot["y"] > 600
        free.append(True)
        for route in held:
            route.continue_()
        expect(page.locator("#panel-0 .dx-part[data-idea]")).to_be_attached()
        page.wait_for_timeout(200)
        assert page.evaluate("highest") > foot["y"]


def test_on_a_phone_nothing_moves_while_the_sentences_change(shipped, visit):
    screen = visit(at=shipped, query=f"?scene={FIRST.name}", viewport={"width": 390, "height": 844})
    plays(screen, FIRST)
    screen.player(0).press("Home")
    high = "document.querySelector('.scene-said').offsetHeight"
    said, before = set(), screen.page.evaluate(high)
    for _ in range(len(FIRST.says)):
        assert screen.page.evaluate(high) == before
        said.add(screen.page.locator("#scene .scene-says").inner_text())
        screen.player(0).press("ArrowRight")
    assert len({len(one) // 40 for one in said}) > 1, "sentences of several lengths were said"
    screen.page.locator("#scene-lever").press("Home")
    expect(screen.page.locator("#scene .scene-says")).to_have_text(FIRST.lever.stops[0].say)
    assert screen.page.evaluate(high) == before


def test_a_chip_writes_an_address_that_opens_its_scene_and_back_goes_through_them(shipped, visit):
    screen = visit(at=shipped)
    page = screen.page
    plays(screen, FIRST)
    page.wait_for_function("history.state?.runs?.length")  # the opening is known by its runs, which come after it
    chip(screen, THIRD)
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


def test_chips_that_come_after_the_runs_of_the_opening_are_marked(shipped, visit):
    """On a busy machine Gradio makes them last; the history asks them which scene is shown."""
    screen = visit(at=shipped)
    plays(screen, FIRST)
    screen.page.evaluate(
        """() => { const chip = document.querySelector("#scenarios .scenario[data-now]"), made = chip.cloneNode(true);
          made.removeAttribute("data-now");
          chip.replaceWith(made); }"""
    )
    plays(screen, FIRST)


def test_runs_that_were_there_before_their_address_is_watched_are_known_to_the_history(shipped, visit):
    screen = visit(at=shipped)
    page = screen.page
    plays(screen, FIRST)
    page.wait_for_function("history.state?.runs?.length")
    known = page.evaluate("history.state.runs")
    page.evaluate(
        """() => { const loaded = performance.getEntriesByType("resource").map(({ name }) => name);
          history.replaceState(null, "");
          return import(loaded.find((name) => name.includes("page/address.js")))
            .then(({ mountAddress }) => mountAddress({ value: "" }, () => {}, () => {})); }"""
    )
    page.wait_for_function("history.state?.runs?.length")
    assert page.evaluate("history.state.runs") == known


def test_the_lever_of_a_scene_leaves_its_address(shipped, visit):
    screen = visit(query=f"?scene={FIRST.name}", at=shipped)
    plays(screen, FIRST)
    screen.page.locator("#scene-lever").press("Home")
    expect(screen.page.locator("#scene .scene-says")).to_have_text(FIRST.lever.stops[0].say)
    at(screen, rf"\?scene={FIRST.name}")


def test_a_live_run_leaves_the_address_and_back_shows_the_scene(shipped, visit):
    screen = visit(query=f"?scene={FIRST.name}", at=shipped)
    plays(screen, FIRST)
    expect(screen.page.locator("#prompt textarea")).not_to_have_value("")
    screen.press("Run")
    screen.says("Done: 2 runs")
    at(screen, "/")
    screen.page.go_back()
    plays(screen, FIRST)
    at(screen, rf"\?scene={FIRST.name}")
    screen.page.go_forward()
    expect(screen.page.locator("#scene .scene")).to_be_hidden()
    screen.says("Opened from the link.")


def test_a_refused_run_leaves_the_address(shipped, visit):
    screen = visit(query=f"?scene={THIRD.name}", at=shipped)
    plays(screen, THIRD)
    prompt = screen.page.locator("#prompt textarea")
    expect(prompt).to_have_value(gallery().get(THIRD.traces[0]).header.prompt)  # the scene has filled the form
    screen.prompt(" ")
    screen.press("Run")
    expect(screen.page.locator("#status .status").first).to_have_attribute("data-kind", "error")
    at(screen, rf"\?scene={THIRD.name}")


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


def test_an_address_of_a_scene_that_is_gone_says_so(shipped, visit):
    screen = visit(query="?scene=many-at-onse", at=shipped)
    screen.says("there is no scene 'many-at-onse' here; the nearest is ?scene=many-at-once.")
    screen.wait(0, "ready")
