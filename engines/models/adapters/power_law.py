"""Our PLDR-LLM behind `PowerLawLM`: one forward, layer by layer, with keys, values and A in a cache, and with G made or
given.

Shapes: L layers, n rows fed, h heads of size d, V vocabulary."""

import time
from typing import Any

import torch
from torch import Tensor

from engines.core.kinds import KVCache
from engines.core.kinds.base import Ids
from engines.core.kinds.power_law import Deduced
from engines.core.meter import synchronise
from engines.models.adapters.base import HFModel, check_position
from engines.models.layers.slots import SlotCache, check_room
from engines.models.networks.pldr import attend


class PowerLawCache(SlotCache):
    """Keys and values of every layer, and A [1, h, d, d], which the first rows leave and no later one changes."""

    def __init__(self, layers: int, capacity: int) -> None:
        super().__init__(layers, capacity)
        self.A: list[Tensor | None] = [None] * layers


class HFPowerLawLM(HFModel):
    """A `PLDRForCausalLM` with its tokenizer: see `PowerLawLM`."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        c, size = self.config, int(self.model.dtype.itemsize)
        self.max_positions, self.num_layers = int(c.max_position_embeddings), int(c.num_hidden_layers)
        self.position_bytes = 2 * self.num_layers * c.hidden_size * size  # of keys and values in all layers
        # of A_LM and G_LM of all layers, whatever the length: 2 L h d^2 numbers
        self.operator_bytes = 2 * self.num_layers * c.hidden_size**2 // c.num_attention_heads * size

    def _first_calls(self) -> None:
        cache = self.new_cache(4)
        G = self.forward([0, 0, 0], cache).G_LM
        self.forward([0], cache)
        self.forward([0, 0, 0, 0], G=G)

    def new_cache(self, capacity: int) -> PowerLawCache:
        """An empty cache for up to `capacity` positions."""
        return PowerLawCache(self.num_layers, capacity)

    @torch.no_grad()
    def forward(
        self, tokens: Ids, cache: KVCache | None = None, G: Tensor | None = None, *, last_only: bool = True
    ) -> Deduced:
        """See `PowerLawLM`. Raises UserError if rows do not fit the cache or the model's positions, ValueError for no
        token or a G of another shape."""
        assert cache is None or isinstance(cache, PowerLawCache)
        ids, past = self._ids(tokens), cache.length if cache is not None else 0
        self._check(ids.shape[1], past, cache, G)
        device = str(self.device)
        synchronise(device)
        began, spent, made = time.perf_counter(), 0.0, list[tuple[Tensor, Tensor]]()
        x = self.model.model.embed(ids)
        for i, layer in enumerate(self.model.model.layers):
            q, k, v = layer.attention.project(x, past)
            if cache is not None:
                k, v = cache.layers[i].update(k, v)
            if G is None:
                start = time.perf_counter()
                A = cache.A[i] if cache is not None else None
                A = layer.attention.metric(q) if A is None else A  # a cache of A skips the deep part, not the powers
                made.append(layer.attention.operator(A))
                if cache is not None:
                    cache.A[i] = A
                synchronise(device)
                spent += time.perf_counter() - start
            x = layer.finish(x, attend(q, made[i][1] if G is None else G[i], k, v))
        logits = self.model.lm_head(x[0, -1:] if last_only else x[0]).float()
        synchronise(device)
        ended = time.perf_counter()
        A_LM, G_LM = (torch.cat(part) for part in zip(*made, strict=True)) if G is None else (None, G)
        return Deduced(logits, A_LM, G_LM, began, ended, spent)

    def _check(self, n: int, past: int, cache: PowerLawCache | None, G: Tensor | None) -> None:
        if not n:
            raise ValueError("no token was fed; give at least one")
        if cache is not None:
            check_room(past, n, cache.capacity)
        check_position(self, past + n - 1)
        h = self.config.num_attention_heads
        d = self.config.hidden_size // h
        if G is not None and tuple(G.shape) != (self.num_layers, h, d, d):
            raise ValueError(f"G of shape {tuple(G.shape)} was given; [{self.num_layers}, {h}, {d}, {d}] is needed")
