"""The cost model of Step-3's report (arXiv:2507.19427, sections 4, 5.4 and 7.3): bytes and operations of one decoded
token, US dollars on four accelerators, and the pipeline of attention and feed-forward servers.

Everything is closed form or an event model; nothing runs. One byte per element unless told. Letters: L layers, H hidden
size, h query heads of width d, n context, c bytes of the cache a token and layer, F operations and W bytes a second."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from engines.core.errors import UserError

MLA = ("kv_rank", "nope", "rope", "v_dim")
OTHER = ("ssm_cfg", "mamba", "linear_num_value_heads", "attn_layer_period", "rwkv", "lightning")


@dataclass(frozen=True)
class Device:
    """An accelerator of the report: US dollars an hour, F, W, and the bytes a second of a server's network."""

    usd_per_hour: float
    flops: float
    bytes_per_s: float
    network: float


DEVICES = {
    "H800": Device(2.0, 1.98e15, 3.35e12, 4e11),
    "H20": Device(0.8, 2.96e14, 4.0e12, 4e11),
    "A800": Device(0.75, 3.12e14, 2.0e12, 2e11),
    "910B": Device(0.67, 2.80e14, 1.6e12, 2e11),
}


@dataclass(frozen=True)
class Shape:
    """What a model's config says of its decode. kind: gqa (multi-head attention too), mla or mfa. Sizes that a kind
    does not have are 0; q_rank 0: queries are not made through a low rank."""

    layers: int
    hidden: int
    kind: Literal["gqa", "mla", "mfa"]
    q_heads: int
    head_dim: int = 0
    kv_heads: int = 0
    q_rank: int = 0
    kv_rank: int = 0
    nope: int = 0
    rope: int = 0
    v_dim: int = 0
    dense_layers: int = 0
    dense_ffn: int = 0
    moe_layers: int = 0
    experts: int = 0
    top_k: int = 0
    shared: int = 0
    expert_ffn: int = 0

    @property
    def cached(self) -> int:
        """Elements that the cache keeps of a token in one layer: 2 h_kv d, 2 d of MFA, r_kv + d_rope of MLA."""
        if self.kind == "mla":
            return self.kv_rank + self.rope
        return 2 * self.head_dim * (1 if self.kind == "mfa" else self.kv_heads)

    @property
    def width(self) -> int:
        """Of both products of attention, for each query head; the report takes r_kv + d_rope twice for MLA."""
        return self.kv_rank + self.rope if self.kind == "mla" else self.head_dim

    def attention_flops(self, n: int) -> float:
        """Of scores and values over n cached tokens, all layers: L n 4 h w."""
        return self.layers * n * 4 * self.q_heads * self.width

    def kv_bytes(self, n: int, element: float = 1) -> float:
        """Read for one token behind n others, all layers."""
        return self.layers * n * self.cached * element

    @property
    def linear_flops(self) -> float:
        """Of the projections around attention, all layers."""
        H, h, d, r_q = self.hidden, self.q_heads, self.head_dim, self.q_rank
        if self.kind == "mla":
            head = self.nope + self.rope
            queries = H * r_q + r_q * h * head if r_q else H * h * head
            weights = queries + H * self.cached + h * self.kv_rank * (self.nope + self.v_dim) + h * self.v_dim * H
        elif self.kind == "mfa":
            weights = H * r_q + r_q * h * d + 2 * H * d + h * d * H
        else:
            weights = H * h * d + 2 * H * self.kv_heads * d + h * d * H
        return 2 * self.layers * weights

    @property
    def ffn_flops(self) -> float:
        """Of all feed-forward layers, experts that a token does not use left out."""
        dense = self.dense_layers * 3 * self.hidden * self.dense_ffn
        return 2 * (dense + self.moe_layers * (self.top_k + self.shared) * 3 * self.hidden * self.expert_ffn)

    @property
    def sparsity(self) -> float:
        """S = (top_k + shared) / (experts + shared); 1 without experts."""
        return (self.top_k + self.shared) / (self.experts + self.shared) if self.experts else 1.0


