"""PLDR-LLM: a decoder whose attention weighs queries and keys by a matrix G that a small deep network makes of the
text itself, power-law graph attention (arXiv 2107.02039, 2410.16703; caches: arXiv 2502.13502, section 2).

D = q^T q is layer-normalised to A, the metric learner's residual units turn A, A_LM = iSwiGLU(W A + b) is its metric
tensor, G_LM = a A_LM^p + ba the energy-curvature tensor, and a score is q G_LM k^T / sqrt(d). G = identity is ordinary
scaled dot-product attention. D sums over all rows that are fed, so without a cached G the last token moves what is
said of every earlier one.

Shapes: B texts, n rows, m positions seen, h heads of size d, V vocabulary."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm, silu
from transformers import GenerationMixin, PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput, CausalLMOutput

EPS, POSITIVE = 1e-6, 1e-9  # of every norm; what keeps A_LM above 0


class PLDRConfig(PreTrainedConfig):
    """Sizes; of the metric learner: metric_units residual units of metric_dense gated layers of width metric_size."""

    model_type = "pldr"
    vocab_size: int = 2048
    hidden_size: int = 128
    num_hidden_layers: int = 3
    num_attention_heads: int = 4
    intermediate_size: int = 340
    metric_units: int = 8
    metric_dense: int = 2
    metric_size: int = 64
    max_position_embeddings: int = 512
    rope_theta: float = 10000.0
    tie_word_embeddings: bool = True

    def __post_init__(self, **more: Any) -> None:
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(f"{self.num_attention_heads} heads do not divide a hidden size of {self.hidden_size}")
        super().__post_init__(**more)


class Operator(NamedTuple):
    """What a layer deduces from a text: the metric tensor A_LM and the energy-curvature tensor G_LM, [..., h, d, d]."""

    A_LM: Tensor
    G_LM: Tensor


def density(q: Tensor, norm: nn.LayerNorm | None = None) -> Tensor:
    """Queries [..., n, d] -> A [..., d, d]: D = q^T q over all n rows, normalised over its last axis."""
    D = q.mT @ q
    return layer_norm(D, D.shape[-1:], eps=EPS) if norm is None else norm(D)


def deduce(A: Tensor, W: Tensor, b: Tensor, p: Tensor, a: Tensor, ba: Tensor) -> Operator:
    """A_LM = iSwiGLU(W A + b) + 1e-9 and G_LM = a A_LM^p + ba, the power by element; all [..., d, d]."""
    x = W @ A + b
    A_LM = x * silu(x) + POSITIVE  # x SiLU(x) is never negative
    return Operator(A_LM, a @ A_LM.pow(p) + ba)


def scores(q: Tensor, G: Tensor, k: Tensor) -> Tensor:
    """q G k^T / sqrt(d): queries [..., n, d], G [..., d, d], keys [..., m, d] -> [..., n, m]."""
    return q @ G @ k.mT * q.shape[-1] ** -0.5


def attend(q: Tensor, G: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Causal attention with the scores of G: the n queries [..., n, d] stand at the last of the m positions."""
    E = scores(q, G, k)
    later = torch.ones(E.shape[-2:], dtype=torch.bool, device=E.device).triu(E.shape[-1] - E.shape[-2] + 1)
    return E.masked_fill(later, -1e9).softmax(-1) @ v


def rotated(x: Tensor, first: int, theta: float) -> Tensor:
    """Rows [..., n, d] at the positions from `first` on: adjacent pairs are turned."""
    n, d = x.shape[-2:]
    rates = theta ** -(torch.arange(0, d, 2, device=x.device, dtype=torch.float32) / d)
    angle = torch.arange(first, first + n, device=x.device, dtype=torch.float32)[:, None] * rates  # [n, d / 2]
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((even * cos - odd * sin, odd * cos + even * sin), -1).flatten(-2)


class Gated(nn.Module):
    """W3 (SiLU(W1 x) * W2 x), all with biases."""

    def __init__(self, outer: int, inner: int) -> None:
        super().__init__()
        self.w1, self.w2, self.w3 = nn.Linear(outer, inner), nn.Linear(outer, inner), nn.Linear(inner, outer)

    def forward(self, x: Tensor) -> Tensor:
        """Rows [..., outer] to [..., outer]."""
        return self.w3(silu(self.w1(x)) * self.w2(x))


class Unit(nn.Module):
    """A residual unit of the metric learner: A <- LayerNorm(A + g_n(... g_1(A))), by rows of A."""

    def __init__(self, d: int, dense: int, inner: int) -> None:
        super().__init__()
        self.dense, self.norm = nn.Sequential(*(Gated(d, inner) for _ in range(dense))), nn.LayerNorm(d, EPS)

    def forward(self, A: Tensor) -> Tensor:
        """[..., d, d] to [..., d, d]."""
        return self.norm(A + self.dense(A))


