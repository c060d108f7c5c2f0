"""Any left-to-right transformer with keys and values behind `CausalLM`: chains and draft trees on a preallocated cache,
each call one forward of the stock class. Those that can be run layer by layer stand in `layered`.

A chain goes without a mask of ours (one row needs none, a prefill takes the causal kernel); measured on SmolLM2, an
explicit mask is neither faster nor slower. `no_grad` rather than inference mode, so that a method may write into the
logits it gets.

Shapes: L cached positions, n rows fed, V vocabulary, d hidden size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from engines.core.errors import UserError
from engines.core.kinds import Extended, KVCache
from engines.core.kinds.base import Ids, Parents
from engines.core.picture import picture_of
from engines.core.trees import row_depths
from engines.models.adapters.base import HFModel, check_position
from engines.models.adapters.family import SERVED, most_rows, positions_of
from engines.models.layers.slots import SlotCache, check_room


class HFCausalLM(HFModel):
    """A transformers causal model with its tokenizer. `eos_ids`: the ids that end an answer."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        record, self.num_layers = self.record, self.config.num_hidden_layers
        self.max_positions, self.rotations_change = positions_of(self.config)
        self._layer_types = layer_types(self.config)
        if other := self._layer_types - SERVED:
            raise UserError(
                f"'{record.name}' is of the type '{self.model.config.model_type}' and has {', '.join(sorted(other))} "
                "layers; only full, sliding, local and chunked attention can be run with the cache of keys and "
                "values here, so choose a Llama- or Qwen-like model."
            )
        self.alibi, self.branches = bool(getattr(self.config, "alibi", False)), True
        self._most_rows = most_rows(self.model, self.max_positions)
        self._measured_bytes = 0
        self.picture = picture_of(self.config)

    @property
    def longest_answer(self) -> int | None:
        """Tokens that it can write behind a prompt, where that has an end: the cells of its picture."""
        return self.picture.cells if self.picture else None

    @property
    def takes_trees(self) -> bool:
        """Whether the rows of a forward may branch."""
        return self.branches and not self.alibi and self._layer_types == {"full_attention"}

    @property
    def position_bytes(self) -> int:
        """Bytes of keys and values that a position takes in all layers, as a cache of this model was measured or its
        config says; 0 where neither tells."""
        if self._measured_bytes:
            return self._measured_bytes
        c = self.config
        if elements := getattr(c, "cached_elements", None):  # of a layer, where a network of ours says so
            return int(self.num_layers * elements * self.model.dtype.itemsize)
        heads = getattr(c, "num_key_value_heads", None) or getattr(c, "num_attention_heads", 0)
        size = getattr(c, "head_dim", None) or getattr(c, "hidden_size", 0) // (
            getattr(c, "num_attention_heads", 0) or 1
        )
        return int(2 * self.num_layers * heads * size * self.model.dtype.itemsize)

    def measured(self, cache: SlotCache) -> None:
        """Take what a position costs from a cache that was filled."""
        self._measured_bytes = cache.bytes // cache.capacity

    def _first_calls(self) -> None:
        cache = self.new_cache(4)
        self.extend([0, 0, 0], cache)
        self.extend([0], cache)

    def new_cache(self, capacity: int) -> SlotCache:
        """An empty cache for up to `capacity` positions."""
        return SlotCache(self.num_layers, capacity)

    @torch.no_grad()
    def extend(
        self,
        tokens: Ids,
        cache: KVCache,
        *,
        parents: Parents = None,
        hidden: Sequence[int] = (),
        last_only: bool = False,
    ) -> Extended:
        """See `CausalLM`. Logits [n, V] (or [1, V]) in float32. Raises UserError if rows do not fit the cache or the
        model's positions.

        hidden: numbers of layers; i gives the stream [n, d] behind i layers, 0 the embeddings, `num_layers` the stream
        behind the final norm, which is what the output head reads (transformers' `hidden_states`)."""
        assert isinstance(cache, SlotCache)
        ids = self._ids(tokens)
        new = place(ids.shape[1], parents, cache.length)
        self._check(new, cache.capacity)
        out = self.model(
            input_ids=ids,
            position_ids=torch.tensor([new.positions], device=self.device),
            attention_mask=new.mask(self.model.dtype, self.device),
            past_key_values=cache,
            use_cache=True,
            output_hidden_states=bool(hidden),
            logits_to_keep=1 if last_only else 0,
        )
        logits = out.logits[0, -1:] if last_only else out.logits[0]  # some networks do not know `logits_to_keep`
        return Extended(logits.float(), {i: out.hidden_states[i][0] for i in hidden})

    @torch.no_grad()
    def by_itself(self, tokens: Ids) -> Tensor:
        """Logits [n, V] of a whole text as the network's own forward gives them: without our cache, masks and
        positions, so that these can be held against it."""
        return self.model(input_ids=self._ids(tokens), use_cache=False).logits[0].float()

    def _check(self, new: Rows, capacity: int) -> None:
        """Refuse rows that this model or a cache of that capacity cannot take."""
        if not new.chain and self.alibi:
            raise UserError(
                f"{self.record.name} has ALiBi, which counts distances in rows of the cache instead of positions, so "
                "it can take neither a draft tree nor several paths; choose another model, or a method that drafts a "
                "chain."
            )
        if not new.chain and not self.branches:
            raise UserError(
                f"{self.record.name} gives other logits for the branches of a draft tree than for each alone, so it "
                "can take neither a draft tree nor several paths; choose another model, or a method that drafts a "
                "chain."
            )
        if not new.chain and self._layer_types != {"full_attention"}:
            kinds = ", ".join(sorted(self._layer_types))
            raise UserError(
                f"{self.record.name} has {kinds} layers, which cannot take a draft tree; choose a model with full "
                "attention in all layers."
            )
        check_room(new.past + new.early, len(new.positions), capacity)
        if self._most_rows and (rows := new.past + new.early + len(new.positions)) > self._most_rows:
            raise UserError(
                f"{self.record.name} keeps its causal mask as a table of {self._most_rows} rows and {rows} were fed; "
                "take fewer paths, smaller drafts or fewer new tokens."
            )
        check_position(self, max(new.positions))


