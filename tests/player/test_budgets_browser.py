"""What a large run costs the browser: 1,024 positions over 512 steps, one player and four in step.

The aim, on an idle machine: painted 0.3 s after the data is there, 8 ms of browser time for a scrubbed step of one
player and 20 ms for one of four. Browser time is the processor time of all Chromium processes, so that waiting for
other work does not count; caches shared with other work still do, hence the wide limits. test_painting_browser.py holds
what makes the steps cheap by counts, which no other work changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.player.handmade import masked

pytestmark = pytest.mark.timing

LOAD = """(text) => new Promise((done) => { const start = performance.now();
  for (const handle of handles) handle.load(text);
  requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - start))); })"""
SCRUB = """(steps) => new Promise((done) => { let at = 100;
  const slider = document.querySelector(".dx-toolbar input[type=range]");
  const frame = () => { if (at >= 100 + steps) return done(); slider.value = ++at;
    slider.dispatchEvent(new Event("input")); requestAnimationFrame(frame); };
  frame(); })"""
STEPS = 120


@pytest.fixture(scope="module")
def large() -> str:
    return masked(1024, 512).to_json()


@pytest.mark.parametrize(("players", "most"), [(1, 30), (4, 70)])
def test_a_scrubbed_step_of_a_large_run_is_cheap(
    opened: Callable[..., Any], browser: Browser, large: str, players: int, most: int
) -> None:
    session = browser.new_browser_cdp_session()

    def spent() -> float:
        return sum(process["cpuTime"] for process in session.send("SystemInfo.getProcessInfo")["processInfo"])

    page = opened([masked(24, 4)] * players).page
    loads = []
    for _ in range(3):
        before = spent()
        loads.append((page.evaluate(LOAD, large), 1000 * (spent() - before)))
    painted, opening = min(loads)[0], min(cost for _, cost in loads)
    page.wait_for_timeout(500)
    costs = []
    for _ in range(2):
        before = spent()
        page.evaluate(SCRUB, STEPS)
        costs.append(1000 * (spent() - before) / STEPS)
    assert page.evaluate("handles.map((h) => h.debug().step)") == [100 + STEPS] * players
    print(
        f"{players} players: painted {painted:.0f} ms after the data was there, {opening:.0f} ms of browser time; "
        f"{min(costs):.1f} ms of it for a step of all"
    )
    assert opening < 2000 * players and min(costs) < most
    session.detach()
