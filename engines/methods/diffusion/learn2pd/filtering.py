"""What the filter reads and what it makes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from engines.kit import Alternatives, Position, Probability, Record, Stops, TokenId, exact, slider
from engines.methods.diffusion.learn2pd.board import Proposed, with_best

if TYPE_CHECKING:
    from torch import Tensor


PLAIN = 0.8  # what the published filter amounts to


class Filtering(Record):
    """The confidences of a block, which the filter reads, and what it says of each proposal."""

    start: Position  # of the block
    masked: list[bool]
    tokens: list[TokenId]
    confidence: list[Probability]
    filter: list[Probability]  # none where the schedule alone decides
    threshold: float
    end: int  # of the board, after the cut
    length: int  # before it
    end_confidence: Probability  # of the end mark that cuts; 0 where none does
    oracle: list[bool] = []  # where the proposals are the reference's, if there is one

    def alternatives(self, _: Alternatives) -> dict[str, Stops]:
        """Which positions of the block another threshold of the filter writes, and which one on the confidence does, of
        those that were not cut off."""
        kept = self.end - self.start

        def written(values: Sequence[float], accepted: Callable[[float], bool]) -> list[int]:
            accept = [hidden and accepted(v) for v, hidden in zip(values, self.masked, strict=True)]
            return [i for i, yes in enumerate(with_best(accept, self.confidence, self.masked)[:kept]) if yes]

        q = self.filter or [-1.0] * len(self.masked)
        tau = Stops.over(slider(0, 1, 0.01, self.threshold), lambda tau: written(q, lambda v: v > tau))
        if self.oracle and not self.filter:
            tau = Stops([0], [[i for i, yes in enumerate(self.oracle[:kept]) if yes and self.masked[i]]])
        theta = slider(0, 1, 0.01, PLAIN)
        return {"tau": tau, "theta": Stops.over(theta, lambda theta: written(self.confidence, lambda v: v >= theta))}


def filtering(
    f: Proposed, q: Tensor | None, threshold: float, e: int, sure: float, L: int, right: Tensor | None = None
) -> Filtering:
    """The record of one forward; q and right [b], e the last position that is kept of L."""
    return Filtering(
        f.a,
        f.hidden.tolist(),
        f.x0[f.a : f.b].tolist(),
        exact(f.c),
        [] if q is None else exact(q),
        threshold,
        e + 1,
        L,
        sure,
        [] if right is None else right.tolist(),
    )