PUBLISHED = {
    "Step-3": Shape(
        61, 7168, "mfa", 64, head_dim=256, q_rank=2048, dense_layers=5, dense_ffn=18432,
        moe_layers=56, experts=48, top_k=3, shared=1, expert_ffn=5120,
    ),
    "DeepSeek-V3": Shape(
        61, 7168, "mla", 128, q_rank=1536, kv_rank=512, nope=128, rope=64, v_dim=128, dense_layers=3, dense_ffn=18432,
        moe_layers=58, experts=256, top_k=8, shared=1, expert_ffn=2048,
    ),
    "Kimi K2": Shape(
        61, 7168, "mla", 64, q_rank=1536, kv_rank=512, nope=128, rope=64, v_dim=128, dense_layers=1, dense_ffn=18432,
        moe_layers=60, experts=384, top_k=8, shared=1, expert_ffn=2048,
    ),
    "Qwen3-235B-A22B": Shape(
        94, 4096, "gqa", 64, head_dim=128, kv_heads=4, moe_layers=94, experts=128, top_k=8, expert_ffn=1536,
    ),
    "Qwen3-32B": Shape(64, 5120, "gqa", 64, head_dim=128, kv_heads=8, dense_layers=64, dense_ffn=25600),
}  # fmt: skip


@dataclass(frozen=True)
class Price:
    """US dollars for a million tokens on one device: attention with its projections, the feed-forward part, and what
    attention is bound by."""

    attention: float
    ffn: float
    bound: Literal["memory", "compute"]


def price(shape: Shape, device: Device, n: int, element: float = 1) -> Price:
    """Full batches, so that weights cost nothing to read: max(attention / F, KV / W) + projections / F, and FFN / F."""
    second = 1e6 * device.usd_per_hour / 3600
    compute, memory = shape.attention_flops(n) / device.flops, shape.kv_bytes(n, element) / device.bytes_per_s
    attention = second * (max(compute, memory) + shape.linear_flops / device.flops)
    return Price(attention, second * shape.ffn_flops / device.flops, "compute" if compute > memory else "memory")


GPUS = 16  # a side, in the player's picture of the pipeline: two servers of eight


def published() -> dict[str, Any]:
    """What pictures of the player scale: of each model the bytes and operations of attention for one token of context;
    of each device those that a dollar a million tokens buys, and of Step-3 on it the seconds in a layer, of a sequence
    of a microbatch in attention for a token of context (`reads`) and around it, in the experts, of a microbatch there
    at least, and of a sequence on the way there."""
    step3 = PUBLISHED["Step-3"]
    expert, each = 3 * step3.hidden * step3.expert_ffn, GPUS * step3.layers
    return {
        "layers": step3.layers,
        "models": [
            {"name": name, "kind": spec.kind.upper(), "bytes": spec.kv_bytes(1), "operations": spec.attention_flops(1)}
            for name, spec in PUBLISHED.items()
            if spec.experts
        ],
        "devices": [
            {
                "name": name,
                "usd": spec.usd_per_hour,
                "bytes": spec.bytes_per_s * (hour := 3600 / (1e6 * spec.usd_per_hour)),
                "operations": spec.flops * hour,
                "reads": max(step3.attention_flops(1) / spec.flops, step3.kv_bytes(1) / spec.bytes_per_s) / each,
                "projects": step3.linear_flops / spec.flops / each,
                "experts": 2 * (step3.top_k + step3.shared) * expert / spec.flops / GPUS,
                "least": (step3.experts + step3.shared) * expert / spec.bytes_per_s / GPUS,
                "sends": step3.hidden / (2 * spec.network),
            }
            for name, spec in DEVICES.items()
        ],
    }


def stage_seconds(tpot: float, layers: int, stages: int = 3) -> float:
    """The time that one stage of a layer has: TPOT / (stages L)."""
    return tpot / (stages * layers)


def least_sparsity(device: Device, hidden: int, layers: int, tpot: float, stages: int = 3) -> float:
    """The smallest S whose batch the network can feed within a stage, one byte out and two back:
    H F L / (Net W (TPOT / stages) (2 / 3)); the report's section 5.4."""
    return hidden * device.flops * layers / (device.network * device.bytes_per_s * (tpot / stages) * (2 / 3))


@dataclass(frozen=True)
class Stage:
    """When one microbatch of one layer is where, in the unit of the durations given."""

    layer: int
    microbatch: int
    attention: float
    sends: float
    ffn: float
    returns: float
    back: float


