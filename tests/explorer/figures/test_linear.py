"""What a trace from anywhere may cost: the time of every figure grows as the trace does, whatever it is full of."""

import contextlib
import gc
import json
import math
import time

import msgspec
import pytest

from engines import Trace, TraceError, UserError
from engines.core.trace import reading
from explorer.export.events import events_csv
from explorer.export.figures import VIEWS, figure
from explorer.figures import handed, strip
from explorer.figures.arrivals import laps
from explorer.figures.clock import confidence_by_step
from explorer.figures.compare import certificate
from explorer.figures.hindsight import hindsight, summary
from explorer.figures.metrics import measure
from explorer.figures.verdict import judge
from explorer.page import tables
from tests.explorer.figures.lookback import looked
from tests.explorer.figures.maximal import GROUPS, maximal

COMPUTED = {
    "reading": lambda trace: Trace.from_json(trace.to_json()),
    "numbers": measure,
    "hindsight": lambda trace: summary(hindsight(trace)),
    "mark": judge,
    "handed to the player": handed.of_run,
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


def seconds(name: str, trace: Trace) -> float:
    """Of the processor, for one figure of a trace, a refused one too."""
    began = time.process_time()
    with contextlib.suppress(UserError):
        COMPUTED[name](trace)
    return time.process_time() - began


def slower(name: str, short: Trace, longer: Trace, rounds: int = 5) -> tuple[float, float] | None:
    """The least seconds of both traces where the longer one costs more than its length explains, else None. A neighbour
    makes one run slow, never all: what looks slow is run again. A cost that grows with the square stays slow."""
    fewest = math.inf, math.inf
    for _ in range(rounds):
        fewest = min(fewest[0], seconds(name, short)), min(fewest[1], seconds(name, longer))
        if fewest[1] <= max(FEW, 3 * TIMES * max(fewest[0], 0.002)):
            return None
    return fewest


@pytest.mark.timing
@pytest.mark.parametrize("long", [False, True], ids=["one step", "many steps"])
@pytest.mark.parametrize("group", GROUPS)
def test_a_trace_that_is_longer_costs_as_many_times_as_much(group, long):
    gc.disable()  # it would count all that other tests left
    try:
        first, short, longer = (maximal(group, length, long) for length in (LENGTH // 10, LENGTH, LENGTH * TIMES))
        for name in COMPUTED:
            seconds(name, first)  # what is loaded at first use
        slow = {name: found for name in COMPUTED if (found := slower(name, short, longer))}
    finally:
        gc.enable()
    assert not slow


LANE = {"start": 0.0, "end": 1.0}
NAMES = [f"n{i}" for i in range(reading.MAX_NAMES + 1)]


@pytest.mark.parametrize(
    ("full", "said"),
    [
        ({"intervals": [{"track": "l", **LANE}] * (reading.MAX_INTERVALS + 1)}, "step 0 has .* intervals"),
        ({"intervals": [{"track": name, **LANE} for name in NAMES]}, "tracks"),
        ({"forwards": dict.fromkeys(NAMES, 1)}, "roles of models"),
        ({"choice": {**GROUPS["choice"](1)["choice"], "options": NAMES}}, "options"),
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
