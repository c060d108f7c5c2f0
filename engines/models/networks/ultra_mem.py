"""UltraMemV2: beside the feed-forward part of every layer a table of small vectors, of which a token reads a few that
it finds by a key of two parts (arXiv 2508.18756, section 3), in a Llama; without it, the twin that has none.

Shapes: n rows, d hidden size, K rows and K columns of keys, r ranks, h heads of scores, m slots read by a row, N slots
of the pool that all layers share, D_k, D_v, D_p sizes of a key, a value and a pre-value."""

from functools import cache
from math import isqrt
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, silu
from transformers import LlamaConfig, LlamaForCausalLM


class UltraMemConfig(LlamaConfig):
    """A Llama's config (intermediate_size: width of the feed-forward part, of two matrices) and: keys_per_axis, of a
    layer before sharing; share, of the pool that a layer sees; slots_read m, 0 for no memory at all; rank r;
    score_heads h; key_size D_k; value_size D_v; pre_size D_p."""

    model_type = "ultra_mem"
    keys_per_axis: int = 48
    share: float = 0.5
    slots_read: int = 16
    rank: int = 2
    score_heads: int = 2
    key_size: int = 32
    value_size: int = 48
    pre_size: int = 48

    def __post_init__(self, **more: Any) -> None:
        v, h, m = self.value_size, self.score_heads, self.slots_read
        if v % h:
            raise ValueError(f"a value of {v} numbers cannot be shared by {h} heads of scores")
        if not 0 <= m <= self.keys:
            raise ValueError(f"{m} slots cannot be read with {self.keys} keys; choose 0 to {self.keys}")
        super().__post_init__(**more)

    @property
    def pool(self) -> int:
        """N: the slots of all layers."""
        return int(self.keys_per_axis**2 * self.num_hidden_layers)

    @property
    def keys(self) -> int:
        """K: rows, and columns, of keys of a layer; it sees the share K^2 / N of the pool."""
        return isqrt(int(self.pool * self.share))


class Found(NamedTuple):
    """What a search finds for n rows: the m best rows and columns of keys, best first, the crossings row * K + column
    of the m best of their pairs, and the score [n, m, h] of each from every head."""

    rows: Tensor
    columns: Tensor
    crossings: Tensor
    scores: Tensor


class Reading(NamedTuple):
    """What a memory layer read for n rows: what was found, slots [n, m] of the pool, pre-scores [n, m] and its output
    [n, d]."""

    hits: Found
    slots: Tensor
    pre_scores: Tensor
    output: Tensor


def leading(cores: Tensor) -> tuple[Tensor, Tensor]:
    """u, v [r]: the best rank-1 approximation of the sum of the cores [h, r, r], up to its size. Singular vectors have
    no sign of their own; ours is the one with which the entries of u sum to a positive number."""
    U, _, Vh = torch.linalg.svd(cores.detach().sum(0))
    sign = torch.where(U[:, 0].sum() < 0, -1.0, 1.0)
    return sign * U[:, 0], sign * Vh[0]


