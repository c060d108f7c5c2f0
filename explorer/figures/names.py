"""What runs are called beside each other: a fork has a name of its own, and equal methods are told apart by what
differs."""

from collections.abc import Iterable

from engines import Trace
from explorer.figures.compare import main_model

LONGEST = 24  # characters of a value in a name
MOST = 2  # parameters in a name


def title_of(trace: Trace) -> str:
    """The name of a run by itself."""
    origin = trace.header.origin
    return f"{trace.header.title}, forked at step {origin.step}" if origin else trace.header.title


def apart(trace: Trace, traces: Iterable[Trace]) -> str:
    """What tells a run from those of the same name and model: the parameters that differ, else the seed; "" for any
    other."""
    mine, title = settings(trace), title_of(trace)
    same = [
        settings(run)
        for run in traces
        if run is not trace and title_of(run) == title and main_model(run) == main_model(trace)
    ]
    differ = [name for name, value in mine.items() if any(other.get(name) != value for other in same)]
    return ", ".join(f"{name} {mine[name][:LONGEST]}" for name in differ[:MOST])


def name_of(trace: Trace, traces: Iterable[Trace]) -> str:
    """A run's name among others."""
    return ", ".join(filter(None, (title_of(trace), apart(trace, traces))))


def settings(trace: Trace) -> dict[str, str]:
    """What can tell a run from another one of its name, in words: its parameters, the seed, and whether its model's
    forwards are row-invariant."""
    header = trace.header
    exact = any(model.options.get("row_invariant") is True for model in header.models[:1])
    values = {**header.params, "seed": header.seed, "row_invariant": exact}
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in values.items()}
