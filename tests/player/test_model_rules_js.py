"""What pictures of layers, caches, workers and devices work out from a record is what the engine means by it."""

import json
import math
import operator
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx

import engines
from engines.core.recording import pack_placement
from engines.core.trace import Routing, pack
from engines.methods.system.lean_attention.partition import SCHEDULES, makespan, plans, schedule
from engines.studies.decoding_cost import Pipeline
from explorer.figures.handed import shown
from tests.player.pictures import plain

Call = Callable[..., Any]


def bar(track: str, start: float, end: float, kind: str, **about: int) -> dict[str, Any]:
    """A measured interval in seconds."""
    return {"track": track, "start": start, "end": end, "kind": kind, "about": about}


def test_a_part_that_is_most_of_it_is_cut_off_below(js: Call) -> None:
    for ends, ground in (((900, 1000), 900), ((400, 1000), 0), ((900,), 0), ((), 0)):
        parts = [{"start": a, "end": b} for a, b in zip((0, *ends), ends, strict=False)]
        assert js("views/arena.js", "M.ground(parts)", parts=parts) == ground


@pytest.mark.parametrize("params", [{"slots": 1}, {"slots": 3}, {"slots": 3, "window": 0}], ids=str)
def test_caches_hold_with_other_slots_what_a_run_with_them_holds(js: Call, params: dict[str, Any]) -> None:
    prompt = "python: class Boat(name: str, speed: int, crew: int)"
    mine, other = (
        engines.run("read-me", "tiny-ar-m", prompt, params={"max_new_tokens": 6, **params, "slots": slots})
        for slots in (2, params["slots"])
    )
    call = "(({ held }) => held)(M.readOf(dxModules.use('player/store.js').Run.from(trace), n, c, names))"
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


def test_layers_that_a_modelled_order_does_at_once_are_found(js: Call) -> None:
    def made(track: str, start: float, kind: str, **about: int) -> dict[str, Any]:
        return {**bar(track, start, start + 1, kind, **about), "measured": False}

    shown = [made(f"device {n}", 1.0, "attention", layer=n + 1) for n in (1, 2, 3)]
    shown += [made("device 1", 2.0, "feed-forward", layer=2), made("device 1", 3.0, "attention", layer=5)]
    shown += [made("x", 3.0, "head"), bar("one device", 1.0, 2.0, "attention", layer=2)]
    shown += [made("device 1", 4.0, "branches", mark=1), made("device 2", 4.0, "branches", mark=2)]
    (group,) = js("views/schedulerows.js", "M.together(shown)", shown=shown)
    assert (group["begin"], group["end"], group["first"], group["last"]) == (1.0, 2.0, 2, 4)
    assert (group["from"]["track"], group["to"]["track"]) == ("device 1", "device 3")
    assert js("views/schedulerows.js", "M.together([])") == []


TURN = [
    bar("attention", 1.0, 3.0, "microbatch", microbatch=1, layer=1),
    bar("attention", 3.0, 5.0, "microbatch", microbatch=2, layer=1),
    bar("feed-forward", 4.0, 5.5, "microbatch", microbatch=1, layer=1),
    bar("feed-forward", 6.0, 9.0, "microbatch", microbatch=2, layer=1),
    bar("attention", 0.0, 20.0, "attention", layer=1),  # no part of a microbatch
    bar("links", 0.0, 20.0, "microbatch", microbatch=1, layer=1),
]


def test_a_turn_is_as_long_as_its_parts_and_both_sides_work_where_they_overlap(js: Call) -> None:
    found = js("views/stages.js", "M.turn({intervals})", intervals=TURN)
    assert (found["start"], found["long"], len(found["parts"])) == (1.0, 8.0, 4)
    assert found["busy"] == [4 / 8, 4.5 / 8] and (found["both"], found["waited"]) == (1 / 8, 1.0)
    assert js("views/stages.js", "M.turn({intervals})", intervals=TURN[4:]) is None
    sizes = js("views/stages.js", "M.durations([M.turn({intervals})])", intervals=TURN)
    assert sizes == {"layers": 1, "m": 2, "a": 2.0, "f": 3.0, "out": 1.0, "back": 1.0}
    assert set(js("views/stages.js", "M.durations([])").values()) == {0}


