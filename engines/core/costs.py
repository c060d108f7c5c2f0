"""What a forward of n rows costs on this machine, for methods that bet by it: measured once, in units of one row.

The shortest of several turns counts for each number of rows, since whatever else runs on a machine only adds. The
table is kept for a model, its device and type, the processor and the number of threads; a few processes in turn make
it better, then it stays as it is. So a run can be repeated here, and bets otherwise on another machine, where it writes
the same text."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from engines.core.kinds import Model
from engines.core.lazy import torch
from engines.core.machine import machine
from engines.core.measure import RowClock
from engines.core.places import keep, kept
from engines.core.row_costs import KNOWN, RowCosts

SIZES = (1, 2, 4, 8, 16, 32)  # rows of the forwards that are measured
SECONDS = 0.5  # of a measurement; it ends behind the turn in which they pass
TURNS = 8  # so many, over all processes, make a table that stays
KEPT = "row-costs.json"


def row_costs_of(model: Model) -> RowCosts:
    """The table of a causal model on this machine, measured where none is known. Raises UserError as `RowClock`."""
    if (known := KNOWN.get(model)) is None:
        key = _key(model)
        known = _table(kept(KEPT).get(key))
        if known is None or known.turns < TURNS:
            known = measured(model, known)
            seconds = dict(zip(known.rows, known.seconds, strict=True))
            keep(KEPT, {**kept(KEPT), key: {"seconds": seconds, "turns": known.turns}})
        KNOWN[model] = known
    return known


def measured(model: Model, before: RowCosts | None = None, sizes: Sequence[int] = SIZES) -> RowCosts:
    """The table of a model, measured now; what was measured before counts along."""
    clock = RowClock(model, max(sizes))
    best = dict(zip(before.rows, before.seconds, strict=True)) if before else {}
    turns, began = before.turns if before else 0, time.perf_counter()
    clock.seconds(max(sizes))
    while True:  # sizes take turns, so that a busy moment hits all alike
        for n in sizes:
            best[n] = min(best.get(n, float("inf")), clock.seconds(n))
        turns += 1
        if time.perf_counter() - began > SECONDS:
            return RowCosts.of(best, turns)


def _key(model: Model) -> str:
    r = model.record
    form = f"{r.dtype} row-invariant" if r.options.get("row_invariant") else r.dtype
    weights, here = (r.name, r.sha256 or r.revision, form), (r.device, machine([r.device]), torch.get_num_threads())
    return " | ".join(map(str, (*weights, *here, torch.__version__)))


def _table(found: Any) -> RowCosts | None:
    """What stands in the file for a model; None where that is no table."""
    try:
        seconds = {int(n): float(s) for n, s in found["seconds"].items()}
        if set(seconds) == set(SIZES) and all(0 < s < float("inf") for s in seconds.values()):
            return RowCosts.of(seconds, int(found["turns"]))
    except (TypeError, ValueError, KeyError, AttributeError):
        pass
    return None
