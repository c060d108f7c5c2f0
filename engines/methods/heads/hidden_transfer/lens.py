"""What the output head reads of pseudo rows after each layer above the one that they entered at (the logit lens)."""

from collections.abc import Mapping, Sequence
from typing import Any

from engines.kit import Probability, Record, Taps, Tensor, TokenId, torch
from engines.methods.heads._rankings import Ranking


class Transfer(Record):
    """The pseudo rows that guessed a round's drafts, as the output head reads them after each layer from the transfer
    layer on. They stood after `source`, whose state was mapped, and were made in the call before; where nothing was
    drafted there are none."""

    layer: int  # l
    layers: int  # n
    source: TokenId | None = None
    tokens: list[list[TokenId]] = []  # [n - l + 1, m]: after l, l + 1 ... n layers; the last are the first guesses
    chances: list[list[Probability]] = []  # of the same shape


def above(streams: dict[int, Tensor], first: int) -> Taps:
    """Taps that put the rows from `first` on behind each layer into `streams`, [rows, d]."""
    return Taps(stream=lambda layer, x: streams.update({layer: x[first:].clone()}))


def read(
    model: Any,
    streams: Mapping[int, Tensor],
    vocabulary: Tensor | None,
    source: int,
    predicts: int,
    guesses: Sequence[Ranking],
) -> Transfer:
    """The record of pseudo rows [m, d] behind l ... n layers, the first of which speaks of position `predicts`. Of the
    last layer it has what was guessed [m], and computes nothing again."""
    *below, n = sorted(streams)
    tokens, sure = [], []
    if below:
        m = len(guesses)
        places = [*range(predicts, predicts + m)] * len(below)
        rows = torch.cat([streams[layer] for layer in below])
        z = model.unbooked().unembed(rows, vocabulary, predicts=places)
        p, best = z.softmax(-1).max(-1)  # [(n - l) m]
        best = best if vocabulary is None else vocabulary[best]
        tokens, sure = best.view(-1, m).tolist(), p.view(-1, m).tolist()
    tokens.append([ranking.tokens[0] for ranking in guesses])
    sure.append([ranking.chances[0] for ranking in guesses])
    rounded = [[round(chance, 4) for chance in row] for row in sure]
    return Transfer(min(streams), n, source, tokens, rounded)
