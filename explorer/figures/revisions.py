"""What becomes of the tokens that stand after each step of a run, by its end.

* *Tokens* are the ids that stand after the prompt and before the first end mark; open masks are not counted.
* Of these, each one counts once as *remasked*, *changed* or *cut*, by the first later write that takes it away: a mask,
  another token, or the end of the board. One that is never taken away but stands behind an end mark that came later is
  *behind*: it is no part of the output.
* *Missing* are the tokens of the run's output that do not stand at their place yet.

What is "later" ends with the trace: of a stopped run nothing is claimed beyond its stop."""

from collections import defaultdict
from collections.abc import Mapping
from functools import partial

from engines import Commits, Trace
from explorer.figures.hindsight import hidden
from explorer.figures.history import DRAWN, History, Tally, history

FATES = ("remasked", "changed", "cut", "behind")


def revisions(trace: Trace) -> dict[str, list[int]]:
    """Each of the five -> its number before the first step, then after each one."""
    past, tally = history(trace), Tally(trace.header)
    end = _end(trace, past)
    fates = {(cell, step): fate for cell in past.writes for step, fate in _fates(trace, past, cell, end)}
    missing = _missing(trace, past, end)
    series: dict[str, list[int]] = {fate: [0] for fate in FATES}
    for step in trace.steps:
        tally.write(step.commits, partial(_kinds, past, fates, step.index))
        for fate, counts in series.items():
            counts.append(tally.count(fate))
    return series | {"missing": missing}


def _kinds(past: History, fates: Mapping[tuple[int, int], str], step: int, commits: Commits, i: int) -> tuple[str, ...]:
    """What the i-th token of a step is counted as."""
    fate = fates.get((past.cell(commits.positions[i], step + 1), step))
    return (fate,) if fate else ()


def _end(trace: Trace, past: History) -> int:
    """The place of the first end mark on the last board; its width where there is none."""
    ends, width = set(trace.header.eos_ids), past.widths[-1]
    places = range(len(trace.header.prompt_ids), width)
    return next((at for at in places if (last := past.last(at)) and last[1] in ends), width)


def _fates(trace: Trace, past: History, cell: int, end: int) -> list[tuple[int, str]]:
    """Of a cell's writes that leave a token: the step and what becomes of it, "" where it stays."""
    writes, fates = past.writes[cell], []
    place = past.place(cell, len(trace.steps))
    fate = "behind" if place is not None and place >= end else ""
    for (step, token, _), (_, after, _) in reversed(list(zip(writes, [*writes[1:], writes[-1]], strict=True))):
        if after != token:
            fate = "remasked" if after in (DRAWN, trace.header.mask_id) else "cut" if after < 0 else "changed"
        if not hidden(trace, token):
            fates.append((step, fate))
    return fates[::-1]  # of two writes in one step the later one counts


def _missing(trace: Trace, past: History, end: int) -> list[int]:
    """The output's tokens that do not stand at their place."""
    change: dict[int, int] = defaultdict(int)  # step -> how many more stand
    wanted = 0
    for cell, writes in past.writes.items():
        place, token = past.place(cell, len(trace.steps)), writes[-1][1]
        if place is None or place >= end or place < len(trace.header.prompt_ids) or hidden(trace, token):
            continue
        wanted, stands = wanted + 1, False
        for step, now, _ in writes:
            change[step] += (now == token) - stands
            stands = now == token
    missing = [wanted]
    for step in range(len(trace.steps)):
        missing.append(missing[-1] - change[step])
    return missing
