"""The layer that was trained here (`engines.models.networks.eagle_layer`) as rows to draft with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from engines.core.lazy import Tensor
from engines.models.networks.exits import Past

if TYPE_CHECKING:
    from engines.models.networks.eagle_layer import EagleLayer


class Trained:
    """Rows of a drafter (`engines.models.drafters.rows`), with the model's embeddings and head."""

    def __init__(self, model: Any, layer: EagleLayer, vocabulary: Tensor | None) -> None:
        """model: the target playing the draft."""
        self.model, self.layer, self.past = model, layer, Past()
        self.vocabulary = None if vocabulary is None else vocabulary.long().to(model.record.device)
        self.reads = (model.num_layers,)

    @property
    def length(self) -> int:
        """Rows that it holds."""
        return self.past.length

    def states(self, hidden: Mapping[int, Tensor]) -> Tensor:
        """See `Rows`."""
        return hidden[self.reads[0]]

    def read(self, tokens: Sequence[int], S: Tensor) -> Tensor:
        """See `Rows`."""
        return self.layer(self.model.embed(tokens), S, self.past)

    def grow(self, tokens: Sequence[int], before: Tensor, at: Tensor, sees: Tensor) -> Tensor:
        """See `Rows`."""
        return self.layer(self.model.embed(tokens), before, self.past, at, sees)

    def logits(self, F: Tensor, predicts: Sequence[int]) -> Tensor:
        """See `Rows`."""
        return self.model.unembed(F, self.vocabulary, normed=True, predicts=predicts)

    def tokens(self, columns: Tensor) -> Tensor:
        """See `Rows`."""
        return columns if self.vocabulary is None else self.vocabulary[columns]

    def crop(self, length: int) -> None:
        """See `Rows`."""
        self.past.crop(length)
