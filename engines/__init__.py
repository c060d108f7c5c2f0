"""The decoding methods, usable without the app.

    import engines
    trace = engines.run("threshold", engines.load_model("tiny-dlm"), "sort: Mia, Leo, Ada")
    print(trace.text, trace.totals.forwards)

Importing this package, listing methods and listing models load neither torch nor transformers.
"""

from typing import Any

from engines.core.errors import UserError
from engines.core.events import Edit, ModelRecord, Step, Trace, TraceError
from engines.core.golden import FileReport, checks, differ, verify
from engines.core.method import MethodInfo
from engines.core.params import Param
from engines.core.reading import read_trace
from engines.core.registry import broken_methods, get_method, list_methods
from engines.core.run import Run, assign_roles, run, stream

__all__ = [
    "Edit",
    "FileReport",
    "MethodInfo",
    "ModelRecord",
    "Param",
    "Run",
    "Step",
    "Trace",
    "TraceError",
    "UserError",
    "assign_roles",
    "broken_methods",
    "checks",
    "differ",
    "get_method",
    "list_methods",
    "list_models",
    "load_model",
    "read_trace",
    "run",
    "stream",
    "verify",
]


def __getattr__(name: str) -> Any:
    """The zoo is imported at first use: it may pull heavy modules."""
    if name in ("load_model", "list_models", "companion"):
        from engines.models import zoo

        return getattr(zoo, name)
    raise AttributeError(f"module 'engines' has no attribute '{name}'")
