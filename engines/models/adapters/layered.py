"""Llama- and Qwen-like transformers behind `LayeredLM`: the stock modules, called one by one.

The families in `configs.mapping.LAYERED` have one shape: an embedding, layers that share one mask for each type
of attention and one table of rotations, a norm and a linear head. Their own forward is that and bookkeeping, so what is
composed here gives its logits to the bit (tested for each family), in no more time: the mask and the rotations are made
once a call, the cache counts rows by layer anyway. On a CPU the layers of Llama's family run in few calls (see
`forwards`), unless something inside them is tapped.

Shapes: n rows fed, d hidden size, V vocabulary."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakTensorKeyDictionary
from transformers.masking_utils import create_causal_mask, create_sliding_window_causal_mask

from engines.core.errors import UserError
from engines.core.kinds import Extended, KVCache, Taps
from engines.core.kinds.base import Ids, Parents
from engines.models.adapters.causal import HFCausalLM, Rows, place, types_by_layer
from engines.models.adapters.taps import tapped
from engines.models.layers.packed import PackedLinear, WidenedLinear, pack_linear
from engines.models.layers.slots import SlotCache

RAW = -1  # among the states that are asked for: behind the last layer, before the final norm
MASKS: dict[str, Any] = {
    "full_attention": create_causal_mask,
    "sliding_attention": create_sliding_window_causal_mask,
}


class HFLayeredLM(HFCausalLM):
    """A transformers causal model of such a family, with its tokenizer: see `LayeredLM`. `eos_ids`: the ids that end an
    answer."""

    mergeable = True

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        body = self.model.base_model
        self._embedding, self._norm, self._rotary = body.embed_tokens, body.norm, body.rotary_emb
        self._layers = list(body.layers)[: self.num_layers]
        self._types = types_by_layer(self.config)
        self._head, self._dtype = self.model.get_output_embeddings(), self.model.dtype
        self._heads = WeakTensorKeyDictionary()  # the rows of the head by vocabulary; weights only, never a run's state

    @property
    def weights(self) -> dict[str, int]:
        """How many weights the layers have ("layers") and the output head ("unembed")."""
        return {"layers": sum(map(weights_of, self._layers)), "unembed": weights_of(self._head)}

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
        """See `HFCausalLM.extend`; here the three calls composed. hidden: also `RAW` (-1), the stream behind the last
        layer and before the final norm."""
        streams: dict[int, Tensor] = {}
        taps = Taps(stream=streams.__setitem__) if hidden else None
        x = self.layers(self.embed(tokens), cache, 0, self.num_layers, parents=parents, taps=taps)
        streams[RAW], streams[self.num_layers] = x, (h := self.normed(x))
        logits = self.unembed(h[-1:] if last_only else h, normed=True)
        return Extended(logits, {i: streams[i] for i in hidden})

    @torch.no_grad()
    def embed(self, tokens: Ids) -> Tensor:
        """See `LayeredLM`."""
        return self._embedding(self._ids(tokens))[0]

    @torch.no_grad()
    def layers(
        self,
        x: Tensor,
        cache: KVCache,
        first: int,
        last: int,
        *,
        parents: Parents = None,
        positions: Sequence[int] | None = None,
        taps: Taps | None = None,
    ) -> Tensor:
        """See `LayeredLM`. Raises UserError too if rows do not fit the cache or the model's positions."""
        assert isinstance(cache, SlotCache)
        if not 0 <= first <= last <= self.num_layers:
            raise UserError(
                f"layers {first} to {last} of {self.record.name} were asked for and it has {self.num_layers}; choose "
                f"a first and a last one with 0 <= first <= last <= {self.num_layers}."
            )
        if first == last:
            return x
        new = self._place(x, cache, first, last, parents, positions)
        at = torch.tensor([new.positions], device=x.device)
        h = x.to(self._dtype)[None]
        masks = {kind: self._mask(kind, new, h, cache, first, at) for kind in set(self._types[first:last])}
        rotations = self._rotary(h, position_ids=at)

        def show(i: int, x: Tensor) -> None:
            if taps and taps.stream and taps.at(i):
                taps.stream(i, x)

        turns, config = (self.body.turns(*rotations), self.body.config) if self.body else (None, None)
        for i in range(first, last):
            show(i, h[0])
            mask = masks[self._types[i]]
            if turns and not (taps and taps.inside(i)) and (merged := self.body.layer(i)):
                h = merged(h[0], 1, mask, turns, cache.layers[i], causal=True)[None]
                continue
            layer = self._layers[i] if taps is None else tapped(self._layers[i], i, taps, config)
            h = layer(
                h,
                attention_mask=mask,
                position_ids=at,
                past_key_values=cache,
                use_cache=True,
                position_embeddings=rotations,
            )
        show(last, h[0])
        return h[0]

    def _place(
        self, x: Tensor, cache: SlotCache, first: int, last: int, parents: Parents, positions: Sequence[int] | None
    ) -> Rows:
        """Where rows stand in these layers, checked before anything is written."""
        held = cache.layers[first].length
        if other := next((i for i in range(first, last) if cache.layers[i].length != held), None):
            raise ValueError(
                f"layer {first} holds {held} rows and layer {other} holds {cache.layers[other].length}; layers that "
                "run in one call must hold the same"
            )
        new = place(len(x), parents, held)
        if positions is not None:
            if len(positions) != len(x):
                raise ValueError(f"{len(x)} rows and {len(positions)} positions were given; give one for each")
            new = Rows(new.past, new.early, positions, new.parents, new.chain)
        self._check(new, cache.capacity)
        return new

    def _mask(self, kind: str, new: Rows, h: Tensor, cache: SlotCache, layer: int, at: Tensor) -> Tensor | None:
        """What the layers of that type get as mask: as their own forward makes it, sized by a layer of this call."""
        if not new.chain:
            return new.mask(self._dtype, h.device)
        if self.body and kind == "full_attention":
            return new.sees(h.device)
        return MASKS[kind](
            config=self.config,
            inputs_embeds=h,
            attention_mask=None,
            past_key_values=cache,
            position_ids=at,
            layer_idx=layer,
        )

    @torch.no_grad()
    def normed(self, h: Tensor) -> Tensor:
        """See `LayeredLM`."""
        return self._norm(h.to(self._dtype)[None])[0]

    @torch.no_grad()
    def unembed(self, h: Tensor, vocabulary: Ids | None = None, *, normed: bool = False) -> Tensor:
        """See `LayeredLM`. Logits in float32."""
        h = h.to(self._dtype) if normed else self.normed(h)
        return self._logits(h[None], vocabulary)[0].float()

    def _logits(self, h: Tensor, vocabulary: Ids | None) -> Tensor:
        head = self._head if vocabulary is None else self._rows_of_head(vocabulary)
        return head(h)

    def _rows_of_head(self, vocabulary: Ids) -> nn.Module:
        """The output head of these tokens only. Raises UserError for one that is not in the vocabulary."""
        known = self._heads.get(vocabulary) if isinstance(vocabulary, Tensor) else None
        if known is not None:
            return known
        ids = torch.as_tensor(vocabulary, dtype=torch.long, device=self.device)
        if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < self.vocab_size:
            raise UserError(
                f"logits of the tokens {int(ids.min())} to {int(ids.max())} were asked for; ids of "
                f"{self.record.name} go from 0 to {self.vocab_size - 1}."
            )
        tied = isinstance(self._head, PackedLinear) and getattr(self.config, "tie_word_embeddings", False)
        head = linear(
            (self._embedding if tied else self._head).weight[ids],
            None if self._head.bias is None else self._head.bias[ids],
        )
        if isinstance(self._head, (PackedLinear, WidenedLinear)):
            head = pack_linear(head)
        if isinstance(vocabulary, Tensor):
            self._heads[vocabulary] = head
        return head


def weights_of(module: nn.Module) -> int:
    """How many weights a module has, packed ones too."""
    packed = (child for child in module.modules() if isinstance(child, PackedLinear))
    return sum(p.numel() for p in module.parameters()) + sum(layer.in_features * layer.out_features for layer in packed)


def linear(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    """A linear layer around a weight [out, in] that is there already; for forwards only."""
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, device="meta")
    layer.weight = nn.Parameter(weight, requires_grad=False)
    if bias is not None:
        layer.bias = nn.Parameter(bias, requires_grad=False)
    return layer
