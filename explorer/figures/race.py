"""A race under one clock: what a run has when a budget of steps, forwards, seconds or work is used up, and what later
became of it.

    here = standing(trace, steps_within(trace, "forwards", 12))
    print(here.tokens, here.revised, here.missing)

Definitions, over the first t steps of one trace; `assets/player/race.js` counts by the same rules, and a test compares
the two:

* A step is *inside* a budget if the run had spent no more than the budget when the step was over. Forwards are the
  target calls, draft calls are not added to them; seconds are model time plus method time; work is rows
  times layers, all models together.
* *Tokens* are the ids that stand after the prompt and before the first end mark; open masks are not counted.
* Of these, each one counts once as *re-masked*, *changed* or *cut*, by the first later write that takes it away: a
  mask, another token, or the end of the board. One that is never taken away but stands behind an end mark that came
  later is *behind*: it is no part of the output.
* *Missing* are the tokens of the run's output that are not in their place yet.

What is "later" ends with the trace: of a stopped run nothing is claimed beyond its stop.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Literal

import msgspec

from engines import Step, Trace
from explorer.figures.calls import layer_rows, target_calls, target_role
from explorer.figures.hindsight import hidden, written

Clock = Literal["steps", "forwards", "seconds", "work"]
SLACK = 1e-6  # a step that exactly fits a budget is inside it


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """What a run has after `steps` steps. Counts, but for `seconds`."""

    steps: int
    forwards: int
    seconds: float
    tokens: int
    remasked: int
    changed: int
    cut: int
    behind: int
    missing: int

    @property
    def revised(self) -> int:
        """Tokens that stand here and were taken away later."""
        return self.remasked + self.changed + self.cut


def steps_within(trace: Trace, clock: Clock, budget: float) -> int:
    """How many steps wholly fit a budget of steps, target calls, seconds, or layer-rows."""
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


def standing(trace: Trace, steps: int) -> Standing:
    """What stands after `steps` steps, and what became of it by the end of the trace."""
    writes = written(trace)
    now, last = _board(trace, writes, steps), _board(trace, writes, len(trace.steps))
    stop, over = _first_end(trace, now), _first_end(trace, last)
    fates = [_fate(trace, writes[at], steps, token, at >= over) for at, token in now.items() if at < stop]
    done = trace.steps[:steps]
    return Standing(
        steps=steps,
        forwards=sum(target_calls(step, target_role(trace)) for step in done),
        seconds=sum(step.model_seconds + step.method_seconds for step in done),
        tokens=len(fates),
        remasked=fates.count("remasked"),
        changed=fates.count("changed"),
        cut=fates.count("cut"),
        behind=fates.count("behind"),
        missing=sum(now.get(at) != token for at, token in last.items() if at < over),
    )


def _board(trace: Trace, writes: dict[int, list[tuple[int, int]]], steps: int) -> dict[int, int]:
    """Position -> token behind the prompt after `steps` steps, open positions left out."""
    found = {}
    for at, entries in writes.items():
        before = [token for step, token in entries if step < steps]
        if at >= len(trace.header.prompt_ids) and before and not hidden(trace, before[-1]):
            found[at] = before[-1]
    return found


def _first_end(trace: Trace, board: dict[int, int]) -> float:
    ends = set(trace.header.eos_ids)
    return min((at for at, token in board.items() if token in ends), default=float("inf"))


def _fate(trace: Trace, entries: list[tuple[int, int]], steps: int, token: int, behind: bool) -> str:
    later = next((other for step, other in entries if step >= steps and other != token), None)
    if later is None:
        return "behind" if behind else "kept"
    return "cut" if later < 0 else "remasked" if later == trace.header.mask_id else "changed"
