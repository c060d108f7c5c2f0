"""The layers of Llama's family in few calls, over the weights of transformers' modules and with their bits.

A layer is one function without modules; queries and keys are rotated together, by products with a table whose sign is
folded in once a forward (-x sin is x (-sin) to the bit).

Only layers that are named here and lie on the CPU have it, each tested to the bit. Where a hook stands on a part of a
layer, or a part was exchanged, the modules themselves run.

Attention of few rows in bfloat16 (`attend`): the query heads that share a key head go as rows of one product. torch's
kernel takes one query head after the other and reads a key head's keys and values again for each; and one to three rows
go through code for vectors, which is slow and rounds otherwise than that for matrices. As rows of one product a forward
of one row reads each key once.

A row then has the bits that it has beside others, up to the last columns that it does not see; alone in transformers'
call its last bit can differ from them (in 1 of 20 outputs of a layer over 200 positions). Forwards of four rows or more
stay as they are, except that keys and values are not copied for each query head, and so does float32, where nothing is
gained: their bits are those of transformers.

Shapes: B texts, n rows of each, D hidden size, H query heads and h key heads of size e (d in `attend`), g query heads
for each key head, C columns."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, rms_norm, scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from engines.models.layers.packed import PackedLinear
from engines.models.layers.slots import SlotCache, SlotLayer

FAMILIES = ("Llama", "Mistral", "Ministral", "Qwen2", "Qwen2Moe", "Arcee")
NORMED = ("Qwen3", "Qwen3Moe")  # queries and keys are normed, head by head, before they are rotated
OURS = "decoding_explorer_"  # what the names of our attention functions begin with
GROUPED = f"{OURS}grouped"  # under which transformers finds `attend`
LEAST = 4  # rows from which on torch multiplies matrices
DTYPES = (torch.float32, torch.bfloat16)
Function = Callable[[Tensor], Tensor]


class MergedLayer:
    """A decoder layer of transformers, of which `of` finds out whether it is one of these."""

    def __init__(self, layer: Any, normed: bool) -> None:
        part, feed = layer.self_attn, layer.mlp
        self.module, self._attention, self._feed = layer, part, feed
        self._hooks = [
            hooks for module in layer.modules() for hooks in (module._forward_hooks, module._forward_pre_hooks)
        ]
        self._q, self._k, self._v, self._o = map(_function, (part.q_proj, part.k_proj, part.v_proj, part.o_proj))
        self._before, self._between = _norm(layer.input_layernorm), _norm(layer.post_attention_layernorm)
        self._norms = (_norm(part.q_norm), _norm(part.k_norm)) if normed else None
        self._name, self._e = part.config._attn_implementation_internal, part.head_dim
        self._attend = attend if self._name == "sdpa" else ALL_ATTENTION_FUNCTIONS[self._name]
        self._gated: tuple[Function, ...] | None = None
        if _family(feed, "MLP") and hasattr(feed, "gate_proj"):
            self._gated = (feed.act_fn.forward, *map(_function, (feed.gate_proj, feed.up_proj, feed.down_proj)))

    @classmethod
    def of(cls, layer: Any) -> MergedLayer | None:
        """The layer in few calls; None where it is another or lies elsewhere."""
        part: Any = getattr(layer, "self_attn", None)
        norms = (getattr(layer, name, None) for name in ("input_layernorm", "post_attention_layernorm"))
        families = {_family(layer, "DecoderLayer"), _family(part, "Attention")} | {
            _family(norm, "RMSNorm") for norm in norms
        }
        if None in families or len(families) > 1:
            return None
        if not (part.config._attn_implementation or "").startswith(("sdpa", OURS)):
            return None
        if any(hasattr(module, "_hf_hook") for module in layer.modules()):
            return None
        if any(p.device.type != "cpu" or p.dtype not in DTYPES for p in layer.parameters() if p.is_floating_point()):
            return None
        return cls(layer, families <= {*NORMED})

    @property
    def stands(self) -> bool:
        """Whether the layer is still what was read: no hook, no other part, the same attention function."""
        parts, config = self.module._modules, self._attention.config
        same = parts["mlp"] is self._feed and parts["self_attn"] is self._attention
        return same and config._attn_implementation_internal == self._name and not any(self._hooks)

    def __call__(self, x: Tensor, B: int, mask: Any, turns: Turns, cache: SlotLayer | None, causal: bool) -> Tensor:
        """Rows [B n, D] to [B n, D]; the cache takes their keys and values. causal: without a mask, rows see what is
        before them."""
        y, shape = self._before(x), (B, len(x) // B, -1, self._e)
        q, k, v = self._q(y).view(shape), self._k(y).view(shape), self._v(y).view(shape)
        if self._norms:
            q, k = self._norms[0](q), self._norms[1](k)
        H, both = q.shape[2], torch.cat((q, k), 2)
        both = (both * turns.cos + both.roll(self._e // 2, -1) * turns.signed).transpose(1, 2)
        q, k, v = both[:, :H], both[:, H:], v.transpose(1, 2)
        if cache is not None:
            k, v = cache.update(k, v)
        out, _ = self._attend(self._attention, q, k, v, mask, scaling=self._attention.scaling, is_causal=causal)
        x = x + self._o(out.reshape(len(x), -1))
        y = self._between(x)
        if self._gated is None:
            return x + self._feed(y.view(B, -1, y.shape[-1])).view(x.shape)
        act, gate, up, down = self._gated
        return x + down(act(gate(y)) * up(y))


def _family(module: Any, suffix: str) -> str | None:
    """Whose class a module is an instance of, of those that are named here."""
    kind = type(module)
    family = kind.__name__.removesuffix(suffix)
    known = kind.__module__.startswith("transformers.models.") and kind.__name__.endswith(suffix)
    return family if known and family in FAMILIES + NORMED else None


def _function(module: Any) -> Function:
    """What a linear layer computes, without the call of a module where it is a plain or a packed one."""
    if type(module) is nn.Linear:
        weight, bias = module.weight, module.bias
        return lambda x: linear(x, weight, bias)
    if type(module) is PackedLinear:
        product, packed, shift = torch.ops.mkldnn._linear_pointwise.default, module._packed, module.bias
        return lambda x: product(x, packed, shift, "none", [], "")
    return module.forward


def _norm(module: Any) -> Function:
    """An RMS norm of that family: the rows are rounded to their type before the weight."""
    weight, eps, shape = module.weight, module.variance_epsilon, (module.weight.shape[0],)
    return lambda x: rms_norm(x, shape, None, eps) * weight


class Turns:
    """Cosines and sines [B, n, e] of a table of rotations, as a merged layer takes them: [B, n, 1, e], the first half
    of the sines negated."""

    def __init__(self, cos: Tensor, sin: Tensor) -> None:
        half = sin.shape[-1] // 2
        self.cos = cos[:, :, None]
        self.signed = torch.cat((-sin[..., :half], sin[..., half:]), -1)[:, :, None]


class MergedBody:
    """Embedding, layers and norm of a network of that family. See `of`."""

    def __init__(self, network: Any, layers: Sequence[MergedLayer]) -> None:
        body = network.base_model
        self._layers, self._embedding, self._rotary, self.turns = layers, body.embed_tokens, body.rotary_emb, Turns
        self._norm, self._head = body.norm, network.get_output_embeddings()
        self.config: Any = None  # of attention modules that are to give the bits of these layers; None: their own
        if network.dtype == torch.bfloat16 and network.config._attn_implementation == "sdpa":
            self.config = copy.copy(network.config.get_text_config())
            self.config._attn_implementation_internal = GROUPED

    @classmethod
    def of(cls, network: Any) -> MergedBody | None:
        """A network in few calls; None where a layer of it is none of these."""
        merged = [MergedLayer.of(layer) for layer in getattr(network.base_model, "layers", ())]
        layers = [layer for layer in merged if layer is not None]
        return cls(network, layers) if layers and len(layers) == len(merged) else None

    @torch.no_grad()
    def agrees(self) -> bool:
        """Whether the first layer has the bits of its own modules, for as many rows as torch multiplies matrices."""
        at, layer = torch.arange(LEAST)[None], self._layers[0]
        h = self._embedding(at % self._embedding.weight.shape[0])
        turns, mask = self._rotary(h, position_ids=at), h.new_zeros(1, 1, LEAST, LEAST)
        own = layer.module(h, attention_mask=mask, position_ids=at, position_embeddings=turns)
        return torch.equal(own[0], layer(h[0], 1, mask, Turns(*turns), None, causal=False))

    def layer(self, i: int) -> MergedLayer | None:
        """Layer i; None where it is no longer what was read."""
        layer = self._layers[i]
        return layer if layer.stands else None

    def logits(
        self, ids: Tensor, at: Tensor, mask: Tensor | None, cache: SlotCache | None, last_only: bool = False
    ) -> Tensor | None:
        """Logits [B, n, V] of ids [B, n] at positions at [1, n], or of the last row only; without a mask all see all.
        None, with nothing changed, where a layer is no longer what was read."""
        if not all(layer.stands for layer in self._layers):
            return None
        h = self._embedding(ids)
        turns, x = Turns(*self._rotary(h, position_ids=at)), h.view(-1, h.shape[-1])
        for i, layer in enumerate(self._layers):
            x = layer(x, len(h), mask, turns, cache and cache.layers[i], causal=False)
        h = x.view(h.shape)
        return self._head(self._norm(h[:, -1:] if last_only else h))


def attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    is_causal: bool | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Attention as transformers' modules call it: queries [B, h g, n, d], keys and values [B, h, C, d] to
    [B, n, h g, d]. attention_mask: [B, 1, n, C]; without one the rows are a whole text (is_causal) or see all."""
    n, g = query.shape[2], query.shape[1] // key.shape[1]
    causal = n > 1 and attention_mask is None and (module.is_causal if is_causal is None else is_causal)
    if query.dtype == torch.bfloat16:
        together = n < LEAST and not causal
    else:  # transformers groups heads in this case only
        together = n == 1 and g > 1 and attention_mask is not None
    if together:
        return _together(query, key, value, attention_mask, scaling), None
    out = scaled_dot_product_attention(
        query, key, value, attention_mask, is_causal=causal, scale=scaling, enable_gqa=g > 1
    )
    return out.transpose(1, 2), None


def _together(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scaling: float | None) -> Tensor:
    """The heads' rows as those of one product; [B, n, h g, d]."""
    (B, heads, n, d), h = query.shape, key.shape[1]
    R = heads // h * n
    q = query.reshape(B, h, R, d)
    if mask is not None:
        mask = mask.repeat(1, 1, heads // h, 1)
    if R < LEAST and query.dtype == torch.bfloat16:
        q, mask = _filled(q), None if mask is None else _filled(mask)
    out = scaled_dot_product_attention(q, key, value, mask, scale=scaling)
    return out[:, :, :R].reshape(B, heads, n, d).transpose(1, 2)


def _filled(rows: Tensor) -> Tensor:
    """LEAST rows [B, h, R, ...]: copies of the first behind them."""
    return torch.cat((rows, rows[:, :, :1].expand(-1, -1, LEAST - rows.shape[2], -1)), 2)


AttentionInterface.register(GROUPED, attend)
AttentionMaskInterface.register(GROUPED, ALL_MASK_ATTENTION_FUNCTIONS["sdpa"])
