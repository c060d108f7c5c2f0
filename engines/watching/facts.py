"""What a row of logits says, taken down while the forward's result still is what the model made: confidence, entropy,
the likeliest tokens, and the probabilities until it is known which token was written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engines.core.lazy import torch
from engines.core.recording import TOP_K

if TYPE_CHECKING:
    from torch import Tensor


@dataclass
class Facts:
    """Of m rows of logits. confidence [m]: the largest probability; entropy [m], nats; tokens and chances [m, k]: the
    likeliest. probabilities [m, V]: kept until the written tokens are known, then dropped."""

    rows: list[int]
    confidence: Tensor
    entropy: Tensor
    tokens: Tensor
    chances: Tensor
    probabilities: Tensor | None

    def of(self, row: int, token: int) -> float | None:
        """The probability of a token in a row of the forward; None where that row was not taken down."""
        if self.probabilities is None or row not in self.place:
            return None
        return float(self.probabilities[self.place[row], token])

    def likely(self, row: int, token: int) -> float | None:
        """The probability of a token that is among the likeliest of a row; None for others."""
        at = (self.tokens[self.place[row]] == token).nonzero().flatten()
        return float(self.chances[self.place[row], at[0]]) if len(at) else None

    def __post_init__(self) -> None:
        self.place = {row: i for i, row in enumerate(self.rows)}

    def forget(self) -> None:
        """Let go of the probabilities."""
        self.probabilities = None


def describe(logits: Tensor, rows: Sequence[int]) -> Facts:
    """The facts of some rows of logits [n, V]. What is read is a copy: the loop may change its logits afterwards."""
    z = logits if len(rows) == len(logits) else logits[list(rows)]
    p = z.float().softmax(-1)  # [m, V]
    chances, tokens = p.topk(min(TOP_K, p.shape[-1]))
    entropy = torch.special.entr(p).sum(-1)
    return Facts(list(rows), chances[:, 0], entropy, tokens, chances, p)
