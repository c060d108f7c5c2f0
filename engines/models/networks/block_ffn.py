"""BlockFFN: a feed-forward part of many small experts behind a router that decides for each token how many of them it
uses (arXiv 2507.08771, section 3.1), in a Llama; and its twin, the usual router of the k best.

Shapes: n rows, d hidden size, N experts of width e. Expert i of a row is on iff its entry of `a` is not 0."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, silu
from transformers import LlamaConfig, LlamaForCausalLM


class BlockFFNConfig(LlamaConfig):
    """A Llama's config and: num_experts N, expert_size e, router ("relu" or "topk"), num_experts_per_tok (k of the
    twin)."""

    model_type = "block_ffn"
    num_experts: int = 32
    expert_size: int = 32
    router: str = "relu"
    num_experts_per_tok: int = 6

    def __post_init__(self, **more: Any) -> None:
        N, k = self.num_experts, self.num_experts_per_tok
        if self.router not in ROUTERS:
            raise ValueError(f"router '{self.router}' is unknown; choose one of {', '.join(ROUTERS)}")
        if not 1 <= k <= N:
            raise ValueError(f"{k} experts of {N} cannot be on; choose 1 to {N}")
        self.intermediate_size = N * self.expert_size
        super().__post_init__(**more)


def relu_norm(a0: Tensor, w: Tensor, eps: float) -> Tensor:
    """Router scores a0 [n, N] -> weights [n, N]: ReLU says which experts are on, RMSNorm with gain w [N] how much they
    count. A row with no expert on is all zeros."""
    a1 = a0.relu()
    return w * a1 * torch.rsqrt(a1.square().mean(-1, keepdim=True) + eps)


class Router(nn.Module):
    """What all routers share: scores, and their result as (scores [n, N], weights [n, N], experts [n, N]): an expert's
    own number where it is on, -1 where it is off. Hooks find it as `mlp.gate`, as in the mixtures of transformers."""

    def __init__(self, config: BlockFFNConfig) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(config.num_experts, config.hidden_size) * config.initializer_range)

    def weights(self, a0: Tensor) -> Tensor:
        """Weights [n, N] of scores [n, N], 0 for an expert that is off."""
        raise NotImplementedError

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Rows [n, d] to scores, weights and experts."""
        a0 = linear(x, self.weight)
        a = self.weights(a0)
        return a0, a, torch.where(a != 0, torch.arange(a.shape[-1], device=a.device), -1)


class ReLURouter(Router):
    """a = w * ReLU(W x) / sqrt(mean(ReLU(W x)^2) + eps)."""

    def __init__(self, config: BlockFFNConfig) -> None:
        super().__init__(config)
        self.norm, self.eps = nn.Parameter(torch.ones(config.num_experts)), config.rms_norm_eps

    def weights(self, a0: Tensor) -> Tensor:
        """See `relu_norm`."""
        return relu_norm(a0, self.norm, self.eps)


class TopKRouter(Router):
    """The twin: the k best scores of each row, their softmax as weights."""

    def __init__(self, config: BlockFFNConfig) -> None:
        super().__init__(config)
        self.k = config.num_experts_per_tok

    def weights(self, a0: Tensor) -> Tensor:
        """The softmax of the k best of each row, 0 elsewhere."""
        best, at = a0.topk(self.k, -1)
        return torch.zeros_like(a0).scatter(-1, at, best.softmax(-1))


ROUTERS: dict[str, type[Router]] = {"relu": ReLURouter, "topk": TopKRouter}


class BlockFFN(nn.Module):
    """y = sum over experts of a_i down_i SiLU(up_i x): plain experts without a gate of their own, since a gated expert
    ruins the sparsity of the router (appendix of the paper).

    For a forward without training only the experts that some row uses are multiplied: the union U of the chunk, all
    rows with each of them, the pairs that are off at 0. That is the same sum."""

    def __init__(self, config: BlockFFNConfig) -> None:
        super().__init__()
        self.gate = ROUTERS[config.router](config)
        self.up = nn.Parameter(torch.randn(config.intermediate_size, config.hidden_size) * config.hidden_size**-0.5)
        self.down = nn.Parameter(torch.randn(config.intermediate_size, config.hidden_size) * config.initializer_range)
        self.size = config.expert_size

    def forward(self, x: Tensor) -> Tensor:
        """Rows [..., d] to [..., d]."""
        rows = x.flatten(0, -2)
        _, a, _ = self.gate(rows)
        union = (a != 0).any(0).nonzero()[:, 0]
        if self.training or len(union) == a.shape[-1]:
            return self.experts(rows, a, self.up, self.down).view_as(x)
        up, down = (w.unflatten(0, (-1, self.size))[union].flatten(0, 1) for w in (self.up, self.down))
        return self.experts(rows, a[:, union], up, down).view_as(x)

    def experts(self, x: Tensor, a: Tensor, up: Tensor, down: Tensor) -> Tensor:
        """Rows [n, d] through some m experts: weights a [n, m], their matrices up and down [m e, d]."""
        h = silu(linear(x, up)).unflatten(-1, (-1, self.size)) * a[..., None]
        return h.flatten(-2) @ down


class BlockFFNForCausalLM(LlamaForCausalLM):
    """A Llama whose layers have such feed-forward parts."""

    config_class = BlockFFNConfig

    def __init__(self, config: BlockFFNConfig) -> None:
        super().__init__(config)
        for layer in self.model.layers:
            layer.mlp = BlockFFN(config)
