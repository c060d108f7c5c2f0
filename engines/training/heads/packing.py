"""Several texts of the cache as one row of states, none of which sees another text: one pass of a small layer for a
whole batch.

Shapes: N tokens of all texts, d hidden size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engines.training.core.text_cache import Text


@dataclass(frozen=True)
class Packed:
    """Texts one behind another. tokens [N]; h [N, d] their last states; at [N] places within a text; sees [N, N]: which
    row sees which, those before it in its text and itself; left [N]: how many tokens of its text stand behind a row;
    answer [N]: whether the token behind the row belongs to an answer."""

    tokens: Tensor
    h: Tensor
    at: Tensor
    sees: Tensor
    left: Tensor
    answer: Tensor

    def rows(self, shift: int = 0) -> Tensor:
        """The rows t for which token t + 1 + shift stands in the same text and token t + 1 belongs to its answer."""
        return (self.answer & (self.left > shift)).nonzero()[:, 0]


def packed(texts: Sequence[Text], layer: int) -> Packed:
    """These texts with their states at a layer."""
    sizes = torch.tensor([len(text.tokens) for text in texts])
    at = torch.cat([torch.arange(int(n)) for n in sizes])
    of, prompt = (torch.repeat_interleave(x, sizes) for x in (torch.arange(len(texts)), _prompts(texts)))
    sees = (of[:, None] == of[None]) & (at[None] <= at[:, None])
    left = torch.repeat_interleave(sizes, sizes) - 1 - at
    h = torch.cat([text.hidden[layer].float() for text in texts])
    return Packed(torch.cat([text.tokens for text in texts]), h, at, sees, left, at >= prompt - 1)


def _prompts(texts: Sequence[Text]) -> Tensor:
    return torch.tensor([text.prompt for text in texts])
