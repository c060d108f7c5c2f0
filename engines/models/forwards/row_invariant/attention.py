"""Attention whose sums have one order: that of the text.

Scores, weights and sums are float32. The columns that a row sees are taken in the order of its own text, in blocks of
`BLOCK` counted from the text's first token: a block's products are one matrix product, and blocks are added one after
the other. A column that a row does not see has the weight 0 at its place, so neither a longer cache nor other rows
change a sum. More rows than the trial at loading has are taken in pieces of so many. In a draft tree a row's ancestors
lie apart; the values of the blocks that they share with the end of the text are gathered for each row in its own order.
Scores need no order: each is a sum over one column.

Shapes: h key-value heads, g query heads for each, n rows, d head size, C columns of the cache in whole blocks, B the
block, T blocks from the one that the tree begins in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface

from engines.models.forwards.row_invariant.layers import MOST
from engines.models.layers.slots import SlotLayer

BLOCK = 64
ROWS = 8  # a product has a whole number of so many rows
NAME = "decoding_explorer_row_invariant"  # under which transformers finds `attend`


class BlockLayer(SlotLayer):
    """A layer of the cache in float32 whose views end with a block; the rows behind those in use hold anything."""

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """See `SlotLayer`."""
        self.dtype, self.device = torch.float32, key_states.device
        room = -(-self.capacity // BLOCK) * BLOCK
        self.keys, self.values = (
            torch.zeros(*states.shape[:2], room, states.shape[-1], device=states.device)
            for states in (key_states, value_states)
        )
        self.is_initialized = True

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """See `SlotLayer.update`; the views [1, h, C, d] are whole blocks."""
        super().update(key_states, value_states)
        end = -(-(self.length + self.board) // BLOCK) * BLOCK
        return self.keys[:, :, :end], self.values[:, :, :end]


@dataclass
class Seen:
    """What n rows see of C columns. sees [n, C]. start: the first column of the block in which the text before them
    ends. order [n, T B]: of a tree, the columns from `start` on in the order of each row's text, -1 where it sees no
    more; None of a chain, whose columns stand in that order."""

    sees: Tensor
    start: int
    order: Tensor | None

    @cached_property
    def hidden(self) -> Tensor:
        """What the rows do not see [n, C]."""
        return ~self.sees

    @classmethod
    def of(cls, past: int, early: int, n: int, parents: Sequence[int], device: torch.device) -> Seen:
        """Behind `past` rows of text and `early` rows of a tree; no parents: a chain. parents: of early and new rows,
        -1 for the end of the text."""
        end = past + early + n
        sees = torch.arange(-(-end // BLOCK) * BLOCK) <= past + torch.arange(n)[:, None]
        if not parents:
            return cls(sees.to(device), past // BLOCK * BLOCK, None)
        start = past // BLOCK * BLOCK
        lines = [[*range(start, past), *(past + at for at in _line(row, parents))] for row in range(early, early + n)]
        room = -(-max(map(len, lines)) // BLOCK) * BLOCK
        order = torch.tensor([line + [-1] * (room - len(line)) for line in lines])
        sees[:, start:] = False
        rows, places = (order >= 0).nonzero(as_tuple=True)
        sees[rows, order[rows, places]] = True
        return cls(sees.to(device), start, order.to(device))

    @cached_property
    def pieces(self) -> list[Seen]:
        """What at most `MOST` rows see at a time, in order."""
        if len(self.sees) <= MOST:
            return [self]
        sees = self.sees.split(MOST)
        orders = [None] * len(sees) if self.order is None else self.order.split(MOST)
        return [Seen(some, self.start, order) for some, order in zip(sees, orders, strict=True)]


def _line(row: int, parents: Sequence[int]) -> list[int]:
    """A row of a tree and its ancestors, the first one first."""
    line = list[int]()
    while row >= 0:
        line.append(row)
        row = parents[row]
    return line[::-1]


def attend(
    module: Any, query: Tensor, key: Tensor, value: Tensor, seen: Seen | None, scaling: float | None = None, **_: Any
) -> tuple[Tensor, None]:
    """Attention as transformers' modules call it: queries [1, h g, n, d], keys and values [1, h, C, d] in float32, to
    [1, n, h g, d] in the queries' type. Without `seen` the rows are a whole text and the keys theirs."""
    h, (heads, n, d) = key.shape[1], query.shape[1:]
    if seen is None:
        seen = Seen.of(0, 0, n, (), query.device)
        key, value = (torch.nn.functional.pad(tensor.float(), (0, 0, 0, -n % BLOCK)) for tensor in (key, value))
    scale = d**-0.5 if scaling is None else scaling
    rows = query[0].float().view(h, heads // h, n, d).split(MOST, 2)
    pieces = [_piece(q, key[0], value[0], part, scale) for q, part in zip(rows, seen.pieces, strict=True)]
    return torch.cat(pieces, 2).permute(2, 0, 1, 3).reshape(1, n, heads, d).to(query.dtype), None


def _piece(q: Tensor, K: Tensor, V: Tensor, seen: Seen, scale: float) -> Tensor:
    """The same for queries [h, g, n, d] of at most `MOST` rows: [h, g, n, d]."""
    h, g, n, d = q.shape
    q = torch.nn.functional.pad(q.reshape(h, g * n, d), (0, 0, 0, -(g * n) % ROWS))
    S = torch.bmm(q, K.transpose(1, 2)).mul_(scale)
    if seen.order is not None:
        return _over_tree(S, V, seen, (h, g, n, d))
    S[:, : g * n].view(h, g, n, -1).masked_fill_(seen.hidden, -torch.inf)
    P = S.sub_(S.amax(-1, keepdim=True)).exp_()
    out = _summed(P, V).div_(_in_order(_by_block(P)))
    return out[:, : g * n].view(h, g, n, d)


def _summed(P: Tensor, V: Tensor) -> Tensor:
    """Weighted values [h, R, d] of the columns of P [h, R, C], block after block."""
    out = P.new_zeros(*P.shape[:2], V.shape[-1])
    for at in range(0, P.shape[2], BLOCK):
        out = torch.baddbmm(out, P[:, :, at : at + BLOCK], V[:, at : at + BLOCK])
    return out


def _by_block(P: Tensor) -> Tensor:
    """The sum of the weights of each block: [..., C] to [..., C / B]."""
    return P.unflatten(-1, (-1, BLOCK)).sum(-1)


def _in_order(sums: Tensor) -> Tensor:
    """Sums of blocks [..., T], added one after the other: [..., 1]."""
    return sums.cumsum(-1)[..., -1:]


def _over_tree(S: Tensor, V: Tensor, seen: Seen, shape: tuple[int, int, int, int]) -> Tensor:
    """The same [h, g, n, d] for the rows of a tree, from their scores [h, R, C]."""
    (h, g, n, d), order = shape, seen.order
    assert order is not None
    at = order.clamp(min=0)
    late = S[:, : g * n].view(h, g, n, -1).gather(3, at.expand(h, g, *at.shape)).masked_fill_(order < 0, -torch.inf)
    early = S[:, :, : seen.start]
    most = late.amax(-1)  # [h, g, n]
    if seen.start:
        most = torch.maximum(most, early[:, : g * n].amax(-1).view(h, g, n))
    flat = torch.nn.functional.pad(most.view(h, g * n, 1), (0, 0, 0, S.shape[1] - g * n))
    weights = early.sub(flat).exp_()
    P = late.sub_(most[..., None]).exp_()  # [h, g, n, T B]
    sums = torch.cat([_by_block(weights)[:, : g * n].view(h, g, n, -1), _by_block(P)], -1)
    out = _summed(weights, V)[:, : g * n].view(h, g, n, d)
    more = (0, 0, 0, -g % ROWS)
    out, P = (torch.nn.functional.pad(tensor.transpose(1, 2), more).view(h * n, g + more[3], -1) for tensor in (out, P))
    for k in range(0, at.shape[1], BLOCK):
        values = V[:, at[:, k : k + BLOCK]].view(h * n, BLOCK, d)
        out = torch.baddbmm(out, P[:, :, k : k + BLOCK], values)
    return out.view(h, n, -1, d)[:, :, :g].transpose(1, 2) / _in_order(sums)


AttentionInterface.register(NAME, attend)
AttentionMaskInterface.register(NAME, lambda *_, **__: None)  # of a network's own forward, which asks for one
