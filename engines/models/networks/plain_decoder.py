"""A decoder-only transformer of plain parts: a Llama whose feed-forward part is two matrices around a GELU and whose
norms have no gains, so that a layer of width d has exactly 12 d^2 weights; and these parts, for its encoder-decoder
twin (`mu.py`)."""

from typing import Any

from torch import Tensor, nn
from torch.nn.functional import gelu, rms_norm
from transformers import LlamaConfig, LlamaForCausalLM


class PlainDecoderConfig(LlamaConfig):
    """A Llama's config; the feed-forward part has 4 d channels where no other width is given."""

    model_type = "plain_decoder"
    hidden_size: int = 96
    intermediate_size: int = 0  # none given: 4 d

    def __post_init__(self, **more: Any) -> None:
        self.intermediate_size = self.intermediate_size or 4 * self.hidden_size
        super().__post_init__(**more)


class Norm(nn.Module):
    """RMSNorm without gains."""

    def __init__(self, eps: float) -> None:
        super().__init__()
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Rows [..., d], each of mean square 1."""
        return rms_norm(x, x.shape[-1:], eps=self.eps)


class PlainFFN(nn.Module):
    """down GELU(up x): 8 d^2 weights."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Rows [..., d] to [..., d]."""
        return self.down_proj(gelu(self.up_proj(x)))


def made_plain(layer: Any, config: LlamaConfig) -> Any:
    """A Llama's layer with the plain parts in it."""
    layer.mlp = PlainFFN(config)
    layer.input_layernorm, layer.post_attention_layernorm = Norm(config.rms_norm_eps), Norm(config.rms_norm_eps)
    return layer


class PlainDecoderForCausalLM(LlamaForCausalLM):
    """A Llama of such layers."""

    config_class = PlainDecoderConfig

    def __init__(self, config: PlainDecoderConfig) -> None:
        super().__init__(config)
        for layer in self.model.layers:
            made_plain(layer, config)
        self.model.norm = Norm(config.rms_norm_eps)
        self.post_init()