def search(q: Tensor, keys: Tensor, cores: Tensor, m: int, candidates: int | None = None) -> Found:
    """Tucker-decomposed query-key retrieval (section 3.2): queries q [n, 2, r, D_k] against keys [2, K, r, D_k].

    candidates: rows and columns that a rank-1 score lets through, by default m; K: a search of all crossings."""
    s_row, s_column = torch.einsum("narp,akrp->ankr", q, keys)  # [n, K, r] each
    u, v = leading(cores)
    rows, columns = best(s_row @ u, candidates or m), best(s_column @ v, candidates or m)
    with torch.no_grad():  # the heads' scores of a crossing, summed, say which are read
        grid = of(s_row, rows) @ cores.sum(0) @ of(s_column, columns).transpose(1, 2)
    chosen = best(grid.flatten(1), m)
    i, j = rows.gather(1, chosen // grid.shape[2]), columns.gather(1, chosen % grid.shape[2])
    scores = torch.einsum("nmr,hrs,nms->nmh", of(s_row, i), cores, of(s_column, j))
    return Found(rows, columns, i * keys.shape[1] + j, scores)


def of(s: Tensor, at: Tensor) -> Tensor:
    """Scores [n, m, r] of the keys at [n, m], from those of all of them [n, K, r]."""
    return s.gather(1, at[..., None].expand(-1, -1, s.shape[-1]))


def best(scores: Tensor, m: int) -> Tensor:
    """Indices [n, m] of the highest of each row of scores, the highest first; ties go to the lowest index (but in a
    training, where the library's own order is three times as fast)."""
    if torch.is_grad_enabled():
        return scores.topk(m, -1).indices
    return scores.sort(dim=-1, descending=True, stable=True).indices[:, :m]


def pre_scores(p: Tensor, P: Tensor) -> Tensor:
    """[n, m]: how much each slot, a neuron of its own, wants to count for its row: inputs p [n, D_p] times pre-values P
    [n, m, D_p], without an activation function."""
    return torch.einsum("np,nmp->nm", p, P)


def weighted(scores: Tensor, pre: Tensor, V: Tensor) -> Tensor:
    """[n, D_v]: values V [n, m, D_v] summed, each head's part of them with that head's score times the pre-score
    (equation 15)."""
    return torch.einsum("nmh,nmhe->nhe", scores * pre[..., None], V.unflatten(-1, (scores.shape[-1], -1))).flatten(1)


@cache
def shuffled(layer: int, slots: int) -> Tensor:
    """The fixed permutation [slots] that breaks up which slots are neighbours by row and column."""
    return torch.from_numpy(np.random.RandomState(layer).permutation(slots))


class Pool(nn.Module):
    """The table of all layers: N values and N pre-values."""

    def __init__(self, config: UltraMemConfig) -> None:
        super().__init__()
        self.values = nn.Parameter(torch.randn(config.pool, config.value_size) * 0.02)
        self.pre_values = nn.Parameter(torch.randn(config.pool, config.pre_size) * 0.02)


class Memory(nn.Module):
    """The memory of one layer: its keys and projections; the slots are those of the pool."""

    def __init__(self, config: UltraMemConfig, layer: int, pool: Pool) -> None:
        super().__init__()
        c, d, D_k = config, config.hidden_size, config.key_size
        object.__setattr__(self, "pool", pool)  # the model's own module: its weights belong to all layers
        self.layer, self.m, self.K, self.r = layer, c.slots_read, c.keys, c.rank
        self.offset = layer * c.keys_per_axis**2
        self.query_proj = nn.Linear(d, 2 * c.rank * D_k, bias=False)
        self.pre_proj, self.out_proj = nn.Linear(d, c.pre_size, bias=False), nn.Linear(c.value_size, d, bias=False)
        for linear in (self.query_proj, self.pre_proj, self.out_proj):
            nn.init.normal_(linear.weight, std=linear.in_features**-0.5)
        self.row_keys = nn.Parameter(torch.randn(c.keys * c.rank, D_k))
        self.column_keys = nn.Parameter(torch.randn(c.keys * c.rank, D_k))
        self.query_norm, self.key_norm = (nn.RMSNorm(D_k, c.rms_norm_eps) for _ in range(2))
        for norm in (self.query_norm, self.key_norm):
            nn.init.constant_(norm.weight, D_k**-0.4)
        self.cores = nn.Parameter(torch.rand(c.score_heads, c.rank, c.rank))

    def queries(self, x: Tensor) -> Tensor:
        """[n, 2, r, D_k]: for every rank a query of its own to the rows and one to the columns."""
        return self.query_norm(self.query_proj(x).unflatten(-1, (2, self.r, -1)))

    def keys(self) -> Tensor:
        """[2, K, r, D_k]."""
        both = torch.stack([self.row_keys, self.column_keys]).unflatten(1, (self.K, self.r))
        return self.key_norm(both)

    def slots(self, crossings: Tensor) -> Tensor:
        """Where in the pool the slots of crossings of keys are: permuted, behind the layer's offset."""
        at = shuffled(self.layer, self.K**2).to(crossings.device)[crossings]
        return (at + self.offset) % len(self.pool.values)

    def forward(self, x: Tensor) -> Reading:
        """Rows x [n, d], as the feed-forward part reads them."""
        hits = search(self.queries(x), self.keys(), self.cores, self.m)
        slots = self.slots(hits.crossings)
        pre = pre_scores(self.pre_proj(x), embedding(slots, self.pool.pre_values))
        output = self.out_proj(weighted(hits.scores, pre, embedding(slots, self.pool.values)))
        return Reading(hits, slots, pre, output)


class FeedForward(nn.Module):
    """y = down SiLU(up x) + Mem(x): the memory's output goes into the stream beside that of the two matrices."""

    def __init__(self, config: UltraMemConfig, layer: int, pool: Pool | None) -> None:
        super().__init__()
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)
        nn.init.normal_(self.up_proj.weight, std=config.hidden_size**-0.5)
        nn.init.normal_(self.down_proj.weight, std=config.initializer_range)
        self.memory = Memory(config, layer, pool) if pool else None

    def forward(self, x: Tensor) -> Tensor:
        """Rows [..., d] to [..., d]."""
        y: Tensor = self.down_proj(silu(self.up_proj(x)))
        return y if self.memory is None else y + self.memory(x.flatten(0, -2)).output.view_as(x)


class UltraMemForCausalLM(LlamaForCausalLM):
    """A Llama whose layers have such feed-forward parts, and one pool for all of them."""

    config_class = UltraMemConfig

    def __init__(self, config: UltraMemConfig) -> None:
        super().__init__(config)
        self.pool = Pool(config) if config.slots_read else None
        for i, layer in enumerate(self.model.layers):
            layer.mlp = FeedForward(config, i, self.pool)
