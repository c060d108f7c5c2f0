"""What a decoded token costs (Step-3's report, arXiv:2507.19427): bytes of the cache and operations of any model whose
config.json is given, US dollars on four accelerators, attention and feed-forward layers apart, and the pipeline of
attention and feed-forward servers with 1 to 6 microbatches.

Nothing runs: all of it is the report's cost model. A published throughput is quoted as published and stands beside what
the model gives."""

from collections.abc import Sequence
from typing import Any

from engines.core.params import Float, Int, Params, Text
from engines.core.study import Axis, Column, Figure, Progress, Receipt, Series, Study, Table, study
from engines.studies._decode_costs import (
    DEVICES,
    PUBLISHED,
    Pipeline,
    Shape,
    least_sparsity,
    price,
    read_config,
    stage_seconds,
)

OWN = "your config"
CONTEXTS = tuple(2**power for power in range(10, 21))
MOST_MICROBATCHES = 6
SHOWN_LAYERS = 3  # of the pipeline's picture
TPOT, SEQUENCES, GPUS = 0.05, 2048, 32  # of the report: seconds of a token; sequences of a microbatch; both sides
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
    tokens = throughput(now, SEQUENCES, GPUS)
    receipts = [
        Receipt("stage", "TPOT / (3 L)", {"TPOT ms": 1e3 * TPOT, "L": float(chosen.layers)},
                1e3 * stage_seconds(1e3 * TPOT, chosen.layers), "µs", "modelled"),
        Receipt("tokens a second and GPU", "m b / (GPUs x step)",
                {"m": float(p.microbatches), "b": float(SEQUENCES), "GPUs": float(GPUS), "step ms": now.step / 1e3},
                tokens, provenance="modelled"),
        Receipt("step behind the published figure", "batch / (GPUs x tokens a second and GPU)",
                {"batch": 6144.0, "GPUs": 32.0, "published": QUOTED}, 1e3 * 6144 / (32 * QUOTED), "ms"),
    ]  # fmt: skip
    return Study(
        tables=[
            costs(shapes, p.context),
            dollars(shapes, p.context),
            microbatches(pipelines, SEQUENCES, GPUS),
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
