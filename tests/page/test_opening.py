"""A page that nobody has touched moves by itself, and stops when it is touched. Waits are for states."""

from __future__ import annotations

import msgspec
import pytest
from playwright.sync_api import Page, expect

from explorer import ASSETS
from explorer.figures.verdict import judge
from explorer.page.catalogue import Catalogue
from explorer.runs.gallery import gallery
from explorer.runs.scenarios import scenarios

LATER = "(was) => Number(document.querySelector('#panel-0 .dx-panel')?.dataset.step ?? 0) > was"
ENDED = "() => document.querySelector('#panel-0 .dx-panel').dataset.state === 'done'"

PAUSED = """() => { if (document.querySelector('#panel-0 .dx-panel').dataset.state !== 'playing') return false;
  document.body.dispatchEvent(new KeyboardEvent('keydown', { key: ' ', bubbles: true })); return true; }"""


def moves(page: Page, seconds: float = 30) -> None:
    page.wait_for_function(LATER, arg=0, timeout=1000 * seconds)


def test_recorded_runs_play_by_themselves_and_again_and_space_pauses_them(visit):
    screen = visit("")
    moves(screen.page)
    screen.until(ENDED)
    screen.wait(0, "playing")
    moves(screen.page)
    screen.until(PAUSED)
    screen.wait(0, "ready")


WATCH = """window.seen = {};
const look = () => { const panel = document.querySelector("#panel-0 .dx-panel"); if (!panel) return;
  if (panel.dataset.state === "ready" && !seen.ready) { seen.ready = performance.now();
    setTimeout(() => (seen.later = performance.now()), 2000); }
  if (Number(panel.dataset.step) > 0) seen.moved ??= performance.now(); };
new MutationObserver(look).observe(document, { subtree: true, childList: true, attributes: true });"""


@pytest.mark.timing
def test_something_moves_two_seconds_after_the_runs_are_there(browser, address):
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.add_init_script(WATCH)
    page.goto(address)
    page.wait_for_function("() => seen.moved && seen.later")
    seen = page.evaluate("seen")
    print(
        f"the runs are there after {seen['ready']:.0f} ms, the first step {seen['moved'] - seen['ready']:.0f} ms later"
    )
    assert seen["moved"] < seen["later"], "two seconds by the page's own timer, which a busy machine delays as well"
    context.close()


LOOPED = """() => { const panel = document.querySelector("#panel-0 .dx-panel"); window.played = 0;
  new MutationObserver(() => (window.played += panel.dataset.state === "playing")).observe(panel, { attributes: true });
  setTimeout(() => (window.over = true), 4000); }"""  # by the page's own timer, longer than the pause of its loop


@pytest.mark.pages
def test_a_touch_ends_the_loop_for_good(visit):
    screen = visit("")
    moves(screen.page)
    screen.page.locator("#prompt textarea").click()
    expect(screen.player(0)).not_to_have_attribute("data-state", "playing")
    screen.player(0).press("End")
    screen.wait(0, "done")
    screen.page.evaluate(LOOPED)
    screen.until("window.over")
    assert screen.page.evaluate("window.played") == 0
    expect(screen.page.locator("#toolbar .dx-speed select, #toolbar select").first).to_have_value("1")


def test_less_motion_shows_a_step_from_the_middle_and_a_still_page_its_beginning(visit, traces):
    screen = visit("", reduced_motion="reduce")
    moves(screen.page)
    screen.wait(0, "ready")
    assert 0 < int(screen.player(0).get_attribute("data-step")) < len(traces[0].steps)
    screen.page.goto(f"{screen.address}?still")
    expect(screen.page.locator("#opening .mount")).to_have_count(1)
    screen.wait(0, "ready")
    screen.at(0, 0)


def test_a_chip_plays_its_comparison_and_fills_the_controls(shipped, visit):
    page = visit("", at=shipped).page
    moves(page)  # the opening; the chip ends it
    chosen = scenarios([card.id for card in gallery().cards])[-1]
    page.get_by_role("button", name="More scenes", exact=True).click()
    page.get_by_role("button", name=chosen.title, exact=True).click()
    traces = [gallery().get(name) for name in chosen.traces]
    for slot, trace in enumerate(traces):
        expect(page.locator(f"#panel-{slot} .dx-panel h2 > span")).to_have_text(trace.header.title)
        expect(page.locator(f"#method-{slot}")).to_have_value(trace.header.method)
    expect(page.locator("#prompt textarea")).to_have_value(traces[0].header.prompt)
    moves(page)


@pytest.mark.parametrize("scenario", scenarios([card.id for card in gallery().cards]), ids=lambda one: one.title)
def test_a_scenario_compares_on_one_prompt(scenario):
    traces = [gallery().get(name) for name in scenario.traces]
    assert 2 <= len(traces) <= 4 and len({trace.header.prompt for trace in traces}) == 1
    offered = Catalogue.read(public=True)
    for trace in traces:  # Run takes the settings that a chip puts into the controls
        assert offered.plan(trace.header.method, trace.header.models[0].name, trace.header.params)


def test_all_scenarios_are_recorded():
    declared = msgspec.json.decode((ASSETS / "scenarios.json").read_bytes())
    assert [one.title for one in scenarios([card.id for card in gallery().cards])] == [one["title"] for one in declared]
    assert scenarios([]) == []


def test_credit_is_shown_where_it_decides():
    scene = next(one for one in scenarios([card.id for card in gallery().cards]) if "credit" in one.traces[1])
    plain, credit = (gallery().get(name) for name in scene.traces)
    assert plain.text == credit.text and judge(plain).right
    assert credit.totals.forwards < plain.totals.forwards
    assert "boosted" in {cause for step in credit.steps if step.commits for cause in step.commits.causes}
