"""The decoding methods, usable without the app.

    import engines
    trace = engines.run("threshold", engines.load_model("tiny-dlm"), "sort: Mia, Leo, Ada")
    print(trace.text, trace.totals.forwards)

Importing this package, listing methods and listing models load neither torch nor transformers.
"""

from typing import Any

from engines.core.errors import UserError
from engines.core.events import Edit, ModelRecord, Origin, Step, Trace, TraceError
from engines.core.fork import digest, fork, models_of, stream_fork
from engines.core.golden import FileReport, checks, differ, verify
from engines.core.method import MethodInfo
from engines.core.own import load_method_file
from engines.core.params import Param
from engines.core.probe import next_logits, row_costs
from engines.core.reading import read_trace
from engines.core.registry import broken_methods, get_method, list_methods
from engines.core.roles import assign_roles
from engines.core.run import Run, run, stream
from engines.core.version import code_version

__all__ = [
    "Edit",
    "FileReport",
    "MethodInfo",
    "ModelRecord",
    "Origin",
    "Param",
    "Run",
    "Step",
    "Trace",
    "TraceError",
    "UserError",
    "assign_roles",
    "broken_methods",
    "checks",
    "code_version",
    "companion",
    "differ",
    "digest",
    "fork",
    "get_method",
    "joint",
    "list_methods",
    "list_models",
    "load_method_file",
    "load_model",
    "models_of",
    "next_logits",
    "read_trace",
    "row_costs",
    "run",
    "stream",
    "stream_fork",
    "verify",
]


def __getattr__(name: str) -> Any:
    """The zoo and the mathematics of joint laws are imported at first use: they may pull heavy modules."""
    if name in ("load_model", "list_models", "companion"):
        from engines.models import zoo

        return getattr(zoo, name)
    if name == "joint":
        from engines.models import joint

        return joint
    raise AttributeError(f"module 'engines' has no attribute '{name}'")
