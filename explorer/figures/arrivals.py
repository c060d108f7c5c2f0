"""A race in seconds between servers, and between a server and an engine here: when what had arrived."""

from itertools import accumulate

import msgspec

from engines import Trace
from explorer.figures.clock import steps_within
from explorer.figures.history import growth
from explorer.figures.metrics import measure

SHARES = (0.25, 0.5, 0.75, 1.0)  # of the time that the quickest run took


class Lap(msgspec.Struct, frozen=True):
    """Seconds of one run, None where they are not known. first: to the first tokens; between: mean time from token to
    token after it; whole: to the last; connecting: before the clock, of a server; outside: of the whole, what is not in
    the times that the server itself reports."""

    tokens: int | None
    first: float | None
    between: float | None
    whole: float
    connecting: float | None
    outside: float | None

    def in_words(self) -> list[tuple[str, str]]:
        """(label, value) in words."""
        seconds = {
            "first token": self.first,
            "between tokens": self.between,
            "whole": self.whole,
            "connecting, apart": self.connecting,
            "next to the server's own time": self.outside,
        }
        shown = [(label, "-" if value is None else f"{value:.4f} s") for label, value in seconds.items()]
        return [("tokens", "-" if self.tokens is None else f"{self.tokens}"), *shown]


def laps(trace: Trace) -> Lap:
    """The times of one run."""
    values = {metric.name: metric.value for metric in measure(trace) if not metric.absent}
    spent = list(accumulate(step.model_seconds + step.method_seconds for step in trace.steps))
    wrote = [i for i, step in enumerate(trace.steps) if step.commits]
    tokens = None if "tokens" in trace.header.missing else trace.totals.tokens
    first = spent[wrote[0]] if wrote else None
    whole = spent[-1] if spent else 0.0
    between = (whole - first) / (tokens - 1) if first is not None and tokens and tokens > 1 else None
    return Lap(tokens, first, between, whole, values.get("connect_seconds"), values.get("outside_seconds"))


def standings(traces: list[Trace]) -> tuple[list[float], list[list[int]]]:
    """Seconds, as shares of the quickest run's time and then each run's own end, and the tokens of every run by then;
    of an answer without tokens the pieces that had arrived."""
    ends = [laps(trace).whole for trace in traces]
    times = sorted({round(min(ends) * share, 6) for share in SHARES} | {round(end, 6) for end in ends})
    grown = [list(growth(trace)) for trace in traces]
    rows = [
        [tokens[steps_within(trace, "seconds", time)] for trace, tokens in zip(traces, grown, strict=True)]
        for time in times
    ]
    return times, rows
