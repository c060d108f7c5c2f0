"""Golden cases of architectures: routers and memories, attention in pieces, operators, the return of the encoder,
exchanges of experts, what a token costs, and readers of words."""

from collections.abc import Mapping, Sequence
from dataclasses import astuple
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from engines.core.golden_cases import Case, NotCovered, checks, differ
from engines.core.lazy import torch
from engines.methods.routing.read_me import experts
from engines.methods.system.lean_attention import partition
from engines.methods.system.lean_attention.attention import add, empty, merge
from engines.methods.system.speculative_moe import exchanges as ours
from engines.models.measures import activation
from engines.studies.decoding_cost import DEVICES, Device, Pipeline, Shape, least_sparsity, price, stage_seconds

from .cases import Given, Values, ancestors, computes, float64, kinds


@checks("blockffn")
def blockffn(case: Case, _: Given, __: Path) -> str | None:
    """All that is expected of a case; its gain of the norm is ones."""
    from engines.models.networks.block_ffn import relu_norm

    given = case["inputs"]
    a0 = float64(given["raw_scores"])
    documents = torch.repeat_interleave(torch.tensor(given["document_lengths"]))
    a = relu_norm(a0, torch.ones(a0.shape[1], dtype=torch.float64), given["eps"])
    on = a != 0
    got = {
        "router_output": a.tolist(),
        "active_experts": ancestors(on),
        "cls": {length: activation.cls(on, int(length)) for length in case["expected"]["cls"]},
        "reuse_ratio": activation.reuse(on),
        "chunk_sparsification_loss": float(activation.sparsity_loss(a0, given["chunk_length"], given["eps"])),
        "activation_locality_loss": float(activation.locality_loss(a0, documents, given["sharpness"])),
    }
    return differ("", got, case["expected"], 1e-6)


@checks("ultramem_v2")
def ultramem(case: Case, _: Given, __: Path) -> str | None:
    """All that is expected of a case; the ranks of its queries share one row and one column query."""
    from engines.models.networks.ultra_mem import pre_scores, search, weighted

    given = case["inputs"]
    q, keys, C, V, P, p, W_o = (
        float64(given[name])
        for name in ("query", "keys", "cores", "values", "pre_values", "pre_input", "out_projection")
    )
    q = q[:, :, None].expand(-1, -1, C.shape[1], -1)
    with torch.no_grad():
        found = search(q, keys.transpose(2, 3), C, given["top"])
        output = weighted(found.scores, pre_scores(p, P[found.crossings]), V[found.crossings]) @ W_o.T
    got = {
        "row_candidates": found.rows.tolist(),
        "column_candidates": found.columns.tolist(),
        "slots": found.crossings.tolist(),
        "slot_total_score": found.scores.sum(-1).tolist(),
        "slot_head_scores": found.scores.tolist(),
        "output": output.tolist(),
    }
    return differ("", got, case["expected"], 1e-6)  # nine digits are printed, of numbers up to some hundreds


PARTS = {"denseAs": "dense", "gluw": "w", "layernormA": "norm"}  # names of the published layer -> ours


@checks("plga")
def plga(case: Case, _: Given, __: Path) -> str | None:
    """All that is expected of a layer or of a metric learner; a numeric deviation counts against the largest value."""
    given = {k: float64(v) for k, v in case["inputs"].items() if _numeric(v)}
    got = _layer(given) if case.get("kind") == "plga-layer" else _metric(given["q"], case["inputs"]["residual_units"])
    largest = max((float(torch.tensor(v).abs().max()) for v in case["expected"].values() if _numeric(v)), default=1.0)
    return differ("", got, case["expected"], 1e-6 * max(1.0, largest))


def _numeric(value: Any) -> bool:
    while isinstance(value, list) and value:
        value = value[0]
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _layer(given: Given) -> Values:
    from engines.models.measures.operators import identity
    from engines.models.networks.pldr import attend, deduce, scores

    q, k, v = given["q"], given["k"], given["v"]
    made = deduce(given["A"], given["W"], given["b"], given["power"], given["a"], given["ba"])
    output, kept = attend(q, made.G_LM, k, v), made.G_LM.clone()
    return {
        "A_LM": made.A_LM.tolist(),
        "G_LM": made.G_LM.tolist(),
        "scores_before_mask": scores(q, made.G_LM, k).tolist(),
        "output": output.tolist(),
        "output_with_G_cache_equals_output": bool(torch.equal(attend(q, kept, k, v), output)),
        "output_with_identity_G": attend(q, identity(made.G_LM), k, v).tolist(),
    }


