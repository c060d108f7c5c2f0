"""The view of a scene: what it says and draws at each stage, on the short track and on the long one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from engines.core.trace import Box, Commits, End, Piece, Step, Trace, pack
from engines.methods.multimodal._scene import Reading, Scene
from tests.player.handmade import header, records
from tests.player.pictures import INSIDE

Open = Callable[..., Any]
LETTERS = [Piece(0, "<end>", "special"), *(Piece(i, chr(96 + i)) for i in range(1, 27))]
CAPTION = "a cafe with a red awning"
PICTURE, MASK = pack(np.full((16, 96), 0.5), 0.0, 1.0), pack(np.eye(16, 32), 0.0, 1.0)


def scene(bypass: bool) -> Trace:
    whole, box = Reading("picture", "xq", 0.1), Reading("box 1", "cafe", 0.7)
    told = [
        Reading("picture", "xq", 0.1, 0.4, 0.2, 0.32, "a"),
        Reading("box 1", "cafe", 0.7, 0.9, 1.0, 0.94 if bypass else 0.6, "cafe", True),
    ]
    score = Scene("score", caption=CAPTION, readings=told, tau=0.8, bypass=bypass)
    score.answer, score.source = ("cafe", "T3") if bypass else ("", "")
    stages = [
        Scene("segment", PICTURE, MASK, [Box(2, 4, 6, 20, "box 1")]),
        Scene("caption", caption=CAPTION),
        Scene("read", readings=[whole, box]),
        score,
    ]
    for i in range(0 if bypass else 5):
        heavy = [Reading("box 1", "cape", 0.4, chosen=True), Reading("window 1", "", 0.9)]
        last = i == 4
        stages.append(Scene("heavy", readings=heavy, answer="cape" if last else "", source="heavy" if last else ""))
    steps = []
    for i, stage in enumerate(stages):
        step = Step(i, {"reader": 1}, 1, 0.01, 0.001, {"reader": 2}, records=records(scene=stage))
        if stage.answer:
            step.commits = Commits([4 + k for k in range(5)], [3, 1, 6 if bypass else 16, 5, 0], ["place"] * 5)
        steps.append(step)
    top = header("context-str", "Context-STR", "multimodal")
    top.prompt_ids, top.eos_ids = [3, 1, 16, 5], [0]
    text = "cafe" if bypass else "cape"
    return Trace(top, steps, LETTERS, End("complete", steps[-1].commits.tokens, text, 0.1, 0.01))


def part(page: Any, selector: str) -> Any:
    return page.page.locator(f'[data-view="Scene"] {selector}')


def said(page: Any) -> str:
    return part(page, ".dx-readout").first.text_content()


def seek(page: Any, step: int) -> None:
    page.page.evaluate("step => handles[0].seek(step)", step)


def texts(page: Any) -> list[str]:
    return part(page, "svg text").all_text_contents()


def test_the_stages_one_by_one(opened: Open) -> None:
    page = opened([scene(True)])
    assert part(page, "canvas").is_visible() and said(page) == "Nothing was looked at yet." and texts(page) == []
    for step, words in ((1, "Boxes with words: 1."), (2, "The caption is being written."), (3, "Light: xq, cafe.")):
        seek(page, step)
        assert said(page) == words
    assert {"p 0.7", "Light reading, with its chance p"} <= set(texts(page))
    seek(page, 4)
    assert said(page) == "Read: ‘cafe’, by T3, after step 4."
    assert {
        "threshold τ 0.8",
        "best C 0.94",
        "taken: cafe",
        "heavy reader: left out",
        "meaning S",
        "spelling L",
    } <= set(texts(page))
    assert part(page, "span[style*=border-bottom]").all_text_contents() == ["cafe"]


def test_the_long_track(opened: Open) -> None:
    page = opened([scene(False)])
    seek(page, 4)
    assert said(page) == "No reading fits well enough; the heavy reader reads."
    places = []
    for step in range(4, 10):
        seek(page, step)
        places.append(float(part(page, "circle").get_attribute("cx")))
    assert places == sorted(places) and places[0] < places[-1]
    assert "heavy reader: 5 of 5 turns" in texts(page) and "∅" not in texts(page)
    assert {"Light reading: does it fit the caption?", "C 0.6", "p 0.4"} <= set(texts(page)), (
        "both readings, each named"
    )
    assert said(page) == "Read: ‘cape’, by heavy, after step 9."


@pytest.mark.parametrize("width", [390, 1200])
def test_it_stays_in_the_page(opened: Open, width: int) -> None:
    page = opened([scene(False)])
    page.page.set_viewport_size({"width": width, "height": 900})
    seek(page, 9)
    page.page.wait_for_function("width => document.documentElement.scrollWidth <= width", arg=width)
    page.page.wait_for_function(
        """() => [...document.querySelectorAll('[data-view="Scene"] svg text')]
        .every((e) => parseFloat(getComputedStyle(e).fontSize) * e.getScreenCTM().a >= 12)"""
    )
    assert part(page, "svg").evaluate(INSIDE) == 0
    box = part(page, "canvas").bounding_box()
    assert box and 200 < box["width"] <= 560
