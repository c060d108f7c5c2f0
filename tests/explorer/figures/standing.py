"""What stands in a run after some steps, and what became of it by the end: the definition in full, counted anew for
each step.

* *Tokens* are the ids that stand after the prompt and before the first end mark; open masks are not counted.
* Of these, each one counts once as *re-masked*, *changed* or *cut*, by the first later write that takes it away: a
  mask, another token, or the end of the board. One that is never taken away but stands behind an end mark that came
  later is *behind*: it is no part of the output.
* *Missing* are the tokens of the run's output that do not stand at their place yet.

What is "later" ends with the trace: of a stopped run nothing is claimed beyond its stop."""

import msgspec

from engines import Trace
from explorer.figures.calls import target_calls, target_role
from explorer.figures.hindsight import hidden
from explorer.figures.history import DRAWN, History, history


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


def standing(trace: Trace, steps: int) -> Standing:
    """What stands after `steps` steps, and what became of it by the end of the trace."""
    past, end = history(trace), len(trace.steps)
    now, last = _board(trace, past, steps), _board(trace, past, end)
    stop, over = _first_end(trace, now), _first_end(trace, last)
    places = {past.place(past.cell(at, steps), end): at for at in now}  # at the end of the run, and then
    cells = {at: past.cell(at, steps) for at in now}
    behind = {at for at, cell in cells.items() if (past.place(cell, end) or 0) >= over}
    fates = [_fate(trace, past.writes[cells[at]], steps, token, at in behind) for at, token in now.items() if at < stop]
    done = trace.steps[:steps]
    return Standing(
        steps=steps,
        forwards=sum(target_calls(step, target_role(trace)) for step in done),
        seconds=sum(step.model_seconds + step.method_seconds for step in done),
        tokens=len(fates),
        **{fate: fates.count(fate) for fate in ("remasked", "changed", "cut", "behind")},
        missing=sum(now.get(places.get(at, -1)) != token for at, token in last.items() if at < over),
    )


def _board(trace: Trace, past: History, steps: int) -> dict[int, int]:
    """Position -> token behind the prompt after `steps` steps, open positions left out."""
    found = {}
    for at in range(len(trace.header.prompt_ids), past.widths[steps]):
        before = [token for step, token, _ in past.writes.get(past.cell(at, steps), ()) if step < steps]
        if before and not hidden(trace, before[-1]):
            found[at] = before[-1]
    return found


def _first_end(trace: Trace, board: dict[int, int]) -> float:
    ends = set(trace.header.eos_ids)
    return min((at for at, token in board.items() if token in ends), default=float("inf"))


def _fate(trace: Trace, entries: list[tuple[int, int, str]], steps: int, token: int, behind: bool) -> str:
    later = next((other for step, other, _ in entries if step >= steps and other != token), None)
    if later is None:
        return "behind" if behind else "kept"
    open_ = later in (DRAWN, trace.header.mask_id)
    return "remasked" if open_ else "cut" if later < 0 else "changed"
