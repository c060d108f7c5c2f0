"""An encoder-decoder of plain parts (Return of the Encoder, arXiv 2501.16273; microsoft/encoder-decoder-slm): most
layers read the input once and both ways, few write the answer and look the input up.

The embedding is shared by encoder, decoder and output. An encoder layer of width d has 12 d^2 weights and a decoder
layer, which has cross-attention too, 16 d^2: 8 + 3 layers have exactly those of 12 decoder-only layers
(`plain_decoder.py`), norms having no gains here and matrices no biases, unlike the published network.

Shapes: B inputs, m tokens of an input, n rows of an answer, d width, h heads, V vocabulary."""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention as attention
from transformers import LlamaConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding

from engines.models.networks.plain_decoder import Norm, made_plain

Memory = list[tuple[Tensor, Tensor]]  # keys and values [B, h, m, d / h] by decoder layer


class MuConfig(LlamaConfig):
    """A Llama's config and: encoder_layers, decoder_layers, and the token that an answer begins with."""

    model_type = "mu"
    encoder_layers: int = 8
    decoder_layers: int = 3
    decoder_start_token_id: int = 0
    hidden_size: int = 96
    intermediate_size: int = 0  # none given: 4 d

    def __post_init__(self, **more: Any) -> None:
        self.intermediate_size = self.intermediate_size or 4 * self.hidden_size
        self.num_hidden_layers = self.decoder_layers
        super().__post_init__(**more)


class CrossAttention(nn.Module):
    """Looks the encoded input up; no rotation here, so its keys and values are the same for every row."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        d, self.heads = config.hidden_size, config.num_attention_heads
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(d, d, bias=False) for _ in range(4))

    def memory(self, encoded: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values [B, h, m, d / h] of an encoded input [B, m, d]: computed once for an answer."""
        k, v = (part(encoded).unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.k_proj, self.v_proj))
        return k, v

    def forward(self, x: Tensor, memory: tuple[Tensor, Tensor], mask: Tensor | None = None) -> Tensor:
        """Rows [B, n, d] to [B, n, d]. mask [B, 1, 1, m]: which tokens of the input there are, boolean."""
        return self.o_proj(attention(self.queries(x), *memory, attn_mask=mask).transpose(1, 2).flatten(-2))

    def queries(self, x: Tensor) -> Tensor:
        """What rows [B, n, d] ask for, [B, h, n, d / h]."""
        return self.q_proj(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def looked_up(self, x: Tensor, memory: tuple[Tensor, Tensor]) -> Tensor:
        """How much of each input token every row takes in, [B, h, n, m]; rows sum to 1."""
        q = self.queries(x)
        return (q @ memory[0].mT * q.shape[-1] ** -0.5).float().softmax(-1)


class MuDecoderLayer(LlamaDecoderLayer):  # type: ignore[misc]
    """Causal self-attention, cross-attention, feed-forward part: x + part(norm x) each."""

    def __init__(self, config: MuConfig, number: int) -> None:
        super().__init__(config, number)
        made_plain(self, config)
        self.cross, self.cross_norm = CrossAttention(config), Norm(config.rms_norm_eps)

    def forward(  # type: ignore[override]
        self,
        x: Tensor,
        memory: tuple[Tensor, Tensor],
        rotations: tuple[Tensor, Tensor],
        mask: Tensor | None = None,
        cross_mask: Tensor | None = None,
        cache: Any = None,
    ) -> Tensor:
        """Rows [B, n, d] behind those in the cache."""
        x = x + self.self_attn(self.input_layernorm(x), rotations, mask, past_key_values=cache)[0]
        x = x + self.cross(self.cross_norm(x), memory, cross_mask)
        return x + self.mlp(self.post_attention_layernorm(x))


class MuForSeq2Seq(PreTrainedModel):  # type: ignore[misc]
    """The network: `encode`, `memory`, `decode` are its three phases."""

    config_class = MuConfig
    _tied_weights_keys: ClassVar = {"lm_head.weight": "embed_tokens.weight"}
    _supports_sdpa = True

    def __init__(self, config: MuConfig) -> None:
        config._attn_implementation = "sdpa"  # no mask is causal there; eager attention would see what is to come
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.encoder = nn.ModuleList(
            made_plain(LlamaDecoderLayer(config, i), config) for i in range(config.encoder_layers)
        )
        for layer in self.encoder:
            layer.self_attn.is_causal = False
        self.decoder = nn.ModuleList(MuDecoderLayer(config, i) for i in range(config.decoder_layers))
        self.encoder_norm, self.norm = Norm(config.rms_norm_eps), Norm(config.rms_norm_eps)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.rotary_emb = LlamaRotaryEmbedding(config)
        self.post_init()

    def encode(self, ids: Tensor, present: Tensor | None = None) -> Tensor:
        """Inputs [B, m] to [B, m, d], both ways, positions counted from the middle. present [B, m]: False for
        padding."""
        m, x = ids.shape[1], self.embed_tokens(ids)
        rotations = self.rotary_emb(x, (torch.arange(m, device=ids.device) - (m - 1) // 2)[None])
        mask = None if present is None else present[:, None, None]
        for layer in self.encoder:
            x = layer(x, attention_mask=mask, position_embeddings=rotations)
        return self.encoder_norm(x)

    def memory(self, encoded: Tensor) -> Memory:
        """The cross-attention keys and values of every decoder layer."""
        return [layer.cross.memory(encoded) for layer in self.decoder]

    def decode(
        self,
        ids: Tensor,
        memory: Memory,
        *,
        past: int = 0,
        mask: Tensor | None = None,
        present: Tensor | None = None,
        cache: Any = None,
    ) -> Tensor:
        """Rows [B, n] behind `past` earlier ones to [B, n, d], normed. mask [1, 1, n, past + n]: which rows a row
        sees, for n > 1 behind others; present [B, m]: False for padding of the input."""
        x, places = self.embed_tokens(ids), torch.arange(past, past + ids.shape[1], device=ids.device)[None]
        rotations, cross = self.rotary_emb(x, places), None if present is None else present[:, None, None]
        for layer, keys in zip(self.decoder, memory, strict=True):
            x = layer(x, keys, rotations, mask, cross, cache)
        return self.norm(x)

    def forward(
        self, input_ids: Tensor, decoder_input_ids: Tensor, attention_mask: Tensor | None = None, **_: Any
    ) -> CausalLMOutput:
        """Logits [B, n, V] of answers that are known."""
        present = None if attention_mask is None else attention_mask.bool()
        memory = self.memory(self.encode(input_ids, present))
        return CausalLMOutput(logits=self.lm_head(self.decode(decoder_input_ids, memory, present=present)))
