"""Which calls of models count as what: those of the target, the model that a person picked, come first; calls of a
draft or of any other model stand beside them and are never added to them."""

from collections import Counter
from collections.abc import Mapping, Sequence

from engines import Step, Trace


def target_role(trace: Trace) -> str:
    """The role of the model that a person picked: the first one of the header; "" where the trace names no model."""
    return trace.header.models[0].role if trace.header.models else ""


def target_calls(step: Step, role: str) -> int:
    """Calls of the target in a step; of all models where the trace names none."""
    return step.forwards.get(role, 0) if role else sum(step.forwards.values())


def other_calls(step: Step, role: str) -> int:
    """Calls of all other models in a step."""
    return sum(step.forwards.values()) - target_calls(step, role)


def layer_rows(step: Step) -> int:
    """Rows times transformer layers that all models computed in a step."""
    return sum(step.work.values())


def in_words(steps: Sequence[Step], role: str) -> str:
    """The calls of some steps as a person reads them: "12 model calls", or "12 model calls, 40 draft calls"."""
    calls = Counter[str]()
    for step in steps:
        calls.update(step.forwards)
    return by_role(calls, role)


def by_role(calls_by_role: Mapping[str, int], role: str) -> str:
    """Calls by role as a person reads them, the target's first."""
    calls = calls_by_role.get(role, 0) if role else sum(calls_by_role.values())
    others = {name: n for name, n in calls_by_role.items() if role and name != role and n}
    if not others:
        return many(calls, "model call")
    return ", ".join([many(calls, "model call"), *(many(n, f"{name} call") for name, n in others.items())])


def many(n: int, word: str) -> str:
    """A count with its word in the right number."""
    return f"{n:,} {word}" if n == 1 else f"{n:,} {word}s"
