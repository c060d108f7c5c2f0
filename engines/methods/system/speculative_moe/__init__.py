"""Speculative MoE: tokens travel to the device where their experts will be before the gate has decided (Li et al.,
arXiv 2503.04398, later Semantic Parallelism).

With experts spread over devices, every layer sends each token to its experts and back. Which experts a token id uses is
nearly independent of its context; so, from counts on a profiling text, experts that serve the same tokens are grouped
on one device, and each token is put on its foretold device by a movement that happens anyway. What was foretold wrongly
travels as always: the text never changes.

No official code was found. We depart from the paper in: devices are simulated, one process computes; the token table
alone foretells, without the table of the devices of the last two layers; a token id that was not profiled stays in its
ordinary place, where the paper takes its nearest neighbour; the grouping puts the heaviest expert first where
affinity is largest, with a limit of the load in place of the weights of the paper, then swaps pairs, and the tokens
follow from it, with the same limit. Bytes are counted from the real routing; seconds are
modelled.

Letters: B rows of a forward, k experts of each, N experts, G devices, T counts, R token -> device, C expert -> device.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from engines.kit import (
    Choice,
    Float,
    Int,
    Interval,
    Params,
    Recorder,
    Roles,
    Routing,
    Steps,
    Taps,
    UserError,
    bytes_held,
    max_new_tokens,
    method,
    pack_placement,
    pack_routing,
    part,
)
from engines.methods.baselines._plain import token_groups
from engines.methods.system.speculative_moe.exchanges import (
    Exchange,
    balanced_table,
    exchange,
    round_robin,
    shuffled,
)
from engines.models.measures.placement import grouped, in_order
from engines.models.parts import Part

OUT, BACK = 1, 2  # bytes of a number on the way to an expert and on the way back
PLACES = ("both", "grouped", "shuffled", "ordinary")


@method(
    "speculative-moe",
    title="Speculative MoE",
    paper="arXiv:2503.04398",
    summary="Puts experts that serve the same tokens on one device and every token there before its layer decides.",
    needs={"target": "moe", "counts": part("expert-counts")},
    params=[
        max_new_tokens(32),
        Int("devices", 4, 1, 8, symbol="G"),
        Choice("placement", "both", list(PLACES)),
        Float("bandwidth", 50.0, 1.0, 400.0, step=1.0),
        Float("latency", 10.0, 1.0, 50.0, step=1.0),
    ],
    signature="exchange",
    emits={"commits", "scores", "candidates", "routing", "intervals", "facts", "note"},
    lanes={"confidence": "probability", "entropy": "nats"},
    baseline="greedy",
    lossless=True,
)
def decode(models: Roles, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """One token per step; the first step's rows are the prompt's. Before each the cache holds all ids but the last."""
    model, ids, end, announced = models.target, prompt, len(prompt) + p.max_new_tokens, ""
    T, layers = table_of(models.counts, model.vocab_size), [mixture.layer for mixture in model.mixtures]
    cache = model.new_cache(end)
    while len(ids) < end and not (len(ids) > len(prompt) and ids[-1] in model.eos_ids):
        now, placement = f"{p.devices} {p.placement}", list[Any]()
        if announced != now:  # offline in the paper, and again where an edit asks for another
            plans = [plan(counted, p.devices, p.placement) for counted in T]
            announced, placement = (
                now,
                [pack_placement([plan.C for plan in plans], layers, range(T.shape[2]), "experts")],
            )
        base, rows, routings = cache.length, ids[cache.length :], list[Routing]()
        x = model.layers(model.embed(rows), cache, 0, model.num_layers, taps=Taps(router=routings.append))
        z = model.unembed(x[-1:], predicts=len(ids))  # [1, V]
        token, d = int(z[0].argmax()), x.shape[1]
        homes = [put(plan, rows, base, p.devices) for plan in plans]
        usual = [put(Plan(in_order(T.shape[2], p.devices), None), rows, base, p.devices)] * len(T)
        ours = layered(routings, homes, [plan.C for plan in plans], p.devices)
        ordinary = layered(routings, usual, [in_order(T.shape[2], p.devices)] * len(T), p.devices)
        facts = {**figures(ours, d, p), **beside(ordinary, d, p)}
        facts["unknown"] = sum(int(T[0, token].sum()) == 0 for token in rows)
        routed = [pack_routing(routings, range(base, base + len(rows)))]
        routed += [pack_placement(homes, layers, range(base, base + len(rows))), *placement]
        edit = yield run.step(
            **token_groups(len(ids), token, z),
            routing=[packed for packed in routed if packed],
            intervals=moved(ours, d),
            facts=facts,
            note=f"{facts['lar']:.0%} of {facts['pairs']:.0f} expert calls stay on their token's device "
            f"({facts['lar_ordinary']:.0%} with the ordinary placement); {facts['bytes_moved']:,.0f} bytes moved.",
        )
        ids = run.apply_edit(edit, [*ids, token], cache)


class Plan(NamedTuple):
    """Where a layer's experts are, C [N], and which device each token id is foretold for, R [V]; None: nobody says."""

    C: np.ndarray
    R: np.ndarray | None


