"""What a large run costs the browser: 1,024 positions over 512 steps, one player and four in step.

The aim, on an idle machine: painted 0.3 s after the data is there, 8 ms of browser time for a scrubbed step of one
player and 20 ms for one of four. Browser time is the processor time of all Chromium processes, so that waiting for
other work does not count. What is asserted are ratios within one run: a step against opening the same run, and four
players against one. test_painting_browser.py holds what makes the steps cheap by counts, which no other work
changes."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Browser

from explorer.figures.handed import shown
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


def test_a_scrubbed_step_of_a_large_run_is_cheap(opened: Callable[..., Any], browser: Browser) -> None:
    session, large = browser.new_browser_cdp_session(), shown(masked(1024, 512))

    def spent() -> float:
        return sum(process["cpuTime"] for process in session.send("SystemInfo.getProcessInfo")["processInfo"])

    def measured(players: int) -> tuple[float, float]:
        """Milliseconds of browser time to open the run, and for a step; the best of two tries each."""
        page = opened([masked(24, 4)] * players).page
        loads = []
        for _ in range(2):
            before = spent()
            loads.append((page.evaluate(LOAD, large), 1000 * (spent() - before)))
        costs = []
        for _ in range(2):
            before = spent()
            page.evaluate(SCRUB, STEPS)
            costs.append(1000 * (spent() - before) / STEPS)
        assert page.evaluate("handles.map((h) => h.debug().step)") == [100 + STEPS] * players
        opening, step = min(cost for _, cost in loads), min(costs)
        print(
            f"{players} players: painted {min(loads)[0]:.0f} ms after the data was there, {opening:.0f} ms of browser "
            f"time; {step:.1f} ms of it for a step of all"
        )
        return opening, step

    (opening, step), (opening_of_four, step_of_four) = measured(1), measured(4)
    assert step < opening / 16 and step_of_four < opening_of_four / 16
    assert step_of_four < 4 * step and opening_of_four < 5 * opening
    session.detach()
