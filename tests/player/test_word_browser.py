"""The view of a picture that is read: what it says and draws, and what it leaves out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from engines.core.trace import Commits, End, Piece, Step, Trace, pack
from engines.methods.multimodal._word import Sight
from tests.player.handmade import header, records

Open = Callable[..., Any]
PIXELS = pack(np.linspace(0, 1, 32 * 128).reshape(32, 128), 0.0, 1.0)
LETTERS = [Piece(0, "<end>", "special"), *(Piece(i, chr(96 + i)) for i in range(1, 27))]


def looked(*columns: int) -> Any:
    return pack(np.eye(32)[list(columns)], 0.0, 1.0)


def at_once() -> Trace:
    step = Step(0, {"reader": 1}, 11, 0.01, 0.001, {"reader": 9})
    step.commits = Commits([12, 13, 14], [5, 5, 0], ["place"] * 3)
    step.records = records(sight=Sight(PIXELS, looked(2, 6, 9), {"e": 2}, [0.99, 0.98, 0.97, 0.02]))
    return _trace([step])


def one_by_one() -> Trace:
    steps = []
    for i, token in enumerate([5, 5, 0]):
        step = Step(i, {"reader": 1}, 1, 0.01, 0.001, {"reader": 2})
        step.commits = Commits([12 + i], [token], ["greedy"])
        step.records = records(sight=Sight(None if i else PIXELS, looked(2 + 4 * i)))
        steps.append(step)
    return _trace(steps)


def _trace(steps: list[Step]) -> Trace:
    top = header("cppd", "CPPD", "multimodal")
    top.prompt_ids, top.eos_ids = [1] * 12, [0]
    return Trace(top, steps, LETTERS, End("complete", [5, 5, 0], "ee", 0.1, 0.01))


def part(page: Any, selector: str) -> Any:
    return page.page.locator(f'[data-view="Word"] {selector}')


def seek(page: Any, step: int) -> None:
    page.page.evaluate("step => handles[0].seek(step)", step)


def shown(page: Any, selector: str) -> list[str]:
    return part(page, selector).evaluate_all(
        "all => all.filter(e => e.style.display !== 'none').map(e => e.textContent)"
    )


def test_counts_places_and_letters_stand_after_one_step(opened: Open) -> None:
    page = opened([at_once()])
    assert part(page, "image").is_visible(), "the picture is there before it is read"
    assert part(page, ".dx-readout").first.text_content() == "Not read yet."
    assert shown(page, "svg > g:nth-child(5) > g") == []
    seek(page, 1)
    said = "Counted: e 2. Positions predicted occupied: 3 of 4. Read: ‘ee’ after step 1."
    assert part(page, ".dx-readout").first.text_content() == said
    assert part(page, "svg").get_attribute("aria-label") == said
    assert shown(page, "svg > g:nth-child(5) > g") == ["e", "e", "end", ""]
    dashes = part(page, "svg > g:nth-child(5) rect").evaluate_all(
        "all => all.map(e => e.getAttribute('stroke-dasharray'))"
    )
    assert dashes == ["none", "none", "none", "3 4"]
    assert len(shown(page, "svg > g:nth-child(6) rect")) == 2
    words = shown(page, "svg > g:last-child text")
    assert words[:4] == ["99 %", "98 %", "97 %", "2 %"] and {"e", "× 2", "call 3"} <= {*words}
    late = part(page, "svg > g:nth-child(7) > g").evaluate_all("all => all.filter(e => e.getAttribute('opacity') < 1)")
    assert len(late) == 5, "the calls that reading letter by letter would still have to make"
    page.check_quiet()


def test_the_strip_follows_the_step(opened: Open) -> None:
    page = opened([one_by_one()])
    for step in (1, 3, 2):
        seek(page, step)
        shares = part(page, "svg > g:nth-child(2) rect").evaluate_all("all => all.map(e => +e.getAttribute('opacity'))")
        assert np.argmax(shares) == 2 + 4 * (step - 1)
        assert len(shown(page, "svg > g:nth-child(3) path")) == step
    assert part(page, ".dx-readout").first.text_content() == "Read so far: ‘ee’ after step 2."


@pytest.mark.parametrize("width", [390, 820, 1440])
def test_it_fits_its_panel(opened: Open, width: int) -> None:
    page = opened([at_once()])
    page.page.set_viewport_size({"width": width, "height": 900})
    seek(page, 1)
    page.page.wait_for_function("width => document.documentElement.scrollWidth <= width", arg=width)
    box = part(page, "svg").bounding_box()
    assert box and 300 < box["width"] <= width
