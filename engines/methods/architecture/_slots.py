"""What chunks of tokens read of a memory, in slots of each layer and in bytes; and the twins that read the same rows, a
mixture of experts and a dense model.

Letters: n rows, L layers with memories, m slots of a row in a layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from engines.kit import MemoryTable, Routing, SlotsRead, Taps, token_probability, torch
from engines.methods.architecture._routed import pattern

if TYPE_CHECKING:
    from torch import Tensor

    from engines.kit import Roles

MATRICES = ("gate_proj", "up_proj", "down_proj")  # of a dense feed-forward part


class Read(NamedTuple):
    """Slots of a chunk of tokens: different ones, mean over the layers; bytes read, slots and what every forward
    reads."""

    union: float
    bytes_read: int


class Text:
    """The slots [L, m] that every position of the text read, of the pool."""

    def __init__(self, memories: Sequence[MemoryTable]) -> None:
        self.memories, self.slots = memories, list[np.ndarray]()
        self.ever = self.used(0)

    def add(self, read: Sequence[SlotsRead], base: int) -> int:
        """Rows from position `base` on, behind which nothing counts any more. Returns how many slots, counted by layer,
        none of the positions before had read."""
        if self.slots[base:]:
            del self.slots[base:]
            self.ever = self.used(0)
        before = sum(map(len, self.ever))
        self.slots += list(np.stack([one.slots.cpu().numpy() for one in read], 1))
        for ever, new in zip(self.ever, self.used(base), strict=True):
            ever |= new
        return sum(map(len, self.ever)) - before

    def used(self, start: int) -> list[set[int]]:
        """By layer the slots of the positions from `start` on."""
        rows = np.stack(self.slots[start:]) if self.slots[start:] else np.zeros((0, len(self.memories), 0), int)
        return [set(rows[:, layer].ravel().tolist()) for layer in range(len(self.memories))]

    def chunk(self, length: int) -> Read:
        """The last so many positions, read together."""
        used = self.used(max(0, len(self.slots) - length))
        size = sum(len(one) * table.slot_bytes for one, table in zip(used, self.memories, strict=True))
        return Read(sum(map(len, used)) / len(used), size + sum(table.always_bytes for table in self.memories))


class Beside:
    """Both twins on the rows of the model: what the mixture's routers chose and the dense one's guess."""

    def __init__(self, models: Roles, capacity: int) -> None:
        self.mixture, self.dense = models.mixture, models.dense
        self.caches = self.mixture.new_cache(capacity), self.dense.new_cache(capacity)
        self.experts: list[list[Tensor]] = []  # by position, by layer: which are on, [N]
        self.found: list[Routing] = []
        self.dense_bytes = self.router_bytes = 0

    def read(self, ids: Sequence[int], base: int) -> Tensor:
        """The rows from position `base` on. Returns the dense twin's logits [1, V] behind the last one."""
        for cache in self.caches:
            cache.crop(min(base, cache.length))
        del self.experts[base:]
        base, found, sizes = self.caches[0].length, list[Routing](), dict[tuple[int, str], int]()

        def sized(layer: int, name: str, x: Tensor, y: Tensor) -> None:
            sizes[layer, name] = x.shape[1] * y.shape[1] * x.element_size()

        x = self.mixture.embed(ids[base:])
        self.mixture.layers(x, self.caches[0], 0, self.mixture.num_layers, taps=Taps(router=found.append))
        self.router_bytes = sum(one.logits.shape[1] * x.shape[1] * x.element_size() for one in found)
        self.found = found
        self.experts += [list(row) for row in zip(*(pattern(one) for one in found), strict=True)]
        x = self.dense.embed(ids[base:])
        x = self.dense.layers(x, self.caches[1], 0, self.dense.num_layers, taps=Taps(linear=sized))
        self.dense_bytes = sum(size for (_, name), size in sizes.items() if name in MATRICES)
        z: Tensor = self.dense.unembed(x[-1:])
        return z

    def chunk(self, length: int) -> int:
        """Bytes of routers and experts that the last so many positions read together."""
        layers = zip(*self.experts[-length:], strict=True)
        unions = [int(torch.stack(layer).any(0).sum()) for layer in layers]
        sizes = [table.expert_bytes for table in self.mixture.mixtures]
        return self.router_bytes + sum(U * size for U, size in zip(unions, sizes, strict=True))


def probability(z: Tensor, token: int) -> float:
    """Of one token in logits [1, V]."""
    return float(token_probability(z, torch.tensor([token], device=z.device)))
