"""Stock layers that hand out what passes inside them, for one call: see `Taps`.

A tapped layer is a shallow copy that shares the weights of the original and has hooks of its own. The original is never
touched, so other runs on the same model, in other threads too, notice nothing."""

import copy
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface

from engines.core.errors import UserError
from engines.core.kinds.layered import AttentionInputs, Routing, SlotsRead, Taps

NORM = "post_attention_layernorm"  # before the feed-forward part, in most families
ATTENTION = "decoding_explorer_taps"  # the name under which transformers finds our function


def tapped(layer: nn.Module, number: int, taps: Taps, config: Any = None) -> nn.Module:
    """The layer as it is, or a copy that hands out what these taps want of it (a dense layer has no router, a
    sparse one no channels). config: one that names another attention function. Raises UserError for a layer of a model
    that is spread over devices."""
    if not taps.inside(number):
        return layer
    if hasattr(layer, "_hf_hook"):
        raise UserError(
            "a model that is spread over several devices cannot hand out what passes inside its layers; load it on one "
            "device, without device_map."
        )
    twin = _copy(layer)
    if config is not None:
        _own(twin, "self_attn").config = config
    norm = hasattr(layer, "input_layernorm")  # some families norm behind a part: what stands before it is the part
    if taps.reads:
        _tap_rows(_own(twin, "input_layernorm" if norm else "self_attn"), number, taps.reads)
    if taps.feeds:
        before = "pre_feedforward_layernorm" if hasattr(layer, "pre_feedforward_layernorm") else NORM
        _tap_rows(_own(twin, before if norm else "mlp"), number, taps.feeds)
    if taps.attention:
        _tap_attention(twin, number, taps.attention)
    if taps.channels and hasattr(twin.mlp, "down_proj"):
        _tap_rows(_own(_own(twin, "mlp"), "down_proj"), number, taps.channels)
    if taps.linear:
        _tap_linear(twin, number, taps.linear)
    if taps.router and hasattr(twin.mlp, "gate"):
        _tap_router(twin, number, taps.router)
    if (taps.memory or taps.slots) and getattr(twin.mlp, "memory", None) is not None:
        _tap_memory(twin, number, taps.memory, taps.slots)
    return twin


def _copy(module: nn.Module) -> nn.Module:
    """A shallow copy with tables of its own: children can be exchanged and hooks be added without touching the
    original."""
    twin = copy.copy(module)
    for name in ("_modules", "_forward_hooks", "_forward_pre_hooks", "_forward_pre_hooks_with_kwargs"):
        setattr(twin, name, copy.copy(getattr(module, name)))
    return twin


def _own(module: nn.Module, child: str) -> nn.Module:
    """A copy of a child in its place in an already copied module."""
    twin = _copy(getattr(module, child))
    module._modules[child] = twin
    return twin


def _tap_rows(module: nn.Module, number: int, tap: Callable[[int, Tensor], Tensor | None]) -> None:
    """Hand out the rows that a module is given, before it runs."""

    def hand_out(_module: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
        x = given[0] if given else named["hidden_states"]
        new = tap(number, x[0])
        if new is None:
            return None
        new = new.to(x.dtype)[None]
        return ((new, *given[1:]), named) if given else (given, named | {"hidden_states": new})

    module.register_forward_pre_hook(hand_out, with_kwargs=True)


def _tap_linear(layer: nn.Module, number: int, linear: Callable[[int, str, Tensor, Tensor], Tensor | None]) -> None:
    def add(part: str, name: str) -> None:
        def hand_out(_module: nn.Module, given: tuple[Any, ...], out: Tensor) -> Tensor | None:
            new = linear(number, name, given[0].reshape(-1, given[0].shape[-1]), out.reshape(-1, out.shape[-1]))
            return None if new is None else new.to(out.dtype).view_as(out)

        _own(_own(layer, part), name).register_forward_hook(hand_out)

    for part in ("self_attn", "mlp"):
        for name in [name for name, _ in getattr(layer, part).named_children() if name.endswith("_proj")]:
            add(part, name)


def _tap_router(layer: nn.Module, number: int, router: Callable[[Routing], None]) -> None:
    def hand_out(_module: nn.Module, _given: Any, out: tuple[Tensor, Tensor, Tensor]) -> None:
        logits, weights, experts = out
        router(Routing(number, logits, experts, weights))

    _own(_own(layer, "mlp"), "gate").register_forward_hook(hand_out)


def _tap_memory(layer: nn.Module, number: int, memory: Callable[[SlotsRead], None] | None, slots: int) -> None:
    """The copy of a memory reads so many slots a row; what it read goes out with what its part gave without it."""
    part, reads = _own(layer, "mlp"), list[Any]()
    twin: Any = _own(part, "memory")
    twin.m = slots or twin.m

    def keep(_module: nn.Module, _given: Any, read: Any) -> None:
        reads.append(read)

    def hand_out(_module: nn.Module, _given: Any, out: Tensor) -> None:
        read = reads.pop()
        if memory:
            at, dense = read.hits, out.reshape(read.output.shape) - read.output
            keys = (number, at.rows, at.columns, at.crossings)
            memory(SlotsRead(*keys, read.slots, at.scores, read.pre_scores, read.output, dense))

    twin.register_forward_hook(keep)
    part.register_forward_hook(hand_out)


def _tap_attention(layer: nn.Module, number: int, attention: Callable[[AttentionInputs], Tensor | None]) -> None:
    """The attention module's copy looks its function up under our name, and finds the real one and the tap on
    itself."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    twin: Any = _own(layer, "self_attn")
    eager = getattr(sys.modules[type(twin).__module__], "eager_attention_forward", None)
    twin.tapped_function = ALL_ATTENTION_FUNCTIONS.get_interface(twin.config._attn_implementation, eager)
    twin.tap, twin.number = attention, number
    twin.config = copy.copy(twin.config)
    twin.config._attn_implementation_internal = ATTENTION


def _attend(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
) -> tuple[Tensor, Tensor | None]:
    """The attention function of a tapped module: queries [1, h, n, e], keys and values [1, g, m, e] to [1, n, h, e]."""
    scale = options.get("scaling") or query.shape[-1] ** -0.5
    sees = visible(attention_mask, query.shape[2], key.shape[2], query.device)
    out = module.tap(AttentionInputs(module.number, query[0], key[0], value[0], scale, sees))
    if out is not None:
        return out.to(query.dtype).transpose(0, 1)[None].contiguous(), None
    return module.tapped_function(module, query, key, value, attention_mask, **options)


def visible(mask: Any, n: int, m: int, device: torch.device) -> Tensor:
    """Boolean [n, m] of the mask that an attention function is given: none says causal, with the n rows as the last of
    m; numbers are added to the scores, so what is seen has a 0. A mask of row-invariant attention says it itself."""
    if hasattr(mask, "sees"):
        return mask.sees
    if mask is None:
        return torch.ones(n, m, dtype=torch.bool, device=device).tril(m - n)
    seen = mask[0, 0, :, :m]
    return seen if seen.dtype == torch.bool else seen == 0


AttentionInterface.register(ATTENTION, _attend)
