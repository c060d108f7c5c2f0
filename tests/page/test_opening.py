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


def moves(page: Page, seconds: float = 30) -> None:
    page.wait_for_function(LATER, arg=0, timeout=1000 * seconds)


def test_recorded_runs_play_by_themselves_and_again(visit):
    page = visit("").page
    moves(page)
    page.wait_for_function(ENDED)
    page.wait_for_function("() => document.querySelector('#panel-0 .dx-panel').dataset.state === 'playing'")
    moves(page)


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


def test_a_touch_ends_the_loop_for_good(visit):
    screen = visit("")
    moves(screen.page)
    screen.page.locator("#prompt textarea").click()
    expect(screen.player(0)).not_to_have_attribute("data-state", "playing")
    at = screen.step(0)
    screen.player(0).press("End")
    expect(screen.player(0)).to_have_attribute("data-state", "done")
    playing = screen.page.evaluate(
        """() => new Promise((tell) => { let seen = false;
          const look = new MutationObserver(() =>
            (seen ||= document.querySelector("#panel-0 .dx-panel").dataset.state === "playing"));
          look.observe(document.querySelector("#panel-0 .dx-panel"), { attributes: true });
          setTimeout(() => tell(seen), 4000); })"""  # longer than the pause of the loop
    )
    assert not playing and at > 0
    expect(screen.page.locator("#toolbar .dx-speed select, #toolbar select").first).to_have_value("1")


def test_space_pauses_what_moves_by_itself(visit):
    screen = visit("")
    moves(screen.page)
    screen.page.keyboard.press(" ")
    expect(screen.player(0)).to_have_attribute("data-state", "ready")


def test_less_motion_shows_a_step_from_the_middle_and_moves_nothing(visit, traces):
    screen = visit("", reduced_motion="reduce")
    moves(screen.page)
    expect(screen.player(0)).to_have_attribute("data-state", "ready")
    assert 0 < screen.step(0) < len(traces[0].steps)


def test_a_still_page_stands_at_its_beginning(visit):
    screen = visit()
    expect(screen.page.locator("#opening .mount")).to_have_count(1)
    assert screen.step(0) == 0


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


def test_there_are_six_scenarios_and_all_are_recorded():
    declared = msgspec.json.decode((ASSETS / "scenarios.json").read_bytes())
    assert [one.title for one in scenarios([card.id for card in gallery().cards])] == [one["title"] for one in declared]
    assert len(declared) >= 6
    assert scenarios([]) == []


def test_credit_is_shown_where_it_decides():
    scene = next(one for one in scenarios([card.id for card in gallery().cards]) if "credit" in one.traces[1])
    plain, credit = (gallery().get(name) for name in scene.traces)
    assert plain.text == credit.text and judge(plain).right
    assert credit.totals.forwards < plain.totals.forwards
    assert "boosted" in {cause for step in credit.steps if step.commits for cause in step.commits.causes}
