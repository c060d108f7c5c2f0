"""The view of a memory's slots: what it gathers, counts and compares against the record, on a wide page, a narrow one
and a dark one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import expect

import engines
from engines.core.trace import Routing, Trace, pack
from tests.player.pictures import INSIDE

Open = Callable[..., Any]
Call = Callable[..., Any]
FACTS = {"slot_bytes": 10, "always_bytes": 100, "router_bytes": 5, "expert_bytes": 20, "dense_bytes": 101}


def entry(kind: str, role: str, chosen: list[list[int]], positions: list[int], units: int) -> dict[str, Any]:
    values = np.array(chosen)[:, None, :]
    weights = pack(np.where(values % 2, -1.0, 1.0), -1.0, 1.0) if not role else None
    one = Routing(kind, positions, [2], pack(values), weights, units, role)  # type: ignore[arg-type]
    plain = lambda packed: packed and {name: getattr(packed, name) for name in packed.__struct_fields__}  # noqa: E731
    made = {"kind": kind, "role": role, "positions": positions, "layers": [2], "units": units}
    return made | {"chosen": plain(one.chosen), "weights": plain(one.weights)}


def step(slots: list[list[int]], experts: list[list[int]], positions: list[int]) -> dict[str, Any]:
    both = [entry("memory", role, [[0, 1]] * len(positions), positions, 4) for role in ("rows", "columns")]
    found = [entry("memory", "", slots, positions, 16), *both, entry("expert", "mixture", experts, positions, 8)]
    return {"routing": found}


def test_what_is_gathered_forgets_places_that_are_written_again(js: Call) -> None:
    steps = [
        step([[1, 4], [4, 6]], [[3, -1], [5, 7]], [0, 1]),
        step([[9, 4]], [[3, 2]], [2]),
        step([[8, 4]], [[0, 1]], [1]),
    ]
    source = (
        "(({ found, K, layers }) => [found.map(([p, o]) => [p, o.layers[0].map(([u]) => u), o.experts[0]]), K, layers])"
    )
    two, three = (js("views/slotsread.js", f"{source}(M.gathered(steps, t))", steps=steps, t=t) for t in (2, 3))
    assert two == [[[0, [1, 4], [3]], [1, [4, 6], [5, 7]], [2, [9, 4], [3, 2]]], 4, [2]]
    assert three[0] == [[0, [1, 4], [3]], [1, [8, 4], [0, 1]]]
    signs = js("views/slotsread.js", "M.gathered(steps, 1).found[0][1].layers[0].map(([, w]) => w)", steps=steps)
    assert signs == pytest.approx([-1, 1], abs=0.01)


def test_bytes_of_the_last_tokens_are_those_of_their_union(js: Call) -> None:
    steps = [step([[1, 4], [4, 6]], [[3, -1], [5, 7]], [0, 1]), step([[9, 4]], [[3, 5]], [2])]
    found = js("views/slotsread.js", "M.growth(M.gathered(steps, 2).found, facts)", steps=steps, facts=FACTS)
    assert found == [[120, 45, 101], [130, 65, 101], [140, 65, 101]]
    alone = {name: FACTS[name] for name in ("slot_bytes", "always_bytes")}
    assert js("views/slotsread.js", "M.growth(M.gathered(steps, 1).found, f)", steps=steps, f=alone) == [[120], [130]]
    assert js("views/slotsread.js", "M.alike(M.gathered(steps, 2).found)", steps=steps) == [1, 1]


@pytest.fixture(scope="module")
def run() -> Trace:
    return engines.run("ultramem-v2", "tiny-ultramem", "fact: Ada Raven", params={"max_new_tokens": 12})


LOOKS = [{}, {"viewport": {"width": 390, "height": 800}}, {"color_scheme": "dark"}]


@pytest.mark.parametrize("options", LOOKS)
def test_the_sky_tells_what_the_record_tells(opened: Open, run: Trace, options: dict[str, Any]) -> None:
    page = opened([run], folded=True, **options).page
    view = page.locator('[data-view="Starfield"]')
    seen: list[set[int]] = [set(), set(), set(), set()]
    for t, one in enumerate(run.steps, 1):
        page.evaluate("t => handles[0].seek(t)", t)
        for layer in range(4):
            seen[layer] |= set(one.routing[0].chosen.array()[:, layer].ravel().tolist())
        told = view.locator("figcaption").all_inner_texts()
        assert told == [f"layer {layer}: {len(seen[layer])} read" for layer in range(4)]
    for layer in (3, 1):
        view.locator("button").nth(layer).click()
        last = [set(one.routing[0].chosen.array()[:, layer].ravel().tolist()) for one in run.steps[-3:]]
        experts = [set(one.routing[3].chosen.array()[:, layer].ravel().tolist()) - {-1} for one in run.steps[-3:]]
        view.locator("input[type=range]").fill("3")
        expect(view.locator("text", has_text=f"memory: {len(set.union(*last))} of 4489 slots")).to_be_visible()
        read = f"mixture of experts: {len(set.union(*experts))} of 32 experts"
        expect(view.locator("text", has_text=read)).to_be_visible()
        expect(view.locator("circle:visible")).to_have_count(16 * 5)
    assert [view.locator("svg").nth(i).evaluate(INSIDE) for i in range(6)] == [0] * 6
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
