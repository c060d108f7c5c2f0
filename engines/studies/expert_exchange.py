"""What travels between devices that share a mixture's experts (Speculative MoE, arXiv 2503.04398): local rate and bytes
by placement on text that the tables never saw, modelled seconds by the link, and two real processes.

The routing is that of the model on held-out text; the tables come from the counts on a profiling text. Devices are
simulated, but for the last table: there two processes hold half of the experts each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from engines.core.lazy import torch
from engines.core.params import Float, Int, Params, Text
from engines.core.study import Axis, Column, Figure, Progress, Receipt, Series, Study, Table, study
from engines.kit import Taps
from engines.methods.system import speculative_moe as method
from engines.methods.system.speculative_moe.exchanges import Exchange, exchange
from engines.studies._two_devices import PARTNERS, Told, run

PLACES = ("ordinary", "shuffled", "grouped", "both")
LINKS = (1, 3, 10, 30, 100, 400)  # GB/s


@study(
    "expert-exchange",
    "What travels between devices that share experts",
    "arXiv:2503.04398",
    summary="The share of expert calls that stay on their token's device, and the bytes of the others, measured on "
    "held-out text for four placements; seconds modelled by the link; two real processes that exchange activations.",
    inputs=[
        Text("model", "tiny-moe", help="A mixture of experts whose experts were counted by token id."),
        Int("rows", 56, 1, 400, help="Held-out rows of 128 tokens."),
        Int("devices", 4, 1, 8, symbol="G", help="Devices over which the experts are spread; simulated."),
        Float("bandwidth", 50.0, 1.0, 400.0, step=1.0, help="GB/s of a device's link, for the modelled seconds."),
        Float(
            "latency",
            10.0,
            1.0,
            50.0,
            step=1.0,
            help="Microseconds before an exchange begins, for the modelled seconds.",
        ),
        Int("turns", 5, 0, 50, help="Rounds of the two processes, of which the middle one counts; 0 leaves them out."),
    ],
    departures="Devices are simulated and no throughput is claimed. A table of token ids alone foretells. The two "
    "processes share memory and a machine, so their waiting is that of two cores, not of a link.",
    runs_models=True,
)
def expert_exchange(p: Params, progress: Progress) -> Study:
    """Route held-out text, place, count, model, run."""
    from engines import load_model
    from engines.models.parts import load_part
    from engines.tasks.rows import held_out

    model: Any = load_model(p.model, kind="moe", dtype="float32")
    T = method.table_of(load_part("expert-counts", [model.record]), model.vocab_size)
    texts = [row.ids for row in held_out(model.tokenizer.encode, p.rows)]
    tokens, L, mlp_rows = np.array(texts).ravel(), len(T), list[Any]()
    routed: list[list[Any]] = [[] for _ in range(L)]
    middle = model.mixtures[L // 2].layer
    for done, row in enumerate(texts):
        progress(done, len(texts) + 2)
        found = list[Any]()
        taps = Taps(router=found.append, feeds=lambda i, x: mlp_rows.append(x) if i == middle else None)
        model.layers(model.embed(row), model.new_cache(len(row)), 0, model.num_layers, taps=taps)
        for layer, one in enumerate(found):
            routed[layer].append(one)
    experts = [np.concatenate([chosen(one, 32) for one in ones]) for ones in routed]
    found_at = {name: [placed(T[i], tokens, experts[i], p.devices, name) for i in range(L)] for name in PLACES}
    d = int(mlp_rows[0].shape[1])
    pair = list[tuple[str, Told]]()
    if p.turns:
        pair = two(model, T[L // 2], tokens[:1024], torch.cat(mlp_rows)[:1024], middle, p.turns)
    unknown = int((T[0].sum(1)[tokens] == 0).sum())
    return told(p, found_at, experts, T, tokens, d, pair, unknown, model.record)


def chosen(one: Any, N: int) -> np.ndarray:
    """The experts [n, N] that rows use, -1 behind them."""
    found = one.experts.cpu().numpy()
    return np.pad(found, ((0, 0), (0, N - found.shape[1])), constant_values=-1)


def placed(T: np.ndarray, tokens: np.ndarray, experts: np.ndarray, G: int, name: str) -> tuple[Exchange, np.ndarray]:
    """The exchange of one layer under a placement, and how many tokens each device has."""
    one = method.plan(T, G, name)
    home = method.put(one, list(tokens), 0, G)
    return exchange(experts, home, one.C, G), np.bincount(home, minlength=G)


def favourites(T: np.ndarray, tokens: np.ndarray, experts: np.ndarray) -> float:
    """The share of activations among the experts that the token's id used most, as many as a token uses."""
    k = max(1, round(float((experts >= 0).sum(1).mean())))
    best = np.argsort(-T, 1, kind="stable")[:, :k]
    hit = (experts[:, :, None] == best[tokens][:, None, :]).any(2) & (experts >= 0)
    return float((hit & (T.sum(1)[tokens] > 0)[:, None]).sum() / max(1, (experts >= 0).sum()))


