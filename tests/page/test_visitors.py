"""Several visitors at once. `python -m tests.page.visitors 20` measures twenty, and how much they slow a live run
down."""

from __future__ import annotations

import statistics

import pytest

from tests.page.visitors import measure


@pytest.mark.server
@pytest.mark.slow
@pytest.mark.timing
def test_visitors_who_watch_ask_for_nothing_and_cost_little(browser):
    report = measure(4, 1, rounds=1, browser=browser)
    print(report)
    assert report.failures == []
    assert len(report.answers) > 3 * 20, "three visitors fetched the page, the player and a trace"
    assert statistics.median(report.answers) < 3
    assert report.asked_while_playing == 0
    assert report.megabytes < 15
    assert len(report.frames) > 5