def _metric(q: Any, units: list[dict[str, Any]]) -> Values:
    from engines.models.networks.pldr import Unit, density

    A = density(q)
    for published in units:
        state = {_ours(name): float64(value) for name, value in published.items()}
        dense = sum(name.endswith("w1.weight") for name in state)
        inner, d = state["dense.0.w1.weight"].shape
        unit = Unit(d, dense, inner).double()
        unit.load_state_dict(state)
        with torch.no_grad():
            A = unit(A)
    return {"density": (q.mT @ q).tolist(), "A": A.tolist()}


def _ours(name: str) -> str:
    for published, own in PARTS.items():
        name = name.replace(published, own)
    return name


def rows(given: Given) -> Values:
    from engines.training.architectures import distillation

    found = distillation.teacher_slice(given["encoder_len"], given["decoder_len"])
    return {"first_teacher_position": found.start, "last_teacher_position": found.stop - 1}


def loss(given: Given) -> Values:
    from engines.training.architectures import distillation

    kl = distillation.forward_kl(float64(given["student_logits"]), float64(given["teacher_logits"]))
    ce = distillation.cross_entropy(float64(given["student_logits"]), torch.tensor(given["targets"]))
    return {"kl": float(kl), "ce": float(ce), "loss": float(distillation.distillation_loss(kl, ce, given["alpha"]))}


def published_weights(
    vocab: int, width: int, qkv: int, ffn: int, encoder_layers: int, decoder_layers: int, heads: int, kv_heads: int
) -> Values:
    """How many parameters the published network has, with its biases and the gains of its norms."""
    shared = qkv // heads * kv_heads  # width of keys and of values
    attention = 2 * width * qkv + 2 * width * shared + qkv + 2 * shared + width
    feed = 2 * width * ffn + ffn + width
    encoder = attention + feed + 2 * width
    decoder = encoder + attention + width
    total = vocab * width + encoder_layers * encoder + decoder_layers * decoder + 2 * width
    return {"embedding": vocab * width, "encoder_layer": encoder, "decoder_layer": decoder, "total": total}


kinds(
    "encoder_return",
    **{"parameters": lambda given: published_weights(**given), "teacher-slice": rows, "distillation-loss": loss},
)


def by_worker(pieces: Sequence[partition.Piece], heads: int) -> list[list[list[int]]]:
    """[batch, head, first, end] of each worker's pieces."""
    found: list[list[list[int]]] = [[] for _ in range(pieces[-1].worker + 1)]
    for piece in pieces:
        found[piece.worker].append([*divmod(piece.problem, heads), piece.first, piece.end])
    return found


def published(given: Given) -> Values:
    """The host code's numbers, and FlashDecoding's splits for the same two slots on each processor."""
    problems, t = given["batch"] * given["kv_heads"], partition.tiles(given["context"], given["block_n"])
    T, P = t * problems, given["processors"]
    G = partition.grid(T, t, problems, P)
    pieces = partition.lean([t] * problems, G)
    rows, lengths = by_worker(pieces, given["kv_heads"]), [end - first for first, end in partition.ranges(T, G)]
    return {
        "n_blocks": t,
        "tiles_per_head": t,
        "total_tiles": T,
        "grid": G,
        "max_tiles_per_worker": max(lengths),
        "high_load_workers": lengths.count(max(lengths)),
        "first_workers": rows[:6],
        "last_worker": rows[-1],
        "segments_total": len(pieces),
        "workers_touching_two_heads": sum(len(row) == 2 for row in rows),
        "flashdecoding_splits": partition.num_splits(problems, t, 2 * P),
    }


def pure(given: Given) -> Values:
    """As many workers as asked for, at most one for each tile."""
    t = [partition.tiles(given["context"], given["tile_tokens"])] * (given["batch"] * given["heads"])
    pieces = partition.lean(t, min(given["workers"], sum(t)))
    rows = by_worker(pieces, given["heads"])
    most = max(sum(end - first for *_, first, end in row) for row in rows)
    return {"total_tiles": sum(t), "assignment": rows, "max_tiles_per_worker": most}