def two(model: Any, T: np.ndarray, tokens: np.ndarray, x: Any, layer: int, turns: int) -> list[tuple[str, Told]]:
    """One layer on two processes, in the ordinary places and with both tables. Nothing where the layer is none of our
    own, whose experts are plain matrices."""
    block = model.model.base_model.layers[layer]
    part = block.mlp
    if not (hasattr(part, "up") and hasattr(part, "size")):
        return []
    with torch.no_grad():
        rows = block.post_attention_layernorm(x)
        a = part.gate(rows)[1].numpy()
    up, down = (w.detach().unflatten(0, (-1, part.size)).numpy() for w in (part.up, part.down))
    made = list[tuple[str, Told]]()
    for name in ("ordinary", "both"):
        one = method.plan(T, PARTNERS, name)
        home = method.put(one, list(tokens), 0, PARTNERS)
        made.append((name, run(rows.numpy(), a, up, down, home, one.C, turns)))
    return made


def told(
    p: Params,
    found: dict[str, list[tuple[Exchange, np.ndarray]]],
    experts: Sequence[np.ndarray],
    T: np.ndarray,
    tokens: np.ndarray,
    d: int,
    pair: Sequence[tuple[str, Told]],
    unknown: int,
    record: Any,
) -> Study:
    """The tables, the local rate by layer and the modelled seconds over the link."""
    shares = [favourites(T[i], tokens, experts[i]) for i in range(len(T))]
    tables = [placements(found, d, shares), modelled(found, d, p)]
    if pair:
        tables.append(processes(pair))
    layers = [float(i) for i in range(len(T))]
    rates = [Series(name, layers, [one.lar for one, _ in by], "measured") for name, by in found.items()]
    links = [
        Series(
            name,
            [float(link) for link in LINKS],
            [microseconds([one for one, _ in by], d, link, p.latency) for link in LINKS],
            "modelled",
        )
        for name, by in found.items()
    ]
    best, usual = found["both"][len(T) // 2][0], found["ordinary"][len(T) // 2][0]
    return Study(
        tables=tables,
        figures=[
            Figure("local", "Expert calls that stay", Axis("layer"), Axis("local rate"), rates),
            Figure("link", "Exchange by the link", Axis("link", "GB/s", log=True), Axis("exchange", "µs"), links),
        ],
        receipts=[
            Receipt(
                "bytes of the middle layer with both tables, a token once to a device",
                "tokens that leave * numbers * (bytes out + bytes back)",
                {"tokens that leave": float(best.visits.sum()), "numbers": float(d), "bytes out": 1.0, "back": 2.0},
                float(sum(best.bytes(d, method.OUT, method.BACK, once=True))),
                unit="B",
            ),
            Receipt(
                "gain of the middle layer",
                "local rate with both tables / in the ordinary places",
                {"both": best.lar, "ordinary": usual.lar},
                best.lar / max(usual.lar, 1e-9),
            ),
        ],
        notes=[
            f"{len(tokens):,} tokens of text that the tables never saw; {unknown} of an id that was not profiled, "
            "which stay in their ordinary place.",
        ],
        models=[record],
    )


def microseconds(layers: Sequence[Exchange], d: int, bandwidth: float, latency: float) -> float:
    """Modelled exchange of all layers, both ways."""
    return 1e6 * sum(method.seconds(one, d, bandwidth, latency) for one in layers)


def placements(found: dict[str, list[tuple[Exchange, np.ndarray]]], d: int, shares: Sequence[float]) -> Table:
    """By layer and placement."""
    columns = [
        Column("layer", "", "given"),
        Column("placement"),
        Column("local rate", "", "measured", 3),
        Column("travels", "MB", "measured", 2),
        Column("busiest device", "of the mean", "measured", 2),
        Column("most tokens", "of the mean", "measured", 2),
        Column("among the favourites of its id", "", "measured", 3),
    ]
    rows: list[list[Any]] = []
    for layer, share in enumerate(shares):
        for name, by in found.items():
            one, held = by[layer]
            travels = sum(one.bytes(d, method.OUT, method.BACK, once=True)) / 1e6
            rows.append([layer, name, one.lar, travels, one.imbalance, float(held.max() / held.mean()), share])
    note = (
        "One byte a number out, two back, a token once to a device; the busiest device belongs beside the local rate."
    )
    return Table("placements", "Expert calls that stay, by layer and placement", columns, rows, note=note)


def modelled(found: dict[str, list[tuple[Exchange, np.ndarray]]], d: int, p: Params) -> Table:
    """Seconds of the exchanges of all layers under the link given."""
    columns = [Column("placement"), Column("exchange of all layers", "µs", "modelled", 1)]
    rows: list[list[Any]] = [
        [name, microseconds([one for one, _ in by], d, p.bandwidth, p.latency)] for name, by in found.items()
    ]
    note = f"{p.latency:g} µs and the busiest device's bytes over {p.bandwidth:g} GB/s, twice a layer."
    return Table("seconds", "Exchange, modelled", columns, rows, note=note)


def processes(pair: Sequence[tuple[str, Told]]) -> Table:
    """What two processes really did with one layer."""
    columns = [
        Column("placement"),
        Column("handed over", "MB", "measured", 3),
        Column("handed back", "MB", "measured", 3),
        Column("waiting, both", "ms", "measured", 2),
        Column("computing, both", "ms", "measured", 2),
        Column("round", "ms", "measured", 2),
        Column("largest difference from one process", "", "measured", 7),
    ]
    rows: list[list[Any]] = [
        [
            name,
            one.bytes_out / 1e6,
            one.bytes_back / 1e6,
            1e3 * one.wait_s,
            1e3 * one.compute_s,
            1e3 * one.round_s,
            one.difference,
        ]
        for name, one in pair
    ]
    note = "Two processes on this machine, half of the experts each, activations in float32 through shared memory."
    return Table("processes", "The middle layer on two processes", columns, rows, note=note)
