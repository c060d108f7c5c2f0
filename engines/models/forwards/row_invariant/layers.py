"""Layers that give a row the same bits beside any number of rows.

A product of one row runs through other code than one of several, and in float32 the code changes with their number;
filled up to a number of rows that was tried, it does not (measured: oneDNN's packed bfloat16 with AVX-512 needs two
rows, MKL's float32 sixteen). The rows that fill up are copies, and their results are dropped. It changes with many rows
as well (measured: oneDNN's packed bfloat16 with AMX, 1536 to 576, from 130 rows on), so a product of more rows than
the trial at loading has is made in pieces of so many.

A function of single numbers such as SiLU or a cosine has two codes, one for whole vectors of the processor and one for
what is left at the end of a thread's share, which round otherwise. It is given whole vectors only, in pieces that one
thread takes."""

import copy
import math
from typing import Any

import torch
from torch import Tensor, nn

from engines.models.layers.packed import PackedLinear, WidenedLinear
from engines.models.measures.bits import SIZES

FEWEST = 2  # rows of a packed product
COMPARED = 200_000  # results of a layer that are compared to tell whether one row is enough
VECTOR = 32  # numbers that torch computes at once: two of the widest vectors
SHARE = 32_768  # numbers that torch leaves to one thread (at::internal::GRAIN_SIZE)
BLOCK = 16  # rows, of which every other product gets a whole number
MOST = SIZES[-1]  # rows of a product


def filled(x: Tensor, least: int, block: int) -> Tensor:
    """Rows [..., in] as [m, in] with others behind them: m is at least `least` and a whole number of blocks."""
    rows = x.reshape(-1, x.shape[-1])
    more = -(-max(len(rows), least) // block) * block - len(rows)
    return torch.cat([rows, rows[:1].expand(more, -1)]) if more else rows


class _Filling(nn.Module):
    """Goes before a kind of linear layer; `least` and `block` as in `filled`."""

    least, block = BLOCK, BLOCK

    def forward(self, x: Tensor) -> Tensor:
        """x [..., in] to [..., out]."""
        rows = x.reshape(-1, x.shape[-1])
        pieces = [self._product(piece) for piece in rows.split(MOST)]
        out = pieces[0] if len(pieces) == 1 else torch.cat(pieces)
        return out.view(*x.shape[:-1], out.shape[-1])

    def _product(self, rows: Tensor) -> Tensor:
        """Rows [n, in], n <= MOST, to [n, out]."""
        out: Tensor = super().forward(filled(rows, self.least, self.block))  # type: ignore[misc]
        return out[: len(rows)]


class FilledPacked(_Filling, PackedLinear):
    """A packed layer whose products have two rows or more; one where that was seen to change nothing (`fewest`)."""

    least, block = FEWEST, 1


class FilledWidened(_Filling, WidenedLinear):
    """A layer in bfloat16 that is multiplied in float32, sixteen rows at a time."""


class FilledLinear(_Filling, nn.Linear):
    """A plain layer, sixteen rows at a time."""


ACTIVATIONS = ("torch.nn.modules.activation", "transformers.activations")  # where their classes are defined
FILLED: dict[type[nn.Module], type[nn.Module]] = {
    PackedLinear: FilledPacked,
    WidenedLinear: FilledWidened,
    nn.Linear: FilledLinear,
}


def fill(layer: nn.Module, known: dict[tuple[int, int], int] | None = None) -> nn.Module:
    """The same layer, its products filled up; others than linear ones as they are. The layer is changed in place.
    known: (in, out) of packed layers -> rows that their products need, filled here."""
    if kind := FILLED.get(type(layer)):
        layer.__class__ = kind  # another forward over the same weights
    if isinstance(layer, FilledPacked) and known is not None:
        shape = (layer.in_features, layer.out_features)
        if shape not in known:
            known[shape] = fewest(layer)
        layer.least = known[shape]
    return layer


@torch.no_grad()
def fewest(layer: FilledPacked) -> int:
    """1 where one row gives the same bits as beside others, else 2. The shape decides, and rounding to bfloat16 hides
    most of what differs, so many numbers are compared."""
    g, pieces = torch.Generator().manual_seed(0), -(-COMPARED // (MOST * layer.out_features))
    rows = torch.randn(pieces * MOST, layer.in_features, generator=g).bfloat16()
    product = PackedLinear.forward
    together = torch.cat([product(layer, piece) for piece in rows.split(MOST)])
    same = all(torch.equal(product(layer, rows[i : i + 1])[0], together[i]) for i in range(len(rows)))
    return 1 if same else FEWEST


class InVectors(nn.Module):
    """A function of single numbers, such as an activation, over whole vectors. x [..., d] to [..., d]."""

    def __init__(self, function: nn.Module) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        """x [..., d] to [..., d]."""
        d = x.shape[-1]
        if d % VECTOR == 0 and x.numel() <= SHARE and x.is_contiguous():
            return self.function(x)
        block = VECTOR // math.gcd(d, VECTOR)  # rows that are a whole number of vectors
        rows = filled(x, 1, block).contiguous()
        pieces = rows.split(max(SHARE // d // block, 1) * block)
        out = torch.cat([self.function(piece) for piece in pieces]) if len(pieces) > 1 else self.function(rows)
        return out[: x.numel() // d].view(x.shape)


class Rotations(nn.Module):
    """A table of rotations whose angles are whole vectors."""

    def __init__(self, table: nn.Module) -> None:
        super().__init__()
        self.table = table

    def forward(self, x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        """position_ids [1, n] to cosines and sines [1, n, d]."""
        n = position_ids.shape[-1]
        at = nn.functional.pad(position_ids, (0, -n % VECTOR))
        cos, sin = self.table(x, position_ids=at)
        return cos[:, :n], sin[:, :n]


def twin(network: nn.Module) -> Any:
    """A copy of a network that shares its weights, with layers that fill up; the original stays as it is."""
    shared = [*network.parameters(), *network.buffers()]
    shared += [layer._packed for layer in network.modules() if isinstance(layer, PackedLinear)]
    made = copy.deepcopy(network, {id(tensor): tensor for tensor in shared})
    known: dict[tuple[int, int], int] = {}
    for parent in list(made.modules()):
        for name, layer in list(parent.named_children()):
            fill(layer, known)
            if type(layer).__module__ in ACTIVATIONS:
                setattr(parent, name, InVectors(layer))
    return made
