"""Tokens of a run that writes several samples or paths of an answer. Its calls served all of them, so tokens per call
and per second count all of them. The player counts by the same rule in race.js."""

from __future__ import annotations

from engines import Trace


def all_tokens(trace: Trace) -> int | None:
    """Tokens that were added to any sample or path, end marks not counted; None where the run follows one text. A
    branch that stands in one step only was a guess, not a path."""
    ends, steps, n = set(trace.header.eos_ids), dict[int, int](), 0
    for step in trace.steps:
        for branch in step.branches:
            steps[branch.id] = steps.get(branch.id, 0) + 1
            n += sum(token not in ends for token in branch.tokens)
    return n if sum(count > 1 for count in steps.values()) > 1 else None


def gained(trace: Trace) -> int:
    """What the calls and seconds of a run are held against: the tokens of all its samples, else those of its text."""
    tokens = all_tokens(trace)
    return trace.totals.tokens if tokens is None else tokens
