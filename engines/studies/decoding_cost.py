"""What a decoded token costs (Step-3's report, arXiv:2507.19427): bytes of the cache and operations of any model whose
config.json is given, US dollars on four accelerators, attention and feed-forward layers apart, and the pipeline of
attention and feed-forward servers with 1 to 6 microbatches.

Nothing runs: all of it is the report's cost model. A published throughput is quoted as published and stands beside what
the model gives.

Sections 4, 5.4 and 7.3 of the report: closed forms and an event model. One byte per element unless told. Letters: L
layers, H hidden size, h query heads of width d, n context, c bytes of the cache a token and layer, F operations and W
bytes a second."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from engines.core.errors import UserError
from engines.core.params import Float, Int, Params, Text
from engines.core.study import Axis, Column, Figure, Progress, Receipt, Series, Study, Table, study

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


OWN = "your config"
CONTEXTS = tuple(2**power for power in range(10, 21))
MOST_MICROBATCHES = 6
SHOWN_LAYERS = 3  # of the pipeline's picture
TPOT, SEQUENCES, ALL_GPUS = 0.05, 2048, 32  # of the report: seconds of a token; sequences of a microbatch; both sides
QUOTED = 4039.0  # tokens a second and GPU, Step-3 at 4 k tokens, the report's Table 8: a measurement of theirs


@study(
    "decoding-cost",
    "What a decoded token costs, and attention on servers of its own",
    "arXiv:2507.19427",
    summary="Cache bytes, operations and dollars of a token for five published models and your own config.json, and "
    "the pipeline of attention and feed-forward servers.",
    inputs=[
        Text(
            "config",
            "",
            help="The text of a Hugging Face config.json (GQA, MLA or MFA): one more row and ray.",
            longest=20_000,
        ),
        Int("context", 8192, 1, 1_048_576, help="Tokens in the cache when the next one is decoded."),
        Float("price", 0.05, 0.001, 100.0, help="US dollars for attention of a million tokens: size of the boxes."),
        Float("attention", 272.0, 1.0, 10_000.0, help="Microseconds of a microbatch in one attention layer."),
        Float("ffn", 272.0, 1.0, 10_000.0, help="Microseconds of a microbatch in one feed-forward layer."),
        Float("out", 91.0, 0.0, 10_000.0, help="Microseconds on the link to the feed-forward server."),
        Float("back", 181.0, 0.0, 10_000.0, help="Microseconds on the way back."),
        Int(
            "microbatches", 3, 1, MOST_MICROBATCHES, help="Groups of sequences that follow each other through a layer."
        ),
    ],
    departures="As in the report: one byte for an element of the cache; full batches, so that reading weights costs "
    "nothing; one server a side; projections bound by operations; both products of MLA at its cached width. Prices and "
    "devices are the report's; that of the 910B is an estimate of its authors.",
)
def decoding_cost(p: Params, progress: Progress) -> Study:
    """Closed forms and one event model."""
    shapes = dict(PUBLISHED)
    if p.config.strip():
        shapes[OWN] = read_config(p.config)
    progress(0, 1)
    chosen = PUBLISHED["Step-3"]
    pipelines = [Pipeline(chosen.layers, m, p.attention, p.ffn, p.out, p.back) for m in range(1, MOST_MICROBATCHES + 1)]
    now = pipelines[p.microbatches - 1]
    tokens = throughput(now, SEQUENCES, ALL_GPUS)
    receipts = [
        Receipt("stage", "TPOT / (3 L)", {"TPOT ms": 1e3 * TPOT, "L": float(chosen.layers)},
                1e3 * stage_seconds(1e3 * TPOT, chosen.layers), "µs", "modelled"),
        Receipt("tokens a second and GPU", "m b / (GPUs x step)",
                {"m": float(p.microbatches), "b": float(SEQUENCES), "GPUs": float(ALL_GPUS), "step ms": now.step / 1e3},
                tokens, provenance="modelled"),
        Receipt("step behind the published figure", "batch / (GPUs x tokens a second and GPU)",
                {"batch": 6144.0, "GPUs": 32.0, "published": QUOTED}, 1e3 * 6144 / (32 * QUOTED), "ms"),
    ]  # fmt: skip
    return Study(
        tables=[
            costs(shapes, p.context),
            dollars(shapes, p.context),
            microbatches(pipelines, SEQUENCES, ALL_GPUS),
            networks(TPOT),
        ],
        figures=[plane(shapes, p.context, p.price), growth(shapes), schedule(now)],
        receipts=receipts,
        notes=[
            f"Step-3's report measured {QUOTED:,.0f} tokens/s and GPU with 6,144 sequences on 32 GPUs: published, not "
            "made here. With its stage budget the pipeline gives 3,816 at three microbatches: a step of 50.3 ms in "
            "place of 47.5.",
            "No model runs in this study, and no time in it was measured here.",
        ],
    )


def costs(shapes: dict[str, Shape], n: int) -> Table:
    """Bytes and operations of a token."""
    rows: list[list[Any]] = []
    for name, shape in shapes.items():
        kv, flops = shape.kv_bytes(n), shape.attention_flops(n)
        giga = [f / 1e9 for f in (flops, shape.linear_flops, shape.ffn_flops)]
        rows.append([name, shape.kind.upper(), kv / 1e6, *giga, flops / kv, shape.sparsity])
    columns = [
        Column("model"),
        Column("attention"),
        Column("cache read", "MB", "modelled", 0),
        Column("attention", "GFLOP", "modelled", 1),
        Column("projections", "GFLOP", "modelled", 1),
        Column("feed-forward", "GFLOP", "modelled", 1),
        Column("attention per byte", "FLOP", "modelled", 0),
        Column("experts used, S", "", "derived", 3),
    ]
    return Table("costs", f"One token behind {n:,} others", columns, rows)


def dollars(shapes: dict[str, Shape], n: int) -> Table:
    """Prices on each device, and with the cheapest device for each part."""
    rows: list[list[Any]] = []
    for name, shape in shapes.items():
        prices = {device: price(shape, about, n) for device, about in DEVICES.items()}
        attention, ffn = (min(prices, key=lambda d: getattr(prices[d], part)) for part in ("attention", "ffn"))
        apart = prices[attention].attention + prices[ffn].ffn
        whole = [prices[device].attention + prices[device].ffn for device in DEVICES]
        rows.append([name, *whole, apart, attention, ffn, prices["H800"].bound, prices["H20"].bound])
    columns = [
        Column("model"),
        *(Column(f"all on {device}", "USD", "modelled", 3) for device in DEVICES),
        Column("apart, cheapest of each", "USD", "modelled", 3),
        Column("attention on"),
        Column("feed-forward on"),
        Column("attention on H800 is bound by"),
        Column("on H20"),
    ]
    return Table("dollars", "US dollars for a million tokens at full batches", columns, rows)


def throughput(pipeline: Pipeline, sequences: int, gpus: int) -> float:
    """Tokens a second and GPU: every sequence gains one a step (in µs)."""
    return 1e6 * pipeline.microbatches * sequences / (gpus * pipeline.step)


def microbatches(pipelines: Sequence[Pipeline], sequences: int, gpus: int) -> Table:
    """What more microbatches buy."""
    rows: list[list[Any]] = []
    for pipeline in pipelines:
        busy = pipeline.busy(pipeline.attention), pipeline.busy(pipeline.ffn)
        rows.append([pipeline.microbatches, pipeline.step / 1e3, *busy, throughput(pipeline, sequences, gpus)])
    columns = [
        Column("microbatches", "", "given"),
        Column("a token takes", "ms", "modelled", 1),
        Column("attention busy", "", "modelled", 2),
        Column("feed-forward busy", "", "modelled", 2),
        Column("tokens a second and GPU", "", "modelled", 0),
    ]
    return Table("microbatches", "The pipeline by microbatches", columns, rows)


def networks(tpot: float) -> Table:
    """How sparse a mixture may be before the network of a device cannot feed its experts."""
    step3 = PUBLISHED["Step-3"]
    of_models = [shape.sparsity for shape in PUBLISHED.values()]
    rows: list[list[Any]] = [
        [name, least_sparsity(device, step3.hidden, step3.layers, tpot), *of_models] for name, device in DEVICES.items()
    ]
    columns = [
        Column("device"),
        Column("smallest S for Step-3's sizes", "", "modelled", 3),
        *(Column(f"S of {name}", "", "derived", 3) for name in PUBLISHED),
    ]
    return Table("networks", "Experts used of all, and what the network allows", columns, rows)


def plane(shapes: dict[str, Shape], n: int, usd: float) -> Figure:
    """Each model a ray from the origin with a dot at n tokens of context; each device the box of bytes and operations
    that a price for a million tokens buys, with its corner on the device's slope."""
    boxes = dict[str, tuple[float, float]]()
    for name, device in DEVICES.items():
        seconds = 3600 * usd / (1e6 * device.usd_per_hour)
        boxes[name] = device.bytes_per_s * seconds / 1e6, device.flops * seconds / 1e9
    series = list[Series]()
    for name, shape in shapes.items():
        x, y = shape.kv_bytes(n) / 1e6, shape.attention_flops(n) / 1e9
        inside = sum(x <= b and y <= o for b, o in boxes.values())
        label = f"{name}, {n:,} tokens: in {inside} of {len(boxes)} boxes"
        series.append(Series(name, [0.0, x], [0.0, y], "modelled", text=["no tokens", label]))
    series += [
        Series(f"{name}: {DEVICES[name].flops / DEVICES[name].bytes_per_s:.0f} FLOP a byte",
               [0.0, b, b], [o, o, 0.0], "modelled")
        for name, (b, o) in boxes.items()
    ]  # fmt: skip
    title = f"Attention of a token (lines), and what ${usd:g} a million tokens buys on each device (boxes)"
    return Figure("plane", title, Axis("cache read", "MB"), Axis("attention", "GFLOP"), series)


