"""What the filter reads and what it makes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engines.kit import Position, Probability, Record, TokenId, exact
from engines.methods.diffusion.learn2pd.board import Proposed

if TYPE_CHECKING:
    from torch import Tensor


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
