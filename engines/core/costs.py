"""What a forward of n rows costs on this machine, for methods that bet by it: measured once, in units of one row.

The shortest of several turns counts for each number of rows, since whatever else runs on a machine only adds. The
table is kept for a model, its device and type, the processor and the number of threads; a few processes in turn make
it better, then it stays as it is. So a run can be repeated here, and bets otherwise on another machine, where it writes
the same text.

Where what was kept holds for something else or cannot be read, the table that is measured instead says so
(`RowCosts.warning`). So does one that was measured on a busy machine, and the next process measures it again."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from engines.core.kinds import Model
from engines.core.lazy import torch
from engines.core.machine import machine
from engines.core.measure import RowClock
from engines.core.places import is_damaged, keep, kept
from engines.core.row_costs import KNOWN, RowCosts

SIZES = (1, 2, 4, 8, 16, 32)  # rows of the forwards that are measured
SECONDS = 0.5  # of a measurement; it ends behind the turn in which they pass
TURNS = 8  # so many, over all processes, make a table that stays
KEPT = "row-costs-2.json"  # 2: of merged layers; tables of before are of slower forwards
BUSY = 1.5  # times the seconds in which the measuring thread ran that a measurement takes on a busy machine
SEPARATOR = " | "
# how a table was measured: what its key holds behind the model's name
WORDS = ("with other weights", "in {}", "on {}", "on another machine ({})", "with {} threads", "with torch {}")
ANEW = "so they were measured anew."


def row_costs_of(model: Model) -> RowCosts:
    """The table of a causal model on this machine, measured where none is known. Raises UserError as `RowClock`."""
    if (known := KNOWN.get(model)) is None:
        key, entries = _key(model), kept(KEPT)
        known = _table(entries.get(key))
        warning = "" if known else _not_kept(key, entries)
        if known is None or known.turns < TURNS:
            known = measured(model, known)
            seconds = dict(zip(known.rows, known.seconds, strict=True))
            keep(KEPT, {**kept(KEPT), key: {"seconds": seconds, "turns": known.turns}})
        KNOWN[model] = known = replace(known, warning=" ".join(filter(None, (warning, known.warning))))
    return known


def measured(model: Model, before: RowCosts | None = None, sizes: Sequence[int] = SIZES) -> RowCosts:
    """The table of a model, measured now; what was measured before counts along. On a busy machine it says so, and has
    too few turns to stay."""
    clock = RowClock(model, max(sizes))
    best = dict(zip(before.rows, before.seconds, strict=True)) if before else {}
    turns = before.turns if before else 0
    clock.seconds(max(sizes))
    began, ran = time.perf_counter(), time.thread_time()
    while True:  # sizes take turns, so that a busy moment hits all alike
        for n in sizes:
            best[n] = min(best.get(n, float("inf")), clock.seconds(n))
        turns += 1
        if (took := time.perf_counter() - began) > SECONDS:
            break
    warning = _busy(model.record.device, took, time.thread_time() - ran)
    return replace(RowCosts.of(best, min(turns, TURNS - 1) if warning else turns), warning=warning)


def _busy(device: str, took: float, ran: float) -> str:
    """A sentence where the thread that measured ran in too few of the seconds that it took: others had the processor.
    An accelerator computes while it waits."""
    if device != "cpu" or took <= BUSY * ran:
        return ""
    return (
        f"The machine was busy while row costs were measured (the measuring thread ran in {100 * ran / took:.0f} % of "
        "the time), so the bets may be off."
    )


def _key(model: Model) -> str:
    r = model.record
    name = f"{r.name} with row-invariant forwards" if r.options.get("row_invariant") else r.name
    weights, here = (name, r.sha256 or r.revision, r.dtype), (r.device, machine([r.device]), torch.get_num_threads())
    return SEPARATOR.join(map(str, (*weights, *here, torch.__version__)))


def _not_kept(key: str, entries: Mapping[str, Any]) -> str:
    """A sentence on why no table holds for `key`; none where nothing was kept for the model. Of several that hold for
    something else it names what the nearest is of."""
    if is_damaged(KEPT):
        return f"The file of the kept row costs ({KEPT}) is damaged, {ANEW}"
    name, *here = _fields(key)
    if key in entries:
        return f"The kept row costs of {name} are damaged, {ANEW}"
    others = [rest for own, *rest in map(_fields, entries) if own == name]
    differing: list[list[str]] = [
        [word.format(was) for word, was, now in zip(WORDS, other, here, strict=True) if was != now]
        for other in others
        if len(other) == len(here)
    ]
    if differing:
        nearest = min(differing, key=len)
        return f"The kept row costs of {name} were measured {' and '.join(nearest)}, {ANEW}"
    return f"The kept row costs of {name} are of another version of this program, {ANEW}" if others else ""


def _fields(key: str) -> list[str]:
    """The model's name and what else a key holds, one for each of WORDS."""
    return key.rsplit(SEPARATOR, len(WORDS))


def _table(costs: Any) -> RowCosts | None:
    """What stands in the file for a model; None where that is no table."""
    try:
        seconds = {int(n): float(s) for n, s in costs["seconds"].items()}
        if set(seconds) == set(SIZES) and all(0 < s < float("inf") for s in seconds.values()):
            return RowCosts.of(seconds, int(costs["turns"]))
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError):
        pass
    return None
