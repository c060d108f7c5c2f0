"""The view of lexical units: a frame for each forward, tokens that part from one by one, a line that can be moved."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from typing import Any

import pytest

import engines
from engines.core.trace import Trace
from explorer import ASSETS

Open = Callable[..., Any]
Call = Callable[..., Any]


@pytest.fixture(scope="module")
def wrong() -> Trace:
    return Trace.from_json(gzip.decompress((ASSETS / "traces" / "150-lud-line-07.json.gz").read_bytes()))


@pytest.mark.parametrize(
    ("line", "count"),
    [(0.5, 2), (0.7, 1), (0.0, 4), (1.0, 1), (0.1, 4), (0.71, 1)],
)
def test_a_line_ends_the_unit_before_the_first_below_it(js: Call, line: float, count: int) -> None:
    assert js("views/units.js", "M.taken(sure, line)", sure=[0.9, 0.6, 0.3, 0.8], line=line) == count
    assert js("views/units.js", "M.taken([], line)", line=line) == 0


def test_tiles_are_the_units_and_marks_are_the_count_of_the_run(opened: Open, wrong: Trace) -> None:
    for width, scheme in ((1900, "light"), (390, "light"), (1900, "dark")):
        page = opened([wrong], folded=True, viewport={"width": width, "height": 800}, color_scheme=scheme).page
        view = page.locator('[data-view="Units"]')
        page.evaluate("t => handles[0].seek(t)", len(wrong.steps))
        frames = view.locator(".dx-unit:visible")
        shown = len(wrong.steps)
        if width == 390:
            assert 0 < frames.count() < shown, "the newest that there is room for"
            continue
        assert frames.count() == shown and view.locator(".dx-alone:visible").count() == len(wrong.output_ids)
        parted = int(sum(step.facts["checked"] - step.facts["agreed"] for step in wrong.steps))
        assert parted >= 1 and view.locator("[data-parted]:visible").count() == parted
        assert f"{len(wrong.output_ids)} model calls" in str(view.locator("svg").text_content())
        assert f"those that differ from autoregressive decoding: {parted}." in view.inner_text()
        assert "Not lossless" in view.inner_text()


def test_the_line_is_moved_by_keys_and_goes_back(opened: Open, wrong: Trace) -> None:
    page = opened([wrong], folded=True).page
    view = page.locator('[data-view="Units"]')
    page.evaluate("handles[0].seek(1)")
    slider, back = view.get_by_role("slider"), view.get_by_role("button", name="as recorded")
    said = view.locator(".dx-readout").first
    assert back.is_disabled() and "2 of 4 tokens written, threshold 0.7" in said.inner_text()
    slider.focus()
    page.keyboard.press("Home")
    derived = view.locator("[aria-live]")
    assert derived.inner_text() == "derived: 4 of 4 written" and "2 of 4 tokens written" in said.inner_text()
    page.keyboard.press("End")
    assert derived.inner_text() == "derived: 1 of 4 written"
    back.click()
    assert derived.inner_text() == "" and back.is_disabled()


def test_a_run_without_units_does_not_show_it(opened: Open) -> None:
    trace = engines.run("aggressive-decoding", "tiny-ar-m", "spell: the tablee.", params={"max_new_tokens": 6})
    page = opened([trace]).page
    page.evaluate("handles[0].seek(1)")
    assert not page.locator('[data-view="Units"]').is_visible()
