"""THE schema of a trace; see `engines.core.trace.trace`."""

from engines.core.trace.base import EXACT, Count, Detail, Index, Record, Seconds, TraceError, Unit
from engines.core.trace.groups import (
    Box,
    Branch,
    Candidates,
    Commits,
    Completions,
    Decision,
    Interval,
    Lane,
    Media,
    Memory,
    Routing,
    Span,
    Tree,
    Truncation,
)
from engines.core.trace.header import SCHEMA_VERSION, Absent, Edit, End, Header, ModelRecord, Origin, Piece, TimedEdit
from engines.core.trace.packed import MISSING, Packed, pack, pack_exact
from engines.core.trace.reading import check_consistency
from engines.core.trace.step import Step, step_tokens
from engines.core.trace.trace import Totals, Trace, read_trace, totals

__all__ = [
    "Absent",
    "Box",
    "Branch",
    "Candidates",
    "Decision",
    "Commits",
    "Completions",
    "Count",
    "Detail",
    "EXACT",
    "Edit",
    "End",
    "Header",
    "Index",
    "Interval",
    "Lane",
    "MISSING",
    "Media",
    "Memory",
    "ModelRecord",
    "Origin",
    "Packed",
    "Piece",
    "Record",
    "Routing",
    "SCHEMA_VERSION",
    "Seconds",
    "Span",
    "Step",
    "TimedEdit",
    "Totals",
    "Trace",
    "TraceError",
    "Tree",
    "Truncation",
    "Unit",
    "pack",
    "pack_exact",
    "step_tokens",
    "totals",
    "check_consistency",
    "read_trace",
]