class PowerLawAttention(nn.Module):
    """q, k, v and the output with biases; a metric learner that all heads share; five [h, d, d] tensors: W, b, the
    powers p, a and ba."""

    def __init__(self, config: PLDRConfig) -> None:
        super().__init__()
        wide, h = config.hidden_size, config.num_attention_heads
        self.h, self.d, self.theta = h, wide // h, config.rope_theta
        self.q, self.k, self.v, self.o = (nn.Linear(wide, wide) for _ in range(4))
        self.norm = nn.LayerNorm(self.d, EPS)
        self.units = nn.ModuleList(
            Unit(self.d, config.metric_dense, config.metric_size) for _ in range(config.metric_units)
        )
        self.W, self.b, self.p, self.a, self.ba = (nn.Parameter(torch.zeros(h, self.d, self.d)) for _ in range(5))

    def project(self, x: Tensor, first: int) -> tuple[Tensor, Tensor, Tensor]:
        """q, k, v [B, h, n, d] of rows [B, n, h d] at the positions from `first` on."""
        q, k, v = (part(x).unflatten(-1, (self.h, self.d)).transpose(1, 2) for part in (self.q, self.k, self.v))
        return rotated(q, first, self.theta), rotated(k, first, self.theta), v

    def metric(self, q: Tensor) -> Tensor:
        """Queries [B, h, n, d] -> A [B, h, d, d]: the deep part, whose work a cache of G saves."""
        A = density(q, self.norm)
        for unit in self.units:
            A = unit(A)
        return A

    def operator(self, A: Tensor) -> Operator:
        """See `deduce`."""
        return deduce(A, self.W, self.b, self.p, self.a, self.ba)

    def joined(self, heads: Tensor) -> Tensor:
        """Heads [B, h, n, d] through the output matrix -> [B, n, h d]."""
        return self.o(heads.transpose(1, 2).flatten(-2))


class Layer(nn.Module):
    """x <- LN(x + attention(x)), x <- LN(x + FFN(x)): the norms stand behind the sums."""

    def __init__(self, config: PLDRConfig) -> None:
        super().__init__()
        self.attention, self.ffn = PowerLawAttention(config), Gated(config.hidden_size, config.intermediate_size)
        self.norm1, self.norm2 = nn.LayerNorm(config.hidden_size, EPS), nn.LayerNorm(config.hidden_size, EPS)

    def finish(self, x: Tensor, heads: Tensor) -> Tensor:
        """What follows attention: rows [B, n, h d] and its heads [B, h, n, d] -> [B, n, h d]."""
        x = self.norm1(x + self.attention.joined(heads))
        return self.norm2(x + self.ffn(x))

    def forward(self, x: Tensor, G: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Rows of whole texts [B, n, h d] -> the next rows and G_LM [B, h, d, d]: the text's own, or the given one."""
        q, k, v = self.attention.project(x, 0)
        G = self.attention.operator(self.attention.metric(q)).G_LM if G is None else G
        return self.finish(x, attend(q, G, k, v)), G


class PLDRPreTrained(PreTrainedModel):
    """What transformers asks of a family of networks."""

    config_class = PLDRConfig
    base_model_prefix = "model"
    _input_embed_layer = "embedding"

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """The published start: Xavier, uniform for linear layers, normal for W, p and a. The embedding, tied to the
        output here, starts small; its norm makes up for that."""
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)
        elif isinstance(module, nn.LayerNorm):
            nn.init.ones_(module.weight)
            nn.init.zeros_(module.bias)
        elif isinstance(module, PowerLawAttention):
            for tensor in (module.W, module.p, module.a):
                nn.init.xavier_normal_(tensor)
            for tensor in (module.b, module.ba):
                nn.init.zeros_(tensor)


@dataclass
class Deduced(BaseModelOutput):
    """With G_LM [layers, B, h, d, d] of every layer."""

    G: Tensor | None = None


class PLDRModel(PLDRPreTrained):
    """The embedding, times the root of its width and layer-normalised, and the layers."""

    def __init__(self, config: PLDRConfig) -> None:
        super().__init__(config)
        self.embedding = nn.Embedding(config.vocab_size, config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size, EPS)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.num_hidden_layers))
        self.post_init()

    def embed(self, ids: Tensor) -> Tensor:
        """Ids [B, n] -> rows [B, n, h d]."""
        return self.norm(self.embedding(ids) * self.config.hidden_size**0.5)

    def forward(self, input_ids: Tensor, G: Tensor | None = None, **_: Any) -> Deduced:
        """Whole texts [B, n], each with its own G or all with a given one [layers, 1 or B, h, d, d]."""
        x, used = self.embed(input_ids), list[Tensor]()
        for i, layer in enumerate(self.layers):
            x, now = layer(x, None if G is None else G[i])
            used.append(now)
        return Deduced(last_hidden_state=x, G=torch.stack([tensor.expand(len(x), -1, -1, -1) for tensor in used]))


class PLDRForCausalLM(PLDRPreTrained, GenerationMixin):
    """The model and its output layer, whose matrix is the embedding's and which has a bias."""

    _tied_weights_keys = {"lm_head.weight": "model.embedding.weight"}  # noqa: RUF012

    def __init__(self, config: PLDRConfig) -> None:
        super().__init__(config)
        self.model = PLDRModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size)
        self.post_init()

    def prepare_inputs_for_generation(  # type: ignore[override]
        self, input_ids: Tensor, attention_mask: Tensor | None = None, **_: Any
    ) -> dict[str, Any]:
        """The whole text each time, unpadded: transformers' own loop decodes without any cache here."""
        return {"input_ids": input_ids}

    def forward(self, input_ids: Tensor, G: Tensor | None = None, **_: Any) -> CausalLMOutput:
        """Logits [B, n, V] of whole texts [B, n]; see `PLDRModel`."""
        return CausalLMOutput(logits=self.lm_head(self.model(input_ids, G=G).last_hidden_state))
