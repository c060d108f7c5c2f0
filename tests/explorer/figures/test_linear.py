"""What a trace from anywhere may cost: the time of every figure grows as the trace does, whatever it is full of."""

from __future__ import annotations

import contextlib
import gc
import json
import time

import msgspec
import pytest

from engines import Trace, TraceError, UserError
from engines.core.trace import reading
from explorer.export.events import events_csv
from explorer.export.figures import VIEWS, figure
from explorer.figures import board, strip
from explorer.figures.arrivals import laps
from explorer.figures.compare import certificate
from explorer.figures.curves import confidence_by_step
from explorer.figures.hindsight import hindsight, summary
from explorer.figures.metrics import measure
from explorer.figures.verdict import judge
from explorer.figures.work import lasting, work
from explorer.page import tables
from tests.explorer.figures.lookback import invented, looked
from tests.explorer.figures.maximal import GROUPS, lanes, maximal

FIGURES = {
    "numbers": measure,
    "hindsight": lambda trace: summary(hindsight(trace)),
    "mark": judge,
    "growth": lambda trace: [*board.growth(trace)],
    "confidence": confidence_by_step,
    "laps": laps,
    "strip": lambda trace: strip.parts(trace, trace),
    "certificate": lambda trace: certificate(trace, trace),
    "tables": lambda trace: tables.numbers({0: trace}) + tables.results({0: trace}),
    "events": lambda trace: events_csv([trace]),
    **{f"figure {view}": (lambda trace, view=view: figure(trace, view=view)) for view in VIEWS},
}
LENGTH, TIMES = 80_000, 8  # characters of the shorter trace, and how many times as long the other one is
FEW = 0.2  # seconds in which nothing can be told


def seconds(trace: Trace) -> dict[str, float]:
    """Of reading the trace and of each figure, refused ones too."""
    found, text = {}, trace.to_json()
    for name, compute in {"reading": lambda _: Trace.from_json(text), **FIGURES}.items():
        took: list[float] = []
        while len(took) < 2 and (not took or took[0] > FEW):
            began = time.process_time()
            with contextlib.suppress(UserError):
                compute(trace)
            took.append(time.process_time() - began)
        found[name] = min(took)
    return found


@pytest.mark.timing
@pytest.mark.parametrize("long", [False, True], ids=["one step", "many steps"])
@pytest.mark.parametrize("group", GROUPS)
def test_a_trace_that_is_longer_costs_as_many_times_as_much(group, long):
    gc.disable()  # it would count all that other tests left
    try:
        seconds(maximal(group, LENGTH // 10, long))  # what is loaded at first use
        short, longer = (seconds(maximal(group, LENGTH * times, long)) for times in (1, TIMES))
    finally:
        gc.enable()
    slow = {name: (short[name], s) for name, s in longer.items() if s > max(FEW, 3 * TIMES * max(short[name], 0.002))}
    assert not slow, slow


@pytest.mark.parametrize("seed", range(40))
def test_growth_counts_what_stands_after_each_step(seed):
    trace = invented(seed)
    start = len(trace.header.prompt_ids)
    wanted = [board.gained(trace, found[start:]) for found in board.boards(trace)]
    assert [*board.growth(trace)] == wanted


def test_growth_counts_ends_and_cuts():
    turns = [({}, [(2, 3), (4, 7)]), ({}, [(3, 4)]), ({}, [(4, 5), (9, 3)]), ({}, [(3, -1)]), ({}, [(0, -1), (2, 7)])]
    for canvas in (None, 12):
        trace = looked(turns, canvas=canvas)
        wanted = [board.gained(trace, found[2:]) for found in board.boards(trace)]
        assert [*board.growth(trace)] == wanted and wanted[1:4] == [1, 2, 4]


def test_many_lanes_in_a_step_overlap_as_one_by_one():
    body = msgspec.to_builtins(looked([({}, [])]))
    body["steps"][0] |= {"model_seconds": 1.0} | lanes(300)
    body["steps"][0]["intervals"] += [{"track": "l1: part", "about": {"part_of": "l1"}, "start": 0.0, "end": 0.5}]
    trace = Trace.from_json(json.dumps(body))
    done, calls = work(trace), trace.steps[0].intervals[:300]
    assert set(done.rows) == {call.track for call in calls}
    assert done.at_once == lasting([(call.start, call.end) for call in calls], 2)


@pytest.mark.parametrize(
    ("full", "said"),
    [
        (
            {"intervals": [{"track": "l", "start": 0.0, "end": 1.0}] * (reading.MAX_INTERVALS + 1)},
            "step 0 has .* intervals",
        ),
        ({"intervals": [{"track": f"l{i}", "start": 0.0, "end": 1.0} for i in range(reading.MAX_NAMES + 1)]}, "tracks"),
        ({"forwards": {f"r{i}": 1 for i in range(reading.MAX_NAMES + 1)}}, "roles of models"),
        (
            {"choice": {**GROUPS["choice"](1)["choice"], "options": [f"o{i}" for i in range(reading.MAX_NAMES + 1)]}},
            "options",
        ),
    ],
)
def test_more_rows_than_a_table_takes_are_refused(full, said):
    body = msgspec.to_builtins(looked([({}, [])]))
    body["steps"][0] |= full
    with pytest.raises(TraceError, match=rf"{said}.*at most [\d,]+ are read"):
        Trace.from_json(json.dumps(body))


def test_a_figure_refuses_more_spans_than_it_can_show():
    with pytest.raises(UserError, match="spans of"):
        figure(maximal("spans", 20_000, False), view="step")
