"""Tokens of a run that writes several samples or paths of an answer. Its calls served all of them, so tokens per call
and per second count all of them."""

from collections import Counter

from engines import Header, Step, Trace


class Samples:
    """Tokens of all samples while a run is made: `grown` before the first step, then after each one; several: whether
    there is more than one. A branch that stands in one step only was a guess, not a path."""

    def __init__(self, header: Header) -> None:
        self._ends, self._steps = set(header.eos_ids), Counter[int]()
        self.grown = [0]

    def add(self, step: Step) -> None:
        """The next step."""
        self._steps.update(branch.id for branch in step.branches)
        new = sum(token not in self._ends for branch in step.branches for token in branch.tokens)
        self.grown.append(self.grown[-1] + new)

    @property
    def several(self) -> bool:
        """Whether more than one path was followed so far."""
        return sum(count > 1 for count in self._steps.values()) > 1


def all_tokens(trace: Trace) -> int | None:
    """Tokens that were added to any sample or path, end marks not counted; None where the run follows one text."""
    samples = Samples(trace.header)
    for step in trace.steps:
        samples.add(step)
    return samples.grown[-1] if samples.several else None


def gained(trace: Trace) -> int:
    """What the calls and seconds of a run are held against: the tokens of all its samples, else those of its text."""
    tokens = all_tokens(trace)
    return trace.totals.tokens if tokens is None else tokens