def table_of(counts: Part, V: int) -> np.ndarray:
    """T [L, V, N] of the part. Raises UserError where it counts ids that the model does not have."""
    ids, counted = counts.tensors["ids"].numpy(), counts.tensors["counts"].numpy()
    if len(ids) and int(ids.max()) >= V:
        from engines.models.parts import by_training  # it needs torch, which listing methods does not load

        raise UserError(
            f"{counts.name} counts the token {int(ids.max())} and the model has {V}; "
            f"{by_training('expert-counts ' + counts.base)}."
        )
    T = np.zeros((len(counted), V, counted.shape[2]), dtype=np.int64)
    T[:, ids] = counted
    return T


def plan(T: np.ndarray, G: int, placement: str) -> Plan:
    """Offline: the placement of the experts of a layer from its counts [V, N], and the table of token ids."""
    C = grouped(T, G) if placement in ("both", "grouped") else in_order(T.shape[1], G)
    return Plan(C, balanced_table(T, C, G) if placement in ("both", "shuffled") else None)


def put(plan: Plan, rows: Sequence[int], base: int, G: int) -> np.ndarray:
    """Online: the device [B] of each row of a forward, before its gate; in turn where nobody says."""
    usual = np.roll(round_robin(len(rows) + base, G), -base)[: len(rows)] if base else round_robin(len(rows), G)
    if plan.R is None:
        return usual
    known = plan.R[np.asarray(rows)] >= 0
    return np.where(known, shuffled(plan.R, rows, G), usual)


def layered(
    routings: Sequence[Routing], homes: Sequence[np.ndarray], C: Sequence[np.ndarray], G: int
) -> list[Exchange]:
    """The exchange of every sparse layer of a forward."""
    return [
        exchange(routing.experts.cpu().numpy(), home, placed, G)
        for routing, home, placed in zip(routings, homes, C, strict=True)
    ]


def seconds(exchange: Exchange, d: int, bandwidth: float, latency: float) -> float:
    """Modelled: both ways of a layer, each a latency (microseconds) and the bytes of the busiest device over its
    bandwidth (GB/s)."""
    busiest = max(int(exchange.visits.sum(0).max()), int(exchange.visits.sum(1).max()))
    return 2e-6 * latency + busiest * d * (OUT + BACK) / (1e9 * bandwidth) if busiest else 0.0


def figures(layers: Sequence[Exchange], d: int, p: Params) -> dict[str, float]:
    """What a forward's exchanges cost: pairs of row and expert, the share that stays, bytes both ways with a row sent
    once to a device, the most loaded device, and modelled microseconds."""
    pairs = sum(int(exchange.load.sum()) for exchange in layers)
    return {
        "lar": 1 - sum(exchange.remote for exchange in layers) / max(1, pairs),
        "pairs": pairs,
        "bytes_moved": sum(sum(exchange.bytes(d, OUT, BACK, once=True)) for exchange in layers),
        "imbalance": max(exchange.imbalance for exchange in layers),
        "exchange_us": 1e6 * sum(seconds(exchange, d, p.bandwidth, p.latency) for exchange in layers),
    }


def beside(layers: Sequence[Exchange], d: int, p: Params) -> dict[str, float]:
    """The same of the ordinary places, under names that say so."""
    ordinary = figures(layers, d, p)
    return {f"{name}_ordinary": ordinary[name] for name in ("lar", "bytes_moved", "imbalance", "exchange_us")}


def moved(layers: Sequence[Exchange], d: int) -> list[Interval]:
    """The bytes that travel in a forward, by the device they go to and come back from."""
    size = (OUT + BACK) * d
    to = sum(exchange.visits.sum(0) for exchange in layers) * size
    ends = np.cumsum(to)
    return [
        bytes_held("travels", f"device {g}", int(end - own), int(end))
        for g, (own, end) in enumerate(zip(to, ends, strict=True))
    ]
