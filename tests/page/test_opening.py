"""A page that nobody has touched moves by itself, and stops when it is touched. Waits are for states."""

import msgspec
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
    screen.page.locator("#prompt textarea").click()  # a touch ends the loop for good
    screen.player(0).press("End")
    screen.wait(0, "done")
    screen.page.evaluate("setTimeout(() => (window.over = true), 4000)")  # longer than the pause of the loop
    screen.until("window.over")
    screen.wait(0, "done")


def test_less_motion_shows_a_step_from_the_middle_and_a_still_page_its_beginning(visit, traces):
    screen = visit("", reduced_motion="reduce")
    moves(screen.page)
    screen.wait(0, "ready")
    assert 0 < int(screen.player(0).get_attribute("data-step")) < len(traces[0].steps)
    screen.page.goto(f"{screen.address}?still")
    expect(screen.page.locator("#opening .mount")).to_have_count(1)
    screen.wait(0, "ready")
    screen.at(0, 0)


def test_every_scenario_is_recorded_and_compares_on_one_prompt_what_run_takes():
    declared = msgspec.json.decode((ASSETS / "scenarios.json").read_bytes())
    found, offered = scenarios([card.id for card in gallery().cards]), Catalogue.read(public=True)
    assert [one.title for one in found] == [one["title"] for one in declared] and scenarios([]) == []
    for scenario in found:
        traces = [gallery().get(name) for name in scenario.traces]
        assert 2 <= len(traces) <= 4 and len({trace.header.prompt for trace in traces}) == 1
        for trace in traces:
            assert offered.plan(trace.header.method, trace.header.models[0].name, trace.header.params)
    plain, credit = (gallery().get(name) for name in next(one.traces for one in found if "credit" in one.traces[1]))
    assert plain.text == credit.text and judge(plain).right and credit.totals.forwards < plain.totals.forwards