@dataclass(frozen=True)
class Rows:
    """Where new rows stand: behind `past` rows of text and, in a tree, `early` rows that were fed in earlier calls.
    positions [n]. parents: of the early rows and these. chain: nothing branches."""

    past: int
    early: int
    positions: Sequence[int]
    parents: Sequence[int]
    chain: bool

    def mask(self, dtype: torch.dtype, device: torch.device) -> Tensor | None:
        """The tree's mask [1, 1, n, past + early + n]; none for a chain."""
        return None if self.chain else tree_mask(self.parents, self.past, dtype, device, self.early)

    def sees(self, device: torch.device) -> Tensor | None:
        """A chain's mask [1, 1, n, past + early + n], True where a row sees a column; none for one row, which sees
        everything, and for a whole text."""
        n, before = len(self.positions), self.past + self.early
        if n == 1 or before == 0:
            return None
        columns, rows = torch.arange(before + n, device=device), torch.arange(n, device=device)
        return (columns <= before + rows[:, None])[None, None]


def place(n: int, parents: Parents, held: int) -> Rows:
    """Where n new rows with these parents stand behind `held` ones (see `CausalLM.extend`). Raises ValueError where the
    numbers cannot be."""
    if parents is None and n:
        return Rows(held, 0, range(held, held + n), (), True)
    early = len(parents or ()) - n
    if n == 0 or not 0 <= early <= held:
        raise ValueError(
            f"{n} tokens and {len(parents or ())} parents were fed; at least one token, and a parent for each and for "
            "the tree's rows in the cache"
        )
    depths, past = row_depths(parents or ()), held - early
    chain = depths == list(range(n + early))
    return Rows(past, early, [past + depth for depth in depths[early:]], parents or (), chain)


def tree_mask(parents: Sequence[int], past: int, dtype: torch.dtype, device: torch.device, early: int = 0) -> Tensor:
    """Additive mask [1, 1, n - early, past + n] of a tree of n rows: each row from `early` on sees the cache, its
    ancestors and itself. The rows before are in the cache already and cost next to nothing here.

    Never boolean: eager attention would add True and False to the scores, silently.
    """
    n = len(parents)
    sees = torch.zeros(n - early, n, dtype=torch.bool)
    for row in range(early, n):
        at = parents[row]
        if at >= early:
            sees[row - early] = sees[at - early]
        else:
            line = []
            while at >= 0:
                line.append(at)
                at = parents[at]
            sees[row - early, line] = True
        sees[row - early, row] = True
    mask = torch.zeros(1, 1, n - early, past + n, dtype=dtype)
    mask[0, 0, :, past:].masked_fill_(~sees, torch.finfo(dtype).min)
    return mask.to(device)


def types_by_layer(config: Any) -> list[str]:
    """The kind of each layer that a transformers config declares: full_attention, sliding_attention, linear_attention
    ..."""
    from transformers.cache_utils import get_layer_types_and_kwargs

    if "local" in (own := getattr(config, "attention_layers", None) or ()):  # GPT-Neo's words, which are not read there
        return [f"{'local' if kind == 'local' else 'full'}_attention" for kind in own]
    return list(get_layer_types_and_kwargs(config)[0])


def layer_types(config: Any) -> set[str]:
    """The kinds of layers that occur."""
    return set(types_by_layer(config))
