"""The times of a quiet machine, for tests of what is said about speed: those of two test workers are not."""

from engines import Trace


def quieten(trace: Trace, seconds: float = 0.01) -> Trace:
    """The run, in place, as if each call of the first model took so many seconds, and nothing else had the
    processor."""
    role = trace.header.models[0].role
    for step in trace.steps:
        step.model_seconds, step.method_seconds = seconds * step.forwards.get(role, 0), 0.0
    trace.end.called_seconds = trace.end.processor_seconds = trace.totals.model_seconds
    return trace
