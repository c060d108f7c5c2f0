"""Addresses of what the players show: scenes, added runs and forks write one, Back shows what was there, a live run
takes out what no longer holds, and a scene that is gone gets a sentence."""

import re

import pytest
from playwright.sync_api import expect

from engines import UserError
from explorer.links import read_query
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

    for name, said in (
        ("many-at-onse", "there is no scene 'many-at-onse' here; the nearest is ?scene=many-at-once."),
        ("\x1b<b>\n", "there is no scene ' <b> ' here; the chips at the prompt show all that there are."),
        ("x" * 500, f"there is no scene '{'x' * 60}' here; the chips"),
    ):
        with pytest.raises(UserError, match=re.escape(said)):
            scene(name, IDS)


def at(screen, pattern: str) -> None:
    expect(screen.page).to_have_url(re.compile(pattern + "$"))


def plays(screen, one) -> None:
    expect(screen.page.locator("#scene .scene-question")).to_have_text(one.question)
    expect(screen.page.locator("#scenarios .scenario[data-now]")).to_have_text(one.title)


def chip(screen, one) -> None:
    screen.page.locator(f"#scene-{one.name}").click()
    plays(screen, one)


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
    page.goto(f"{shipped}?scene=many-at-onse")
    screen.says("there is no scene 'many-at-onse' here; the nearest is ?scene=many-at-once.")
