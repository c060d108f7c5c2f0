"""When Prophet stops early (arXiv:2508.19982, `generate_earlyexit.py`): the mean gap of the watched region against the
bar of its phase; and the bars of another model than those it was published for."""

from collections.abc import Iterable

from engines.core.trace import Small
from engines.kit import (
    Alternatives,
    Decision,
    Params,
    Position,
    Record,
    Stops,
    Tensor,
    TokenId,
    Trace,
    UserError,
    slider,
    torch,
)

PHASES = ["early", "mid", "late"]


def gaps(z: Tensor) -> Tensor:
    """Best minus second-best logit per row, z [n, V] -> [n]."""
    top = z.topk(2).values
    return top[:, 0] - top[:, 1]


def phase_of(g: int, S: int) -> str:
    """The phase of forward g of S."""
    return "early" if g / S < 0.33 else "mid" if g / S < 0.67 else "late"


def bars_of(p: Params) -> list[float]:
    """The bars of the phases: early, mid, late."""
    return [p.bar_early, p.bar_mid, p.bar_late]


def verdict(z: Tensor, g: int, S: int, p: Params) -> Decision | None:
    """Hold the mean gap of the region's logits [n, V] against the bar of forward g of S; nothing where nothing is
    watched."""
    if not len(z):
        return None
    phase = phase_of(g, S)
    bar = bars_of(p)[PHASES.index(phase)]
    mean = float(gaps(z).double().mean())
    staircase = f"{phase} phase, forward {g} of {S}, bars {p.bar_early:g} / {p.bar_mid:g} / {p.bar_late:g}"
    return Decision(
        ["schedule", "all-in"],
        "all-in" if mean >= bar else "schedule",
        "mean gap",
        mean,
        bar,
        unit="nats",
        detail=staircase,
    )


def calibrated_bars(traces: Iterable[Trace]) -> dict[str, float]:
    """Bars for another model: the 60, 40 and 20 % points of the mean gap over runs on other prompts, with all bars at
    100 so that none stops early."""
    choices = [step.choice for trace in traces for step in trace.steps if step.choice]
    if not choices or any(c.chosen == "all-in" for c in choices):
        raise UserError(
            "bars are read off runs that watch an answer and never stop early; record them with bar_early, bar_mid "
            "and bar_late at 100."
        )
    points = torch.tensor([c.value for c in choices], dtype=torch.float64).quantile(
        torch.tensor([0.6, 0.4, 0.2], dtype=torch.float64)
    )
    return dict(zip(("bar_early", "bar_mid", "bar_late"), (round(q, 2) for q in points.tolist()), strict=True))


class Watched(Record):
    """The answer as it would read now, the lead of each first choice in nats, and the bars of the phases."""

    start: Position
    tokens: list[TokenId]
    leads: list[float]
    forward: Small
    planned: Small
    bars: list[float]  # early, mid, late
    open: int  # masks before the forward wrote any

    def alternatives(self, _: Alternatives) -> dict[str, Stops]:
        """Whether the answer reaches its bar times a factor, and the bars over all forwards, from which one on each."""
        mean = sum(self.leads) / (len(self.leads) or 1)

        def bar(g: int) -> float:
            return self.bars[PHASES.index(phase_of(g, self.planned))]

        leaps = Stops.over(slider(0, 2, 0.05, 1), lambda factor: mean >= factor * bar(self.forward))
        stairs = Stops.over(range(1, max(self.planned, self.forward) + 1), lambda g: bar(int(g)))
        return {"factor": leaps, "bar": stairs} if self.leads else {}