def growth(shapes: dict[str, Shape]) -> Figure:
    """Dollars against the context, attention and feed-forward layers each on its cheapest device."""

    def apart(shape: Shape, n: int) -> float:
        prices = [price(shape, device, n) for device in DEVICES.values()]
        return min(cost.attention for cost in prices) + min(cost.ffn for cost in prices)

    x, series = [float(n) for n in CONTEXTS], list[Series]()
    for name, shape in shapes.items():
        text = [f"{name}, {n:,} tokens" for n in CONTEXTS]
        series.append(Series(name, x, [apart(shape, n) for n in CONTEXTS], "modelled", text=text))
    title = "What a million tokens cost by context, each part on its cheapest device"
    return Figure("growth", title, Axis("context", "tokens", log=True), Axis("price", "USD", log=True), series)


def schedule(pipeline: Pipeline) -> Figure:
    """The first layers: a row for each place, a span for each microbatch in it."""
    lasts = {"attention": pipeline.attention, "sends": pipeline.a_to_f, "ffn": pipeline.ffn, "returns": pipeline.f_to_a}
    series = [Series(f"microbatch {m + 1}", [], [], "modelled", style="spans") for m in range(pipeline.microbatches)]
    for stage in (stage for stage in pipeline.stages() if stage.layer < SHOWN_LAYERS):
        bars = series[stage.microbatch]
        for place, (name, duration) in enumerate(lasts.items()):
            bars.x.append(float(place))
            bars.base.append(getattr(stage, name))
            bars.y.append(getattr(stage, name) + duration)
            bars.text.append(f"{bars.name}, layer {stage.layer + 1}")
    labels = ["attention server", "link to the experts", "feed-forward server", "link back"]
    title, across = f"The first {SHOWN_LAYERS} layers", Axis("place", labels=labels)
    return Figure("schedule", title, across, Axis("time", "µs"), series)
