"""The clocks on which runs are held against each other: what each step takes on one, and how many steps fit a budget.

A step is *inside* a budget if the run had spent no more than the budget when the step was over. Forwards are the calls
of the target, those of a draft are not added to them; seconds are model time plus method time; work is rows times
layers, all models together. What stands there, and what the run takes back later, is counted
by `explorer.figures.revisions`. Curves over a run: what it had, and how sure it was, after each call."""

from itertools import accumulate
from typing import Literal

from engines import Step, Trace
from explorer.figures.calls import layer_rows, target_calls, target_role
from explorer.figures.history import growth as gains

Clock = Literal["steps", "forwards", "seconds", "work"]
SLACK = 1e-6  # a step that exactly fits a budget is inside it


def steps_within(trace: Trace, clock: Clock, budget: float) -> int:
    """How many steps wholly fit a budget of steps, calls of the target, seconds, or layer-rows."""
    target = target_role(trace)
    spent = accumulate(cost(step, clock, target) for step in trace.steps)
    return sum(cost <= budget + SLACK for cost in spent)


def cost(step: Step, clock: Clock, target: str) -> float:
    """What a step takes on a clock; forwards are those of the role `target` (see `explorer.figures.calls`)."""
    if clock == "steps":
        return 1
    if clock == "work":
        return layer_rows(step)
    return target_calls(step, target) if clock == "forwards" else step.model_seconds + step.method_seconds


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