def test_readers_stand_by_what_they_read_with_the_middle_of_their_times(js: Call) -> None:
    def step(n: int, long: float) -> dict[str, Any]:
        told = [{"name": "MFA", "bytes": 10 * n, "operations": 40 * n}]
        told += [{"name": "MHA", "bytes": 40 * n, "operations": 20 * n}]
        parts = [bar("MFA", 0, long, "attention", layer=1), bar("MFA", long, 9, "feed-forward", layer=1)]
        return {
            "readers": {"copies": 4, "readers": told},
            "intervals": [*parts, bar("MFA", 9, 9 + long, "attention", layer=2)],
        }

    steps = [step(1, 1.0), step(2, 4.0), step(3, 2.0)]
    first, last = js("views/stages.js", "M.readers(steps, 2)", steps=steps)
    assert (first["name"], first["bytes"], first["most"], first["intensity"]) == ("MHA", 80, 120, 0.5)
    assert (last["name"], last["bytes"], last["most"], last["intensity"]) == ("MFA", 20, 30, 4)
    assert last["middle"] == 8.0
    assert js("views/stages.js", "M.readers(steps, 3)", steps=steps)[1]["middle"] == 4.0


TIMES = st.floats(1, 500)


@settings(deadline=None)
@given(st.integers(1, 6), st.integers(1, 5), TIMES, TIMES, TIMES, TIMES)
def test_the_modelled_bars_are_those_of_the_study(
    js: Call, layers: int, m: int, a: float, f: float, out: float, back: float
) -> None:
    sizes = {"layers": layers, "m": m, "a": a, "f": f, "out": out, "back": back}
    made, found = Pipeline(layers, m, a, f, out, back), js("views/stages.js", "M.flow(sizes)", sizes=sizes)
    assert found["long"] == approx(made.step) and found["busy"] == [approx(made.busy(a)), approx(made.busy(f))]
    begins = [start for stage in made.stages() for start in (stage.attention, stage.ffn)]
    assert [one["start"] for one in found["parts"]] == approx(begins)
    assert js("views/stages.js", "M.flow(sizes, true).long", sizes=sizes) == approx(layers * m * (a + f))


FACTS = {"slot_bytes": 10, "always_bytes": 100, "router_bytes": 5, "expert_bytes": 20, "dense_bytes": 101}


def entry(routing: Routing) -> dict[str, Any]:
    """As the page reads it."""
    made = msgspec.to_builtins(routing)
    return {"weights": None, "role": "", **made}


def step(slots: list[list[int]], experts: list[list[int]], positions: list[int]) -> dict[str, Any]:
    def made(kind: str, role: str, chosen: list[list[int]], units: int) -> dict[str, Any]:
        values = np.array(chosen)[:, None, :]
        weights = None if role else pack(np.where(values % 2, -1.0, 1.0), -1.0, 1.0)
        return entry(Routing(kind, positions, [2], pack(values), weights, units, role))  # type: ignore[arg-type]

    both = [made("memory", role, [[0, 1]] * len(positions), 4) for role in ("rows", "columns")]
    return {"routing": [made("memory", "", slots, 16), *both, made("expert", "mixture", experts, 8)]}


def test_what_is_gathered_forgets_places_that_are_written_again(js: Call) -> None:
    steps = [
        step([[1, 4], [4, 6]], [[3, -1], [5, 7]], [0, 1]),
        step([[9, 4]], [[3, 5]], [2]),
        step([[8, 4]], [[0, 1]], [1]),
    ]
    told = "[found.map(([p, o]) => [p, o.layers[0].map(([u]) => u), o.experts[0]]), K, layers]"
    source = f"(({{ found, K, layers }}) => {told})(M.gathered(steps, t))"
    two, three = (js("views/slotsky.js", source, steps=steps, t=t) for t in (2, 3))
    assert two == [[[0, [1, 4], [3]], [1, [4, 6], [5, 7]], [2, [9, 4], [3, 5]]], 4, [2]]
    assert three[0] == [[0, [1, 4], [3]], [1, [8, 4], [0, 1]]]
    signs = js("views/slotsky.js", "M.gathered(steps, 1).found[0][1].layers[0].map(([, w]) => w)", steps=steps)
    assert signs == pytest.approx([-1, 1], abs=0.01)
    found = js("views/slotsky.js", "M.growth(M.gathered(steps, 2).found, facts)", steps=steps, facts=FACTS)
    assert found == [[120, 45, 101], [130, 65, 101], [140, 65, 101]], "bytes of the last tokens' union"
    alone = {name: FACTS[name] for name in ("slot_bytes", "always_bytes")}
    assert js("views/slotsky.js", "M.growth(M.gathered(steps, 1).found, f)", steps=steps, f=alone) == [[120], [130]]
    assert js("views/slotsky.js", "M.alike(M.gathered(steps, 2).found)", steps=steps) == [1, 1]