def partials(given: Given) -> Values:
    """Triples of the pieces of one head, and what they merge to."""
    q, K, V = (float64(given[name]) for name in ("q", "K", "V"))
    q, cuts = q[None] * given["scale"], given["token_cuts"]
    found = [add(None, q, K[a:z], V[a:z]) for a, z in pairwise(cuts)]
    whole = empty(q)
    for one in found:
        whole = merge(whole, one)
    return {
        "partials": [{"m": float(one.m), "l": float(one.l), "o": one.o[0].tolist()} for one in found],
        "output": (whole.o / whole.l[:, None])[0].tolist(),
        "logsumexp": float(whole.m + whole.l.log()),
    }


kinds("lean_attention", **{"schedule": published, "pure-stream-k": pure, "partials": partials})


def layer(route: Any, C: Any, given: Given) -> Values:
    found = ours.exchange(np.array(route), np.array(given["home_device"]), np.array(C), given["devices"])
    sizes = given["hidden"], given["dispatch_bytes_per_element"], given["combine_bytes_per_element"]
    (out, back), (out_once, back_once) = found.bytes(*sizes, once=False), found.bytes(*sizes, once=True)
    return {
        "local_activation_rate": found.lar,
        "remote_activations": found.remote,
        "remote_device_visits": int(found.visits.sum()),
        "dispatch_bytes_no_dedup": out,
        "dispatch_bytes_dedup": out_once,
        "combine_bytes_no_dedup": back,
        "combine_bytes_dedup": back_once,
        "visits_matrix": found.visits.tolist(),
        "device_load": found.load.tolist(),
        "load_imbalance_max_over_mean": found.imbalance,
    }


def routes(given: Given) -> Values:
    """Layers as they are; then the second half of the tokens in layer 0."""
    half, home = len(given["token_ids"]) // 2, np.array(given["home_device"])
    first, C = np.array(given["routes"][0]), np.array(given["expert_device"][0])
    return {
        "layers": [layer(r, c, given) for r, c in zip(given["routes"], given["expert_device"], strict=True)],
        "local_rate_round_robin_second_half": ours.exchange(first[half:], home[half:], C, given["devices"]).lar,
    }


@checks("moe_comm")
def moe_comm(case: Case, _: Given, __: Path) -> str | None:
    return differ("", routes(case["inputs"]), case["expected"], 1e-9)


RULES = {
    "belady": (experts.LOOKAHEAD, experts.NEVER),
    "lru": (experts.LRU, experts.NEVER),
    "lookahead_4": (experts.LOOKAHEAD, 4),
}


def served(stream: Sequence[int], c: str, name: str) -> list[int]:
    """What came of every request of a stream that is known as a whole."""
    cache = experts.Cache(int(c), *RULES[name])
    return [cache.ask(expert, stream[i + 1 :]) for i, expert in enumerate(stream)]


@checks("readme")
def readme(case: Case, _: Given, __: Path) -> str | None:
    given, wanted = case["inputs"], case["expected"]
    mask = experts.masks(experts.channel_ranks(float64(given["activations"])), given["keep"])
    stream = given["expert_sequence"]
    found = {
        "masks": {
            "binary": mask.int().tolist(),
            "permanent": experts.permanent(mask).int().tolist(),
            "expert": (mask & ~experts.permanent(mask)).int().tolist(),
        },
        "hits": {
            c: {name: served(stream, c, name).count(experts.HIT) for name in by_rule}
            for c, by_rule in wanted["hits"].items()
        },
        "belady_evictions": {c: served(stream, c, "belady") for c in wanted["belady_evictions"]},
    }
    return differ("", found, wanted)


def token_cost(given: Given) -> Values:
    """Bytes, operations and prices of one token."""
    shape, n, element = Shape(**given["config"]), given["context"], given["kv_bytes_per_element"]
    prices = {name: price(shape, device, n, element) for name, device in DEVICES.items()}
    return {
        "kv_bytes": shape.kv_bytes(n, element),
        "attention_flops": shape.attention_flops(n),
        "linear_flops": shape.linear_flops,
        "ffn_flops": shape.ffn_flops,
        "attention_intensity_flops_per_kv_byte": shape.attention_flops(n) / shape.kv_bytes(n, element),
        "usd_per_million_tokens": {
            name: {"attention": one.attention, "ffn": one.ffn, "bound": one.bound} for name, one in prices.items()
        },
    }


