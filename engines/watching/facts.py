"""What a row of logits says, taken down while the forward's result still is what the model made: confidence, entropy,
the likeliest tokens, and the probabilities until it is known which token was written."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engines.core.lazy import Tensor, torch
from engines.core.packing import TOP_K

LONG, PIECE = 8192, 256  # rows as long as this are searched in pieces of so many numbers
BLOCK = 2**18  # numbers that are worked on at once


@dataclass
class Facts:
    """Of m rows of logits, by what they are called. confidence [m]: the largest probability; entropy [m], nats; tokens
    and chances [m, k]: the likeliest. probabilities [m, V]: kept until the written tokens are known, then dropped.
    place: of each row among the m; those whose probabilities are no numbers are left out."""

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
        if row not in self.place:
            return None
        at = (self.tokens[self.place[row]] == token).nonzero().flatten()
        return float(self.chances[self.place[row], at[0]]) if len(at) else None

    def __post_init__(self) -> None:
        numbers = self.chances[:, 0].isfinite().tolist()
        self.place = {row: i for i, row in enumerate(self.rows) if numbers[i]}

    @property
    def broken(self) -> int:
        """Rows whose probabilities are no numbers."""
        return len(self.rows) - len(self.place)

    def forget(self) -> None:
        """Let go of the probabilities."""
        self.probabilities = None

    def __deepcopy__(self, memo: Any) -> Facts:
        return copy.copy(self)  # no tensor of it is written into


def broken(logits: Tensor) -> bool:
    """Whether there is NaN or +inf among logits."""
    return not float(logits.sum(dtype=torch.float32)) < math.inf


def said_broken(facts: Facts | None, logits: Tensor) -> list[str]:
    """What is said of a forward whose logits are no numbers; without facts by its logits alone."""
    if not (facts.broken if facts is not None else broken(logits)):
        return []
    rows = f"{facts.broken} of {len(facts.rows)} rows of" if facts is not None else "the"
    return [f"NaN or infinite: {rows} logits of this forward are not finite, so their probabilities are missing."]


class Describer:
    """Takes down rows of logits. Their probabilities stand in one buffer, which the next call overwrites: allocating
    m x V numbers anew would cost more than computing them."""

    def __init__(self) -> None:
        self._buffer: Tensor | None = None

    def __call__(self, logits: Tensor, rows: Sequence[int], names: Sequence[int] | None = None) -> Facts:
        """The facts of some rows, rising, of logits [n, V]; names: what they are called, where that is another number.
        What is kept is a copy: the loop may change its logits afterwards."""
        m, whole = len(rows), rows[-1] - rows[0] + 1 == len(rows)
        z = (logits[rows[0] : rows[-1] + 1] if whole else logits[torch.tensor(rows, device=logits.device)]).float()
        size = z.shape[1]
        few = max(1, BLOCK // size) if z.device.type == "cpu" else m
        p, scratch = self._room(m, min(few, m), z)  # [m, V], [few, V]
        mean = torch.empty(m, device=z.device)
        for at in range(0, m, few):  # what fits into a processor's cache
            part = torch.softmax(z[at : at + few], -1, out=p[at : at + few])
            mean[at : at + few] = torch.mul(part, z[at : at + few], out=scratch[: len(part)]).sum(-1)
        chances, tokens = likeliest(p)
        entropy = z.gather(-1, tokens[:, :1])[:, 0] - chances[:, 0].log() - mean  # log Z - E[z]
        if not bool(entropy.isfinite().all()):  # logits of -inf
            entropy = torch.special.entr(p).sum(-1)
        return Facts(list(rows if names is None else names), chances[:, 0], entropy.clamp(min=0), tokens, chances, p)

    def __deepcopy__(self, memo: Any) -> Describer:
        return Describer()

    def _room(self, m: int, few: int, z: Tensor) -> tuple[Tensor, Tensor]:
        """The buffers [m, V] for the probabilities of these logits and [few, V] to work in."""
        kept, now = self._buffer, torch.is_inference_mode_enabled()
        fits = kept is not None and kept.shape[1] == z.shape[1] and kept.device == z.device and len(kept) >= m + few
        if kept is None or not fits or kept.is_inference() != now:
            self._buffer = kept = torch.empty(m + few, z.shape[1], dtype=torch.float32, device=z.device)
        return kept[few : few + m], kept[:few]


def likeliest(p: Tensor) -> tuple[Tensor, Tensor]:
    """The k largest of each row [m, V] and their places, both [m, k], largest first. Long rows are searched by their
    pieces: only the k pieces with the largest heads can hold them."""
    m, size = p.shape
    k = min(TOP_K, size)
    if size < LONG or size % PIECE:
        top = p.topk(k)
        return top.values, top.indices
    pieces = p.view(m, size // PIECE, PIECE)
    places = pieces.amax(-1).topk(k).indices  # [m, k]
    inside = pieces.gather(1, places[..., None].expand(-1, -1, PIECE)).reshape(m, -1)
    values, at = inside.topk(k)
    return values, places.gather(1, at // PIECE) * PIECE + at % PIECE
