"""One small mixture of experts with four attentions to choose from: multi-head (MHA), grouped queries (GQA), a latent
for keys and values (MLA, arXiv 2405.04434) and one key and one value head for many queries made through a low rank
(MFA, arXiv 2507.19427, section 4.1). MHA and GQA are the Llama's own.

Shapes: B texts, n rows of each, m rows that they see, H hidden size, h query heads of size d, N experts of width f."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, silu
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaRMSNorm, apply_rotary_pos_emb, eager_attention_forward

ATTENTIONS = ("mha", "gqa", "mla", "mfa")


class FourAttentionsConfig(LlamaConfig):
    """A Llama's config and: attention, one of ATTENTIONS; query_rank, of MFA and MLA; kv_rank, nope_dim, value_dim, of
    MLA, whose head_dim is the part of a key that is turned by its position; num_experts N, num_experts_per_tok k,
    expert_size f; the shared expert has width f too."""

    model_type = "four_attentions"
    attention: str = "mfa"
    query_rank: int = 52
    kv_rank: int = 0
    nope_dim: int = 0
    value_dim: int = 0
    num_experts: int = 8
    num_experts_per_tok: int = 2
    expert_size: int = 16

    def __post_init__(self, **more: Any) -> None:
        N, k = self.num_experts, self.num_experts_per_tok
        if self.attention not in ATTENTIONS:
            raise ValueError(f"attention '{self.attention}' is unknown; choose one of {', '.join(ATTENTIONS)}")
        if not 1 <= k <= N:
            raise ValueError(f"{k} experts of {N} cannot be on; choose 1 to {N}")
        if self.attention in ("mla", "mfa"):
            self.num_key_value_heads = 1
        self.intermediate_size = N * self.expert_size
        super().__post_init__(**more)

    @property
    def cached_elements(self) -> int:
        """What the cache keeps of a token in one layer: 2 h_kv d, 2 d of MFA, the latent and the turned key of MLA."""
        if self.attention == "mla":
            return self.kv_rank + self.head_dim
        return 2 * self.num_key_value_heads * self.head_dim


class Attention(nn.Module):
    """What MFA and MLA share: queries through a low rank and a norm, `reads` over one key and one value head."""

    def __init__(self, config: FourAttentionsConfig, layer_idx: int, queries: int, out: int) -> None:
        """queries: features of all query heads; out: features that the last map reads."""
        super().__init__()
        self.config, self.layer_idx, self.is_causal = config, layer_idx, True
        self.heads = self.num_key_value_groups = config.num_attention_heads
        H, r = config.hidden_size, config.query_rank
        self.q_down_proj, self.q_up_proj = nn.Linear(H, r, bias=False), nn.Linear(r, queries, bias=False)
        self.q_norm, self.o_proj = LlamaRMSNorm(r, config.rms_norm_eps), nn.Linear(out, H, bias=False)

    def queries(self, x: Tensor) -> Tensor:
        """Rows [B, n, H] to queries [B, h, n, d]."""
        return self.q_up_proj(self.q_norm(self.q_down_proj(x))).unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def reads(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float, **options: Any) -> Tensor:
        """Queries [B, h, n, e] over one head of keys [B, 1, m, e] and of values [B, 1, m, w]: [B, n, h, w]."""
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, eager_attention_forward)
        return attend(self, q, k, v, mask, dropout=0.0, scaling=scale, **options)[0]


class MultiMatrixFactorizationAttention(Attention):
    """MFA: h wide query heads, W_up norm(W_down x), over a single key head and a single value head."""

    def __init__(self, config: FourAttentionsConfig, layer_idx: int) -> None:
        H, d, h = config.hidden_size, config.head_dim, config.num_attention_heads
        super().__init__(config, layer_idx, h * d, h * d)
        self.k_proj, self.v_proj = nn.Linear(H, d, bias=False), nn.Linear(H, d, bias=False)

    def forward(
        self,
        hidden_states: Tensor,
        position_embeddings: tuple[Tensor, Tensor],
        attention_mask: Tensor | None = None,
        past_key_values: Any = None,
        **options: Any,
    ) -> tuple[Tensor, None]:
        """Rows [B, n, H] to [B, n, H]; the cache keeps 2 d numbers of a row."""
        x, q = hidden_states, self.queries(hidden_states)
        k, v = self.k_proj(x)[:, None], self.v_proj(x)[:, None]  # [B, 1, n, d]
        q, k = apply_rotary_pos_emb(q, k, *position_embeddings)
        if past_key_values is not None:
            k, v = past_key_values.update(k, v, self.layer_idx)
        out = self.reads(q, k, v, attention_mask, self.config.head_dim**-0.5, **options)
        return self.o_proj(out.flatten(-2)), None


class LatentAttention(Attention):
    """MLA as it is decoded, absorbed: queries are taken into the latent's space, so that the latent is read as keys and
    as values and is all that the cache keeps, with one turned key for all heads."""

    def __init__(self, config: FourAttentionsConfig, layer_idx: int) -> None:
        H, h, r_kv, turned = config.hidden_size, config.num_attention_heads, config.kv_rank, config.head_dim
        nope, v_dim = config.nope_dim, config.value_dim
        super().__init__(config, layer_idx, h * (nope + turned), h * v_dim)
        self.kv_down_proj, self.kv_norm = nn.Linear(H, r_kv + turned, bias=False), LlamaRMSNorm(r_kv)
        self.kv_up = nn.Parameter(torch.randn(h * (nope + v_dim), r_kv) * r_kv**-0.5)

    def forward(
        self,
        hidden_states: Tensor,
        position_embeddings: tuple[Tensor, Tensor],
        attention_mask: Tensor | None = None,
        past_key_values: Any = None,
        **options: Any,
    ) -> tuple[Tensor, None]:
        """Rows [B, n, H] to [B, n, H]; the cache keeps the latent and the turned key as one row of keys and no values
        beside it."""
        c = self.config
        nope, turned, v_dim = c.nope_dim, c.head_dim, c.value_dim
        q, q_turned = self.queries(hidden_states).split((nope, turned), -1)  # [B, h, n, .]
        latent, k_turned = self.kv_down_proj(hidden_states).split((c.kv_rank, turned), -1)
        q_turned, k_turned = apply_rotary_pos_emb(q_turned, k_turned[:, None], *position_embeddings)
        up_k, up_v = self.kv_up.unflatten(0, (self.heads, -1)).split((nope, v_dim), 1)  # [h, nope or v_dim, r_kv]
        q = torch.cat([q @ up_k, q_turned], -1)
        k = torch.cat([self.kv_norm(latent)[:, None], k_turned], -1)  # [B, 1, n, r_kv + turned]
        if past_key_values is not None:
            k, _ = past_key_values.update(k, k[..., :0], self.layer_idx)
        scale = (nope + turned) ** -0.5
        out = self.reads(q, k, k[..., : c.kv_rank], attention_mask, scale, **options)  # [B, n, h, r_kv]
        out = (out.transpose(1, 2) @ up_v.mT).transpose(1, 2)  # [B, n, h, v_dim]
        return self.o_proj(out.flatten(-2)), None


class Router(nn.Module):
    """The k best experts of a row, the softmax of their scores as weights. Hooks find it as `mlp.gate`."""

    def __init__(self, config: FourAttentionsConfig) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(config.num_experts, config.hidden_size) * config.initializer_range)
        self.k = config.num_experts_per_tok

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Rows [n, H] to scores [n, N], weights [n, k] and experts [n, k]."""
        scores = linear(x, self.weight)
        best, at = scores.topk(self.k, -1)
        return scores, best.softmax(-1), at