def throughput(given: Given) -> dict[str, float]:
    """batch / (GPUs x seconds), solved for the step and at 50 ms."""
    batch, gpus = given["batch"], given["gpus"]
    return {
        "implied_step_ms": 1e3 * batch / (gpus * given["tokens_per_gpu_per_second"]),
        "at_50ms": batch / (gpus * 0.05),
    }


def scaling(given: Given) -> dict[str, float]:
    """More attention servers for longer texts: the same tokens from more GPUs."""
    return {"new_tgs": given["base_tgs"] * sum(given["base"]) / sum(given["new"])}


def budget(given: Given) -> dict[str, float]:
    """The time of a stage, or of a microbatch on a link."""
    if "tpot_ms" in given:
        return {"stage_us": 1e6 * stage_seconds(given["tpot_ms"] / 1e3, given["layers"], given["stages"])}
    bits = 8 * given["tokens_per_gpu"] * given["hidden"] * given["bytes_per_element"]
    return {"us": bits / (given["gbit_per_s"] * 1e3)}


def sparsity(given: Given) -> dict[str, float]:
    """The smallest sparsity that each device's network allows."""
    found = {}
    for name, flops in given["flops"].items():
        device = Device(0, flops, given["bandwidth"][name], given["net_bytes_per_s"][name])
        found[name] = least_sparsity(device, given["hidden"], given["layers"], given["tpot_s"], given["stages"])
    return found


def pipeline(given: Given) -> Values:
    """The step, both servers' busy share and the first two layers' times."""
    made = Pipeline(**given)
    return {
        "step_time": made.step,
        "attention_busy_fraction": made.busy(made.attention),
        "ffn_busy_fraction": made.busy(made.ffn),
        "starts_of_first_two_layers": [list(astuple(stage)) for stage in made.stages() if stage.layer < 2],
    }


@checks("step3")
def step3(case: Case, _: Given, __: Path) -> str | None:
    """One case, by its kind, to the six digits that the file has."""
    if case["kind"] not in KINDS:
        raise NotCovered
    return differ("", _rounded(KINDS[case["kind"]](case["inputs"])), _rounded(case["expected"]))


KINDS = {
    "per-token-cost": token_cost, "throughput": throughput, "scaling": scaling, "budget": budget, "sparsity": sparsity,
    "afd-pipeline": pipeline,
}  # fmt: skip


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _rounded(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(one) for one in value]
    return value if isinstance(value, (str, bool)) else float(f"{value:.6g}")


@computes("context_str")
def context_str(given: Given) -> Values:
    """Every item as released: L against the whole caption."""
    from engines.methods.multimodal.context_str.context import gate, score

    alpha, beta = given["alpha"], given["beta"]
    got = []
    for item in given["items"]:
        caption = item["caption"]
        full = score(item["full_text"], item["full_semantic"], caption, alpha, beta)
        crops = [score(crop["text"], crop["semantic"], caption, alpha, beta) for crop in item["crops"]]
        found = gate(full, crops, given["tau"])
        got.append(
            {
                "L1": found.full.L,
                "C1": found.full.C,
                "best_crop": found.best.text if found.best else None,
                "C3": found.best.C if found.best else None,
                "fallback": not found.bypass,
                "final": found.answer if found.bypass else None,
            }
        )
    return got


@computes("cppd")
def cppd(given: Given) -> Values:
    """Targets, the loss of each part, the characters' with and without smoothing, and decoded strings."""
    from engines.models.networks.cppd import character_loss, count_loss, place_loss, targets, text_of

    counts, places, edges = (float64(given[name]) for name in ("count_logits", "position_logits", "edge_logits"))
    wanted = targets(given["words"], given["charset"], given["max_len"])
    return {
        "labels": wanted.labels.tolist(),
        "counts": wanted.counts.tolist(),
        "position_targets": wanted.filled.tolist(),
        "loss_count": count_loss(counts, wanted.counts).item(),
        "loss_position": place_loss(places, wanted.filled).item(),
        "loss_edge_plain": character_loss(edges, wanted.labels, 0.0).item(),
        "loss_edge_smoothed": character_loss(edges, wanted.labels).item(),
        "decoded": [text_of(row, given["charset"]) for row in edges.argmax(-1).tolist()],
    }