@dataclass(frozen=True)
class Pipeline:
    """An attention server, a feed-forward server and a link in each direction, each taking one microbatch after the
    other, first come first served. Durations are of one microbatch in one layer."""

    layers: int
    microbatches: int
    attention: float
    ffn: float
    a_to_f: float
    f_to_a: float

    def stages(self) -> list[Stage]:
        """All of them, layer by layer. Attention of a layer needs what the layer before it has returned."""
        free = dict.fromkeys(("A", "A>F", "F", "F>A"), 0.0)
        back, stages = [0.0] * self.microbatches, list[Stage]()

        def takes(resource: str, ready: float, duration: float) -> tuple[float, float]:
            begins = max(free[resource], ready)
            free[resource] = begins + duration
            return begins, begins + duration

        for layer in range(self.layers):
            for j in range(self.microbatches):
                attention, ready = takes("A", back[j], self.attention)
                sends, ready = takes("A>F", ready, self.a_to_f)
                ffn, ready = takes("F", ready, self.ffn)
                returns, back[j] = takes("F>A", ready, self.f_to_a)
                stages.append(Stage(layer, j, attention, sends, ffn, returns, back[j]))
        return stages

    @property
    def step(self) -> float:
        """From the first attention to the last return: one token of every sequence."""
        return max(stage.back for stage in self.stages())

    def busy(self, duration: float) -> float:
        """The share of a step in which a server with that duration works."""
        return self.layers * self.microbatches * duration / self.step


def read_config(text: str) -> Shape:
    """The shape that a Hugging Face config.json tells. Raises UserError for what is no config, or an attention whose
    cost these formulas do not hold for."""
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        raise UserError("this is not JSON; paste the whole text of a model's config.json.") from None
    if not isinstance(given, dict):
        raise UserError("a config.json is an object of names and values; paste the whole text of one.")
    nested = given.get("text_config")
    raw = {**given, **nested} if isinstance(nested, dict) else given
    odd = sorted({*raw.get("layer_types", [])} - {"full_attention"}) if isinstance(raw.get("layer_types"), list) else []
    if other := [*odd, *(key for key in OTHER if raw.get(key))]:
        raise UserError(
            f"the config has layers of another kind ({other[0]}); the formulas hold for full attention of the kinds "
            "GQA, MLA and MFA in every layer: give such a config."
        )
    layers, hidden, heads = (_whole(raw, name) for name in ("num_hidden_layers", "hidden_size", "num_attention_heads"))
    return Shape(layers, hidden, q_heads=heads, **_attention(raw, hidden, heads), **_feed_forward(raw, layers))


def _attention(raw: Mapping[str, Any], hidden: int, heads: int) -> dict[str, Any]:
    if raw.get("kv_lora_rank"):
        keys = ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
        sizes = {name: _whole(raw, key) for name, key in zip(MLA, keys, strict=True)}
        return {"kind": "mla", "q_rank": _whole(raw, "q_lora_rank", 0), **sizes}
    d = _whole(raw, "head_dim", hidden // heads)
    if raw.get("share_q_dim"):
        return {"kind": "mfa", "head_dim": d, "q_rank": _whole(raw, "share_q_dim")}
    return {"kind": "gqa", "head_dim": d, "kv_heads": _whole(raw, "num_key_value_heads", heads)}


def _feed_forward(raw: Mapping[str, Any], layers: int) -> dict[str, Any]:
    """Dense and mixture layers; the names differ by family."""
    experts = _any(raw, "n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts")
    if not experts:
        return {"dense_layers": layers, "dense_ffn": _whole(raw, "intermediate_size")}
    width = _any(raw, "moe_intermediate_size") or _whole(raw, "intermediate_size")
    dense = _any(raw, "first_k_dense_replace") or len(raw.get("mlp_only_layers") or [])
    if isinstance(listed := raw.get("moe_layers_enum"), str) and listed:
        dense = layers - len({*listed.split(",")})
    if not 0 <= dense <= layers:
        raise UserError(f"the config says that {dense} of {layers} layers are dense; give a whole config.json.")
    beside = _any(raw, "shared_expert_intermediate_size", "share_expert_dim")
    return {
        "dense_layers": dense,
        "dense_ffn": _whole(raw, "intermediate_size") if dense else 0,
        "moe_layers": layers - dense,
        "experts": experts,
        "top_k": _any(raw, "num_experts_per_tok", "moe_top_k", "num_experts_per_token") or _whole(raw, "top_k"),
        "shared": _any(raw, "n_shared_experts") or round(beside / width),
        "expert_ffn": width,
    }


def _any(raw: Mapping[str, Any], *names: str) -> int:
    """The first of these that is there; 0 where none is."""
    return next((_whole(raw, name) for name in names if raw.get(name)), 0)


def _whole(raw: Mapping[str, Any], name: str, otherwise: int | None = None) -> int:
    """A size. Raises UserError where it is missing without a usual value, or no number of 1 to a million."""
    value = raw.get(name)
    if value is None and otherwise is not None:
        return otherwise
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 1_000_000:
        problem = "is missing" if value is None else f"is {str(value)[:40]}"
        raise UserError(f"{name} {problem} in the config; it must be a whole number from 1 to 1,000,000.")
    return value