class Experts(nn.Module):
    """down_i (SiLU(gate_i x) * up_i x) of some experts of width f, their matrices below each other [N f, H]."""

    def __init__(self, config: FourAttentionsConfig, N: int) -> None:
        super().__init__()
        H, rows = config.hidden_size, N * config.expert_size
        self.gate_rows = nn.Parameter(torch.randn(rows, H) * H**-0.5)
        self.up_rows = nn.Parameter(torch.randn(rows, H) * H**-0.5)
        self.down_rows = nn.Parameter(torch.randn(rows, H) * config.initializer_range)

    def forward(self, x: Tensor, a: Tensor) -> Tensor:
        """Rows [n, H] with the weight of each expert, a [n, N], 0 where it is not used, to [n, H]."""
        h = silu(linear(x, self.gate_rows)) * linear(x, self.up_rows)
        return (h.unflatten(-1, (a.shape[-1], -1)) * a[..., None]).flatten(-2) @ self.down_rows


class SharedMoE(Experts):
    """k experts of N for each row and one that all rows use. Every expert is multiplied and what a row does not use
    counts 0: on eight matrices of this size that is as fast as to look for those that are used."""

    def __init__(self, config: FourAttentionsConfig) -> None:
        super().__init__(config, config.num_experts)
        self.gate, self.shared_expert = Router(config), Experts(config, 1)

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        """Rows [..., H] to [..., H]."""
        rows = x.flatten(0, -2)
        scores, weights, at = self.gate(rows)
        a = torch.zeros_like(scores).scatter(-1, at, weights.to(scores.dtype))
        out = super().forward(rows, a) + self.shared_expert(rows, a.new_ones(len(rows), 1))
        return out.view_as(x)


class FourAttentionsForCausalLM(LlamaForCausalLM):
    """A Llama with one of the four attentions and such feed-forward parts."""

    config_class = FourAttentionsConfig

    def __init__(self, config: FourAttentionsConfig) -> None:
        super().__init__(config)
        other: dict[str, Callable[..., Attention]] = {"mfa": MultiMatrixFactorizationAttention, "mla": LatentAttention}
        for i, layer in enumerate(self.model.layers):
            layer.mlp = SharedMoE(config)
            if config.attention in other:
                layer.self_attn = other[config.attention](config, i)
