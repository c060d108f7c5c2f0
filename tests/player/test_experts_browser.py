"""The views of routing: experts over tokens with the union of what was read together, and tokens and experts on
devices; what they count against the record, on a wide page, a narrow one and a dark one."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import engines
from engines.core.recording import pack_placement
from engines.core.trace import Routing, Trace, pack
from engines.core.trace.packed import Packed
from tests.player.pictures import INSIDE

Open = Callable[..., Any]
Call = Callable[..., Any]
PROMPT = "python: class Robot(size: int, owner: str)"


def plain(packed: Packed) -> dict[str, Any]:
    return {"dtype": packed.dtype, "shape": packed.shape, "data": packed.data, "lo": packed.lo, "hi": packed.hi}


def entry(routing: Routing) -> dict[str, Any]:
    return {
        "kind": routing.kind,
        "positions": routing.positions,
        "layers": routing.layers,
        "chosen": plain(routing.chosen),
        "weights": None,
        "units": routing.units,
        "role": routing.role,
    }


def routed(chosen: list[list[int]], positions: list[int]) -> dict[str, Any]:
    return entry(Routing("expert", positions, [2], pack(np.array(chosen)[:, None, :]), units=6))


def test_what_a_layer_used(js: Call) -> None:
    source = "(({ found, units }) => ({ found: [...found], units }))(M.used(entries, layer))"
    found = js("views/used.js", source, entries=[routed([[1, 4], [4, -1]], [7, 8])], layer=2)
    assert found == {"found": [[7, [[1, 1], [4, 1]]], [8, [[4, 1]]]], "units": 6}
    assert js("views/used.js", source, entries=[routed([[1, 4]], [7])], layer=3)["found"] == []
    share = js("views/used.js", "[...M.together(c)]", c=[[[1, 1], [4, 1]], [[4, 1]]])
    assert share == [[1, 0.5], [4, 1]]


def test_by_chance_as_many_are_used_and_the_mean_union_is_exact(js: Call) -> None:
    counts = [4, 1, 6, 0, 9]
    pairs = [[[unit, 1.0] for unit in range(count)] for count in counts]
    mean = js("views/used.js", "M.expected(pairs, 32)", pairs=pairs)
    assert mean == pytest.approx(32 * (1 - math.prod(1 - count / 32 for count in counts)))
    source = "Array.from({length: 400}, (_, i) => pairs.map((p, j) => M.drawn(p, 5 * i + j, 32).map(([unit]) => unit)))"
    trials = js("views/used.js", source, pairs=pairs)
    for trial in trials:
        assert [len(set(units)) for units in trial] == counts
    unions = [len({unit for units in trial for unit in units}) for trial in trials]
    assert sum(unions) / 400 == pytest.approx(mean, abs=0.5)
    often = np.bincount([unit for trial in trials for units in trial for unit in units], minlength=32)
    assert often.min() > 0.7 * often.mean() and often.max() < 1.3 * often.mean()


def test_lines_that_stay_and_what_devices_compute(js: Call) -> None:
    homes = entry(pack_placement([np.array([0, 1])], [2], [7, 8]))
    experts = entry(pack_placement([np.array([0, 0, 0, 1, 1, 1])], [2], range(6), "experts"))
    steps = [{"routing": [experts]}, {"routing": [routed([[1, 4], [4, -1]], [7, 8]), homes]}]
    found = js("views/places.js", "M.counted(M.placed(steps, t, 2))", steps=steps, t=2)
    assert found == {"all": 3, "local": 2, "visits": 1, "load": [1, 2]}
    assert js("views/places.js", "M.placed(steps, 1, 2).tokens", steps=steps) == []


def test_ordinary_places_are_those_that_the_engine_compares_with(js: Call) -> None:
    trace = engines.run("speculative-moe", "tiny-moe", "story: Mia, boat, lamp", params={"max_new_tokens": 8})
    steps = json.loads(trace.to_json())["steps"]
    for t, step in enumerate(trace.steps, 1):
        call = "[0, 1, 2, 3].map((layer) => M.counted(M.ordinary(M.placed(steps, t, layer))))"
        usual = js("views/places.js", call, steps=steps, t=t)
        ours = js("views/places.js", call.replace("M.ordinary(M.placed(steps, t, layer))", "M.placed(steps, t, layer)"),
                  steps=steps, t=t)  # fmt: skip
        calls = sum(one["all"] for one in usual)
        assert sum(one["local"] for one in usual) / calls == pytest.approx(step.facts["lar_ordinary"])
        assert sum(one["local"] for one in ours) / calls == pytest.approx(step.facts["lar"])
        moved, ordinary = (sum(one["visits"] for one in side) for side in (ours, usual))
        assert ordinary * step.facts["bytes_moved"] == moved * step.facts["bytes_moved_ordinary"]
    last = js("views/places.js", "M.gathered(steps, 8, 0, 5)", steps=steps)["tokens"]
    n = len(trace.header.prompt_ids) + 7
    assert [one["position"] for one in last] == list(range(n - 5, n))


@pytest.fixture(scope="module")
def chunks() -> Trace:
    return engines.run("blockffn", "tiny-blockffn", PROMPT, params={"max_new_tokens": 32})


@pytest.fixture(scope="module")
def spread() -> Trace:
    return engines.run("speculative-moe", "tiny-moe", "story: Mia, boat", params={"max_new_tokens": 8})


LOOKS = [{}, *({"viewport": {"width": width, "height": 800}} for width in (820, 390)), {"color_scheme": "dark"}]


@pytest.mark.parametrize("options", LOOKS)
def test_the_union_of_a_step_is_that_of_the_record(opened: Open, chunks: Trace, options: dict[str, Any]) -> None:
    page = opened([chunks], folded=True, **options).page
    view = page.locator('[data-view="Experts"]')
    view.locator("select").select_option("0")
    for t, step in enumerate(chunks.steps, 1):
        page.evaluate("t => handles[0].seek(t)", t)
        chosen = step.routing[0].chosen.array()[:, 0]
        union = len({int(e) for e in chosen.ravel() if e >= 0})
        said = view.locator(".dx-readout").first.inner_text()
        assert f"{len(chosen)} tokens together use {union} of 32 experts" in said
        assert view.locator("svg.dx-tower").evaluate(INSIDE) == 0
        heading = "1 token reads" if len(chosen) == 1 else f"{len(chosen)} tokens together read"
        words = " ".join(view.locator("svg.dx-tower text:visible").all_text_contents())
        assert f"{heading} {union} of 32 experts" in words
        beside = step.routing[1].chosen.array()[:, 0]
        assert f": {len({int(e) for e in beside.ravel()})} of 32" in words.replace(f"{union} of 32 experts", "")
    page.evaluate("handles[0].seek(2)")
    assert not page.locator('[data-view="Exchange"]').is_visible()
    seen = []
    for width in (1, 8, 32):
        view.locator("input[type=range]").fill(str(width))
        seen.append(int(view.locator(".dx-readout").first.inner_text().split(" use ")[1].split(" of ")[0]))
    assert seen == sorted(seen) and seen[0] < seen[-1]
    view.get_by_role("button", name="as recorded").click()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("options", LOOKS)
def test_calls_that_stay_are_those_of_the_record(opened: Open, spread: Trace, options: dict[str, Any]) -> None:
    page = opened([spread], folded=True, **options).page
    view, local, every = page.locator('[data-view="Exchange"]'), 0, 0
    for layer in range(4):
        view.locator("select").select_option(str(layer))
        page.evaluate("handles[0].seek(1)")
        words = view.locator(".dx-readout").first.inner_text().split()
        local, every = local + int(words[5]), every + int(words[7])
    for t in range(len(spread.steps) + 1):
        page.evaluate("t => handles[0].seek(t)", t)
        assert view.locator("svg.dx-tower").evaluate(INSIDE) == 0
    view.get_by_role("button", name="regroup").click()
    assert every == spread.steps[0].facts["pairs"]
    assert local / every == pytest.approx(spread.steps[0].facts["lar"])
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
