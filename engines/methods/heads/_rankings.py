"""What heads rank, and how a record tells it.

Letters: n rows, v tokens of the draft vocabulary."""

from __future__ import annotations

from typing import Any

from engines.kit import Probability, Record, Tensor, TokenId, top_ids

RANKS = 10  # guesses of each head


class Ranking(Record):
    """The first choices of a head, the likeliest first."""

    tokens: list[TokenId]
    chances: list[Probability]

    def rounded(self, most: int = RANKS) -> Ranking:
        """The first of them, with chances of five significant figures, as they are recorded."""
        return Ranking(self.tokens[:most], [float(f"{chance:.5g}") for chance in self.chances[:most]])


def vocabulary_of(part: Any, device: str) -> Tensor | None:
    """The tokens [v] that the columns of a part's logits are; None for all."""
    vocabulary = part.tensors.get("vocabulary")
    return None if vocabulary is None else vocabulary.long().to(device)


def rankings_of(z: Tensor, vocabulary: Tensor | None) -> list[Ranking]:
    """The rankings of logits [n, v], a row each. vocabulary [v]: the tokens that the columns are, by default all."""
    best = top_ids(z, RANKS)
    tokens = best if vocabulary is None else vocabulary[best]
    return [Ranking(*row) for row in zip(tokens.tolist(), z.softmax(-1).gather(-1, best).tolist(), strict=True)]
