"""The decoder layer of published drafters, Llama's and Qwen3's, around tensors that were read: what all formats but the
plain heads consist of.

Shapes: n rows, m rows before them, d width of the stream, w width of what the attention reads (2 d in EAGLE-3), H query
heads and G heads of keys of size e, f channels of the feed-forward part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from engines.core.errors import UserError
from engines.models.drafters.configs import LayerConfig, typed_config
from engines.models.drafters.tensors import Tensors
from engines.models.networks.exits import Past

ROPE_BASE = 10_000.0  # of a config that names none, whatever the target's is


@dataclass(frozen=True)
class Sizes:
    """What a config says of its layers. theta: the base of the rotations; eps: of the norms."""

    d: int
    heads: int
    head_dim: int
    eps: float
    theta: float
    scaling: Mapping[str, Any] | None
    positions: int
    config: LayerConfig
    offset: float = 0.0  # norms multiply by w + offset: 1 in the layers that Qwen3-Next and Qwen3.5 publish

    @classmethod
    def of(cls, config: Mapping[str, Any], d: int, name: str, offset: float = 0.0) -> Sizes:
        """From a Llama- or Qwen3-like config, for a stream of width d. Raises UserError for what cannot be."""
        own = typed_config(LayerConfig, config, name)
        heads, act = own.num_attention_heads, own.hidden_act
        head_dim = own.head_dim or d // heads
        if head_dim < 2 or head_dim % 2:
            raise UserError(
                f"config.json of '{name}' gives heads of {head_dim!r:.40} numbers ({heads} heads, width {d}); the "
                "rotations need an even number."
            )
        if act not in ("silu", "swish"):
            raise UserError(f"config.json of '{name}' says hidden_act={act!r:.40}; drafters with silu can be computed.")
        rope = config.get("rope_parameters") or {}
        scaling = config.get("rope_scaling") or (rope if rope.get("rope_type", "default") != "default" else None)
        theta = own.rope_theta or (own.rope_parameters and own.rope_parameters.rope_theta) or ROPE_BASE
        most = own.max_position_embeddings or 2048
        return cls(d, heads, head_dim, own.rms_norm_eps, theta, scaling, most, own, offset)


def normed(x: Tensor, w: Tensor, eps: float, offset: float = 0.0) -> Tensor:
    """RMSNorm of rows [..., d]: w x / sqrt(mean x² + eps), the mean in float32 and the product in the type of x, as in
    Llama; with an offset (w + offset), all of it in float32, as in Qwen3-Next."""
    y = x.float()
    y = y * torch.rsqrt(y.square().mean(-1, keepdim=True) + eps)
    return (y * (w.float() + offset)).to(x.dtype) if offset else w * y.to(x.dtype)


class Rotation:
    """Rotary positions with the drafter's own base and scaling, as transformers computes them."""

    def __init__(self, sizes: Sizes, device: torch.device | str) -> None:
        from transformers import LlamaConfig
        from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

        rope = {**(sizes.scaling or {}), "rope_theta": sizes.theta}
        rope["rope_type"] = rope.pop("type", None) or rope.get("rope_type", "default")
        try:
            config = LlamaConfig(
                hidden_size=sizes.heads * sizes.head_dim,
                num_attention_heads=sizes.heads,
                head_dim=sizes.head_dim,
                max_position_embeddings=sizes.positions,
                rope_parameters=rope,
            )
            self._rotary = LlamaRotaryEmbedding(config).to(device)
            if not bool(torch.isfinite(self._rotary.inv_freq).all()):
                raise ValueError("their frequencies are no numbers")
        except Exception as error:  # a stranger's settings can make transformers raise anything
            raise UserError(
                f"the rotations {dict(rope)!r:.200} of the drafter cannot be made: "
                f"{' '.join(str(error).split())[:120]}."
            ) from error

    def at(self, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Cosines and sines [n, e] at positions [n]."""
        like = torch.empty(0, dtype=dtype, device=positions.device)
        cos, sin = self._rotary(like, positions[None])
        return cos[0], sin[0]


def turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """x [H, n, e] rotated, the halves of e paired."""
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


class Layer:
    """One decoder layer with tensors of a checkpoint: attention on rows [n, w] and a gated feed-forward part."""

    def __init__(self, t: Tensors, prefix: str, sizes: Sizes, w: int, input_norm: bool = True, window: int = 0) -> None:
        """w: width of what attention reads. input_norm: whether it has the norm before it. window: how many positions
        a row sees, its own among them; 0 for all."""
        d, e, self.sizes, self.window = sizes.d, sizes.head_dim, sizes, window
        at = f"{prefix}self_attn."
        q_rows, k_rows = t.shape(f"{at}q_proj.weight")[0], t.shape(f"{at}k_proj.weight")[0]
        name = t.checkpoint.name
        if q_rows % e or k_rows % e or (q_rows // e) % max(1, k_rows // e):
            raise UserError(
                f"config.json of '{name}' gives heads of {e} numbers, and {at}q_proj and k_proj have {q_rows} and "
                f"{k_rows} rows, which are not multiples of that; the config does not belong to these weights."
            )
        why = f"the drafter is {d} wide"
        self.q = t.take(f"{at}q_proj.weight", q_rows, w, why=why)
        self.k, self.v = (t.take(f"{at}{letter}_proj.weight", k_rows, w, why=why) for letter in "kv")
        self.o = t.take(f"{at}o_proj.weight", d, q_rows, why=why)
        rows = {"q": q_rows, "k": k_rows, "v": k_rows, "o": d}
        self.bias = {letter: t.maybe(f"{at}{letter}_proj.bias", rows[letter]) for letter in "qkvo"}
        self.q_norm, self.k_norm = t.maybe(f"{at}q_norm.weight", e), t.maybe(f"{at}k_norm.weight", e)
        self.input_norm = t.take(f"{prefix}input_layernorm.weight", d) if input_norm else None
        self.post_norm = t.take(f"{prefix}post_attention_layernorm.weight", d)
        f = t.shape(f"{prefix}mlp.gate_proj.weight")[0]
        self.gate = t.take(f"{prefix}mlp.gate_proj.weight", f, d, why=why)
        self.up = t.take(f"{prefix}mlp.up_proj.weight", f, d, why=why)
        self.down = t.take(f"{prefix}mlp.down_proj.weight", d, f, why=why)
        t.skip([f"{at}rotary_emb.inv_freq"])  # a table that old versions of transformers wrote
        self.H, self.G = q_rows // e, k_rows // e

    def norm(self, x: Tensor, w: Tensor) -> Tensor:
        """RMSNorm with this drafter's epsilon."""
        return normed(x, w, self.sizes.eps, self.sizes.offset)

    def __call__(
        self,
        x: Tensor,
        rotation: tuple[Tensor, Tensor],
        past: Past,
        sees: Tensor | None,
        read: Tensor | None = None,
    ) -> Tensor:
        """Rows x [n, d] of the stream through the layer, behind those in `past`. turn: cosines and sines at their
        positions. sees [n, m + n]: which row sees which, None for all. read [n, w]: what attention reads, by default
        x behind the layer's norm."""
        if read is None:
            read = x if self.input_norm is None else self.norm(x, self.input_norm)
        k, v = self.keys(read, rotation)
        x = x + self.attend(read, rotation, *past.add(k, v), sees)
        return x + self.mlp(self.norm(x, self.post_norm))

    def keys(self, read: Tensor, rotation: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """Keys, rotated, and values [G, n, e] of what attention reads."""
        k = F.linear(read, self.k, self.bias["k"]).view(len(read), self.G, -1)
        v = F.linear(read, self.v, self.bias["v"]).view(len(read), self.G, -1)
        if self.k_norm is not None:
            k = self.norm(k, self.k_norm)
        return turned(k.transpose(0, 1), *rotation), v.transpose(0, 1)

    def attend(
        self, read: Tensor, rotation: tuple[Tensor, Tensor], k: Tensor, v: Tensor, sees: Tensor | None
    ) -> Tensor:
        """What queries of these rows find in keys and values [G, m, e], behind the output matrix: [n, d]."""
        q = F.linear(read, self.q, self.bias["q"]).view(len(read), self.H, -1)
        if self.q_norm is not None:
            q = self.norm(q, self.q_norm)
        q = turned(q.transpose(0, 1), *rotation)
        k, v = (tensor.repeat_interleave(self.H // self.G, 0) for tensor in (k, v))
        attended = F.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=sees)[0]
        return F.linear(attended.transpose(0, 1).reshape(len(read), -1), self.o, self.bias["o"])

    def mlp(self, x: Tensor) -> Tensor:
        """The feed-forward part on rows that went through its norm."""
        return F.linear(F.silu(F.linear(x, self.gate)) * F.linear(x, self.up), self.down)


class Pasts:
    """Keys and values of every layer of a drafter. at [m]: where its rows stand, while a layer has a window."""

    def __init__(self, layers: int) -> None:
        self.layers = [Past() for _ in range(layers)]
        self.at: Tensor | None = None

    def seen(self, at: Tensor, sees: Tensor | None, layers: Sequence[Layer]) -> list[Tensor | None]:
        """What rows at positions `at` [n] see in each of the layers, [n, m + n], before they join: of what `sees` lets
        them (None: all) the columns that lie in the layer's window."""
        if not any(layer.window for layer in layers):
            return [sees] * len(layers)
        self.at = at if self.at is None else torch.cat([self.at[: self.length], at])
        back = at[:, None] - self.at
        all_of_it = torch.ones_like(back, dtype=torch.bool) if sees is None else sees
        return [all_of_it & (back < layer.window) if layer.window else sees for layer in layers]

    @property
    def length(self) -> int:
        """Rows that they hold."""
        return self.layers[0].length if self.layers else 0

    def crop(self, length: int) -> None:
        """Forget what stands behind the first `length` rows."""
        for past in self.layers:
            past.crop(length)


def causal(n: int, m: int, device: torch.device | str) -> Tensor:
    """Boolean [n, m + n]: a chain of n rows behind m."""
    return torch.arange(m + n, device=device)[None] <= m + torch.arange(n, device=device)[:, None]
