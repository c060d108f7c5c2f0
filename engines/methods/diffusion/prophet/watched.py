"""What is watched of an answer: how it would read now, and how far its first choices lead."""

from engines.core.trace import Small
from engines.kit import Alternatives, Params, Position, Record, Stops, Tensor, TokenId, exact, slider
from engines.methods.diffusion.prophet.bars import PHASES, gaps, phase_of


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


def watched(start: int, tokens: Tensor, z: Tensor, g: int, S: int, p: Params, masks: int) -> Watched:
    """The record of forward g of S; tokens [n] and their logits z [n, V] from position `start` on."""
    bars = [p.bar_early, p.bar_mid, p.bar_late]
    return Watched(start, tokens.tolist(), exact(gaps(z)), g, S, bars, masks)
