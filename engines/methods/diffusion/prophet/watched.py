"""What is watched of an answer: how it would read now, and how far its first choices lead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engines.kit import Params, Position, Record, TokenId, exact
from engines.methods.diffusion.prophet.bars import gaps

if TYPE_CHECKING:
    from torch import Tensor


class Watched(Record):
    """The answer as it would read now, the lead of each first choice in nats, and the bars of the phases."""

    start: Position
    tokens: list[TokenId]
    leads: list[float]
    forward: int
    planned: int
    bars: list[float]  # early, mid, late
    open: int  # masks before the forward wrote any


def watched(start: int, tokens: Tensor, z: Tensor, g: int, S: int, p: Params, masks: int) -> Watched:
    """The record of forward g of S; tokens [n] and their logits z [n, V] from position `start` on."""
    bars = [p.bar_early, p.bar_mid, p.bar_late]
    return Watched(start, tokens.tolist(), exact(gaps(z)), g, S, bars, masks)
