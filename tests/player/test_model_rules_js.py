"""What pictures make of a plan, or of other slots, is what the engine means by it."""

import json
import operator
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx

import engines
from engines.methods.system.lean_attention.partition import SCHEDULES, makespan, plans, schedule
from engines.studies.decoding_cost import Pipeline
from explorer.figures.handed import shown

Call = Callable[..., Any]


@pytest.mark.parametrize("params", [{"slots": 1}, {"slots": 3}, {"slots": 3, "window": 0}], ids=str)
def test_caches_hold_with_other_slots_what_a_run_with_them_holds(js: Call, params: dict[str, Any]) -> None:
    prompt = "python: class Boat(name: str, speed: int, crew: int)"
    mine, other = (
        engines.run("read-me", "tiny-ar-m", prompt, params={"max_new_tokens": 6, **params, "slots": slots})
        for slots in (2, params["slots"])
    )
    call = "(({ held }) => held)(M.readOf(dxModules.use('player/run.js').Run.from(trace), n, c, names))"
    given = {"n": len(mine.steps), "c": params["slots"], "names": mine.steps[0].choice.options}
    held = (js("views/shelves.js", call, trace=json.loads(shown(trace)), **given) for trace in (mine, other))
    ordered = ([sorted(rule, key=operator.itemgetter("start", "slot")) for rule in both] for both in held)
    assert next(ordered) == next(ordered)


def test_pieces_of_a_plan_stand_where_the_schedule_has_them(js: Call) -> None:
    for h, t, W in ((3, 32, 10), (1, 1, 2), (8, 7, 3)):
        made = {one["name"]: one for one in js("views/tiles.js", "M.modelled(plans, t)", plans=plans(h, t, W), t=t)}
        for kind in SCHEDULES:
            pieces = schedule(kind, [t] * h, W)
            assert made[kind]["long"] == makespan(pieces) and made[kind]["tiles"] == h * t
            assert [(p["worker"] - 1, p["head"] - 1, p["first"] - 1, p["last"]) for p in made[kind]["pieces"]] == pieces


TIMES = st.floats(1, 500)


@settings(deadline=None)
@given(st.integers(1, 6), st.integers(1, 5), TIMES, TIMES, st.just(0.0) | TIMES, st.just(0.0) | TIMES)
def test_the_modelled_bars_are_those_of_the_study(
    js: Call, layers: int, m: int, a: float, f: float, out: float, back: float
) -> None:
    sizes = {"layers": layers, "m": m, "a": a, "f": f, "out": out, "back": back}
    made, found = Pipeline(layers, m, a, f, out, back), js("views/stages.js", "M.flow(sizes)", sizes=sizes)
    assert found["long"] == approx(made.step) and found["busy"] == [approx(made.busy(a)), approx(made.busy(f))]
    begins = [start for stage in made.stages() for start in (stage.attention, stage.ffn)]
    assert [one["start"] for one in found["parts"]] == approx(begins)
    assert js("views/stages.js", "M.flow(sizes, true).long", sizes=sizes) == approx(layers * m * (a + f))
