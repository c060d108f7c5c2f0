"""Curves over a run: what it had, and how sure it was, after each call."""

from itertools import accumulate

from engines import Trace
from explorer.figures.board import growth as gains
from explorer.figures.calls import target_calls, target_role


def growth(trace: Trace) -> list[tuple[int, float]]:
    """(model calls so far, tokens so far) before the first step and after each one; empty where calls were not
    recorded."""
    if "forwards" in trace.header.missing:
        return []
    target = target_role(trace)
    spent = accumulate((target_calls(step, target) for step in trace.steps), initial=0)
    return [(calls, float(tokens)) for calls, tokens in zip(spent, gains(trace), strict=True)]


def confidence_by_step(trace: Trace) -> list[tuple[int, float]]:
    """(model calls so far, mean probability of the tokens written) for each step that recorded probabilities;
    empty where calls were not."""
    if "forwards" in trace.header.missing:
        return []
    points, calls, target = [], 0, target_role(trace)
    for step in trace.steps:
        calls += target_calls(step, target)
        known = [p for p in step.commits.probabilities if p is not None] if step.commits else []
        if known:
            points.append((calls, sum(known) / len(known)))
    return points
