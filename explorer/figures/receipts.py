"""How a number on screen was obtained: its definition, the numbers of this run put into its formula, what was counted,
and under which conditions.

The player composes the text (`assets/client/player/receipt.js`); here stand the facts that it needs for a number of
the page's own tables."""

from typing import Any

import msgspec

from engines import Trace
from explorer.figures.definitions import DEFINITIONS
from explorer.figures.metric import Metric
from explorer.figures.metrics import numbers

HEADER = (
    "models",
    "machine",
    "seed",
    "detail",
    "versions",
    "started_at",
    "warmup_seconds",
    "params",
    "missing",
    "imported_from",
)


def facts(trace: Trace) -> dict[str, Any]:
    """What every receipt of a run shares: the numbers that formulas and counts are filled with, and the conditions of
    the run."""
    header = {name: msgspec.to_builtins(getattr(trace.header, name)) for name in HEADER}
    return {"numbers": numbers(trace), "header": header}


def receipt(metric: Metric) -> dict[str, Any]:
    """One number of a run for the page's tables."""
    known = DEFINITIONS.get(metric.name)
    return {
        "label": metric.label,
        "kind": metric.kind,
        "value": metric.shown,
        "formula": metric.formula,
        "terms": metric.terms,
        "counts": known.counts if known and not metric.absent else [],
        "note": known.note if known and not metric.absent else metric.conditions,
    }