def routed(chosen: list[list[int]], positions: list[int]) -> dict[str, Any]:
    return entry(Routing("expert", positions, [2], pack(np.array(chosen)[:, None, :]), units=6))


def test_what_a_layer_used(js: Call) -> None:
    source = "(({ found, units }) => ({ found: [...found], units }))(M.used(entries, layer))"
    found = js("views/routed.js", source, entries=[routed([[1, 4], [4, -1]], [7, 8])], layer=2)
    assert found == {"found": [[7, [[1, 1], [4, 1]]], [8, [[4, 1]]]], "units": 6}
    assert js("views/routed.js", source, entries=[routed([[1, 4]], [7])], layer=3)["found"] == []
    share = js("views/routed.js", "[...M.together(c)]", c=[[[1, 1], [4, 1]], [[4, 1]]])
    assert share == [[1, 0.5], [4, 1]]


def test_by_chance_as_many_are_used_and_the_mean_union_is_exact(js: Call) -> None:
    counts = [4, 1, 6, 0, 9]
    pairs = [[[unit, 1.0] for unit in range(count)] for count in counts]
    mean = js("views/routed.js", "M.expected(pairs, 32)", pairs=pairs)
    assert mean == pytest.approx(32 * (1 - math.prod(1 - count / 32 for count in counts)))
    source = "Array.from({length: 400}, (_, i) => pairs.map((p, j) => M.drawn(p, 5 * i + j, 32).map(([unit]) => unit)))"
    trials = js("views/routed.js", source, pairs=pairs)
    for trial in trials:
        assert [len(set(units)) for units in trial] == counts
    unions = [len({unit for units in trial for unit in units}) for trial in trials]
    assert sum(unions) / 400 == pytest.approx(mean, abs=0.5)
    often = np.bincount([unit for trial in trials for units in trial for unit in units], minlength=32)
    assert often.min() > 0.7 * often.mean() and often.max() < 1.3 * often.mean()


PLACES = "[M.ordinary, (one) => one].map((as) => [0, 1, 2, 3].map((i) => M.counted(as(M.placed(steps, t, i)))))"


def test_places_of_lines_are_those_that_the_engine_compares_with(js: Call) -> None:
    homes = entry(pack_placement([np.array([0, 1])], [2], [7, 8]))
    experts = entry(pack_placement([np.array([0, 0, 0, 1, 1, 1])], [2], range(6), "experts"))
    made = [{"routing": [experts]}, {"routing": [routed([[1, 4], [4, -1]], [7, 8]), homes]}]
    found = js("views/routed.js", "M.counted(M.placed(steps, 2, 2))", steps=made)
    assert found == {"all": 3, "local": 2, "visits": 1, "load": [1, 2]}
    trace = engines.run("speculative-moe", "tiny-moe", "story: Mia, boat, lamp", params={"max_new_tokens": 8})
    steps = plain(trace)
    for t, step in enumerate(trace.steps, 1):
        usual, ours = js("views/routed.js", PLACES, steps=steps, t=t)
        calls = sum(one["all"] for one in usual)
        assert sum(one["local"] for one in usual) / calls == pytest.approx(step.facts["lar_ordinary"])
        assert sum(one["local"] for one in ours) / calls == pytest.approx(step.facts["lar"])
        moved, ordinary = (sum(one["visits"] for one in side) for side in (ours, usual))
        assert ordinary * step.facts["bytes_moved"] == moved * step.facts["bytes_moved_ordinary"]
    last = js("views/routed.js", "M.gathered(steps, 8, 0, 5)", steps=steps)["tokens"]
    n = len(trace.header.prompt_ids) + 7
    assert [one["position"] for one in last] == list(range(n - 5, n))
