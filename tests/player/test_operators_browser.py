"""The view of the operators: the frozen mark, maps that move, both texts with the first other token, both times."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from engines.core.trace import Commits, End, Interval, Step, Trace, pack
from engines.methods.architecture.pldr_llm.operators import Operator, Operators
from tests.player.handmade import header, records, table

Open = Callable[..., Any]
FIRST = np.linspace(-1, 1, 96).reshape(2, 3, 4, 4)


def maps(values: np.ndarray) -> Any:
    return pack(values, -1.5, 1.5)


def trace(parted: bool = True) -> Trace:
    steps = []
    for i in range(3):
        step = Step(i, {"target": 1}, 1, 0.01, 0.001, {"target": 2})
        step.commits = Commits([12 + i], [15 + i], ["greedy"])
        took = {"target": 0.002, "reference": 0.008 + 0.001 * i}
        step.intervals = [Interval(role, i, i + seconds, "forward") for role, seconds in took.items()]
        other = 20 if parted and i == 1 else 15 + i
        moved = FIRST * 0.1 * i
        decoders = [
            Operator("target", "own", i > 0, None if i else maps(FIRST)),
            Operator("reference", "own", False, None if i else maps(FIRST), maps(moved) if i else None, at=12 + i),
        ]
        decoders[1].tokens = [other]
        step.records = records(operators=Operators(decoders))
        steps.append(step)
    top = header("kept", "Kept", "architecture")
    return Trace(top, steps, table(), End("complete", [15, 16, 17], "", 0.1, 0.01))


def part(page: Any, selector: str) -> Any:
    return page.page.locator(f'[data-view="Operators"] {selector}')


def seek(page: Any, step: int) -> None:
    page.page.evaluate("step => handles[0].seek(step)", step)


def test_the_kept_maps_are_frozen_and_the_others_move(opened: Open) -> None:
    page = opened([trace()])
    seek(page, 1)
    stamps = part(page, "b")
    assert [stamps.nth(i).is_visible() for i in range(2)] == [False, False], "the first G was made"
    seek(page, 3)
    assert [stamps.nth(i).is_visible() for i in range(2)] == [True, False]
    names = part(page, "div > div:first-child > span").all_inner_texts()
    assert names == ["This decoder: G kept", "No cache: G made again; since the prompt it has moved"]
    assert part(page, "div > div + div > span").all_inner_texts() == [
        "layer 1",
        "layer 2",
        "layer 1: 20 %",
        "layer 2: 20 %",
    ]
    ran = part(page, "svg > g:nth-child(1) text").all_text_contents()
    assert ran == ["runs"] * 3 + ["runs", "skipped", "skipped"], "the decoder without a cache stands above"
    pictures = part(page, "canvas").evaluate_all("all => all.map(c => [c.width, c.height, c.toDataURL()])")
    assert [one[:2] for one in pictures] == [[38, 4]] * 2, "two layers of three maps, a wider gap between the layers"
    assert pictures[0][2] != pictures[1][2]
    seek(page, 1)
    before = part(page, "canvas").evaluate_all("all => all.map(c => c.toDataURL())")
    assert before[0] == before[1] == pictures[0][2]


@pytest.mark.parametrize("parted", [True, False])
def test_the_first_token_in_which_the_texts_differ_is_marked(opened: Open, parted: bool) -> None:
    page = opened([trace(parted)])
    seek(page, 3)
    marked = part(page, "svg > g:nth-child(4) g[data-s=rejected]").count()
    assert marked == parted
    said = part(page, ".dx-readout").first.inner_text()
    assert ("differ from token 2 on" in said) == parted and ("the same so far" in said) != parted
    assert "A token takes 2 ms, without a cache 9 ms" in said.replace(".00", "")


def test_both_times_are_drawn_up_to_the_step(opened: Open) -> None:
    page = opened([trace()])
    seek(page, 2)
    bars = part(page, "svg > g:nth-child(5) rect").evaluate_all("all => all.map(r => +r.getAttribute('height'))")
    assert len(bars) == 4 and min(bars[2:]) > max(bars[:2]), "the one without a cache is slower"
    seek(page, 0)
    assert part(page, ".dx-readout").first.inner_text() == "Nothing was read yet."
