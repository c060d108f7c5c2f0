"""Drafters that go from row to row, as those who draft with them see them: a row is a token's embedding and the state
one place before it, and its output is the state of the row behind it.

Shapes: n rows, d width of the drafter, D numbers of the target's states for a row, v draft vocabulary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from engines.core.lazy import Tensor, torch

if TYPE_CHECKING:
    from engines.models.drafters.network import Pasts
    from engines.models.networks.exits import Past


class Rows:
    """A drafter that is fed row by row. reads: the target's states that it reads, as `extend` numbers them. past: what
    it keeps of the rows. vocabulary [v]: the target's tokens of the columns of its logits, None for all of them."""

    reads: tuple[int, ...]
    past: Past | Pasts
    vocabulary: Tensor | None

    @property
    def length(self) -> int:
        """Rows that it holds."""
        return self.past.length

    def crop(self, length: int) -> None:
        """Forget the rows behind the first `length`."""
        self.past.crop(length)

    def tokens(self, columns: Tensor) -> Tensor:
        """The target's tokens of columns of the logits."""
        return columns if self.vocabulary is None else self.vocabulary[columns]

    def states(self, hidden: Mapping[int, Tensor]) -> Tensor:
        """States [n, D] of the target for n rows."""
        raise NotImplementedError

    def read(self, tokens: Sequence[int], S: Tensor) -> Tensor:
        """Outputs [n, d] of rows of text: each token with the target's state before it."""
        raise NotImplementedError

    def grow(self, tokens: Sequence[int], before: Tensor, at: Tensor, sees: Tensor) -> Tensor:
        """Outputs [n, d] of rows of a tree: each token with the output before it [n, d], at positions [n]; sees
        [n, length + n]."""
        raise NotImplementedError

    def logits(self, F: Tensor, predicts: Sequence[int]) -> Tensor:
        """Logits [n, v] of outputs."""
        raise NotImplementedError


class Published(Rows):
    """A published drafter (`engines.models.drafters`), counted for this run: its passes are the draft's work."""

    def __init__(self, drafter: Any) -> None:
        self.drafter, self.past = drafter, drafter.pasts()
        self.reads, self.vocabulary = drafter.reads, drafter.vocabulary

    def states(self, hidden: Mapping[int, Tensor]) -> Tensor:
        """See `Rows`."""
        return self.drafter.states(hidden)

    def read(self, tokens: Sequence[int], S: Tensor) -> Tensor:
        """See `Rows`; the states go through the drafter's projection, which those of a tree do not."""
        m, n, e = self.length, len(tokens), self.drafter.embed(tokens)
        at = torch.arange(m, m + n, device=S.device)
        sees = torch.arange(m + n, device=S.device)[None] <= at[:, None]

        def compute() -> Tensor:
            return self.drafter.rows(e, self.drafter.project(S), self.past, at, sees)

        return self.drafter.call(n, compute)

    def grow(self, tokens: Sequence[int], before: Tensor, at: Tensor, sees: Tensor) -> Tensor:
        """See `Rows`."""
        e, s = self.drafter.embed(tokens), self.drafter.fed_back(before)
        return self.drafter.call(len(tokens), lambda: self.drafter.rows(e, s, self.past, at, sees))

    def logits(self, F: Tensor, predicts: Sequence[int]) -> Tensor:
        """See `Rows`."""
        return self.drafter.logits(self.drafter.spoken(F), predicts)
