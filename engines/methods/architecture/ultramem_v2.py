"""UltraMemV2: a memory beside every feed-forward part, of which a token reads a few slots (Huang et al., arXiv
2508.18756; ZihaoHuang-notabot/Ultra-Sparse-Memory-Network).

A mixture of experts reads whole matrices, and a few tokens together soon touch all of them. A memory is a table of one
large number of small vectors. A token's query scores K rows and K columns of keys apart, the best m of each cross in
m * m candidates, and the m best crossings are the slots it reads: what more tokens add is just the slots that they
need. How slots are found and summed is in `engines/models/networks/ultra_mem.py`; decoding is ordinary, one token a
forward, and what each token read is what this method tells.

We depart from the paper in: a model of 1.9 M parameters trained here; the sign of the leading singular vectors is fixed
by a convention, not kept continuous; one token at a time is decoded, and what a chunk of tokens reads together is the
union of what they read one by one, which is the same. Bytes are counted, for all three models in the type that they run
in; the twins read the same rows, and what that takes stands beside the run's totals, as facts.

Letters: m slots of a token in a layer, K rows and columns of keys, c tokens of a chunk."""

from __future__ import annotations

from engines.kit import (
    Bool,
    Int,
    LaneInfo,
    Params,
    Recorder,
    Roles,
    SlotsRead,
    Steps,
    Taps,
    entropy,
    max_new_tokens,
    method,
    pack_routing,
    pack_slots,
    token_probability,
)
from engines.methods.architecture._slots import Beside, Text, probability


@method(
    "ultramem-v2",
    title="UltraMemV2",
    family="architecture",
    paper="arXiv:2508.18756",
    code="https://github.com/ZihaoHuang-notabot/Ultra-Sparse-Memory-Network",
    summary="Reads a few slots of a large table in every layer, and tells what so many tokens together read of it.",
    needs={"target": "memory", "mixture": "moe", "dense": "layered"},
    params=[
        max_new_tokens(32),
        Int(
            "slots",
            16,
            4,
            64,
            symbol="m",
            neutral=16,
            sees="Slots that a token reads in a layer; the model learnt with 16.",
            source="32",
        ),
        Int("chunk", 8, 1, 32, symbol="c", sees="Last tokens whose slots, and whose experts, are counted together."),
        Bool("twins", True, sees="The twins read the same rows: a mixture of experts, and the model without a memory."),
    ],
    signature="starfield",
    emits={"commits", "scores", "candidates", "routing", "facts", "note"},
    lanes={
        "confidence": LaneInfo("probability", "Probability of the token that was written."),
        "entropy": LaneInfo("nats", "Entropy of the distribution it was taken from."),
        "without memory": LaneInfo("probability", "The same token's probability for the twin without a memory."),
    },
    baseline="greedy",
    departures="A model of 1.9 M parameters trained here. Singular vectors get their sign by a convention. One token a "
    "forward; what a chunk reads together is the union of what its tokens read. The twins' forwards "
    "stand beside the totals.",
    beside={"mixture", "dense"},
)
def decode(models: Roles, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """One token per step; the first step's rows are the prompt's. Before each the cache holds all ids but the last."""
    model, ids, end = models.target, prompt, len(prompt) + p.max_new_tokens
    cache, text, beside = model.new_cache(end), Text(model.memories), Beside(models, end)
    K, L = model.memories[0].keys, len(model.memories)
    while len(ids) < end and not (len(ids) > len(prompt) and ids[-1] in model.eos_ids):
        base, rows, read = cache.length, ids[cache.length :], list[SlotsRead]()
        taps = Taps(memory=read.append, slots=min(p.slots, K))
        x = model.layers(model.embed(rows), cache, 0, model.num_layers, taps=taps)
        z = model.unembed(x[-1:], predicts=len(ids))  # [1, V]
        token, at, chance = int(z[0].argmax()), [len(ids)], token_probability(z, z.argmax(-1))
        new, positions = text.add(read, base), range(base, base + len(rows))
        together = text.chunk(p.chunk)
        facts = {"new_slots": new, "union": together.union, "bytes_read": together.bytes_read}
        facts |= constants(model) | strength(read)
        lanes = {"confidence": (at, chance), "entropy": (at, entropy(z))}
        routing, note = pack_slots(read, K, positions), f"{new} of {len(rows) * L * min(p.slots, K)} slots are new."
        if p.twins:
            without = beside.read(ids, base)
            told = probability(without, token)
            lanes["without memory"] = (at, [told])
            facts |= {"mixture_bytes": beside.chunk(p.chunk), "dense_bytes": beside.dense_bytes, "without": told}
            facts |= {"router_bytes": beside.router_bytes, "expert_bytes": models.mixture.mixtures[0].expert_bytes}
            routing += [one for one in [pack_routing(beside.found, positions, "mixture")] if one]
            note += f" The twin without memory gives this token {told:.0%}."
        edit = yield run.step(
            commits=(at, [token], "greedy", chance),
            scores=lambda: lanes,
            candidates=lambda: (at, z),
            routing=routing,
            facts=facts,
            note=note,
        )
        ids = run.apply_edit(edit, [*ids, token], cache)


def constants(model: object) -> dict[str, float]:
    """What counting bytes needs: those of a slot, and those that every forward reads of keys, projections and
    feed-forward parts, in all layers."""
    tables = model.memories  # type: ignore[attr-defined]
    return {"slot_bytes": tables[0].slot_bytes, "always_bytes": sum(one.always_bytes for one in tables)}


def strength(read: list[SlotsRead]) -> dict[str, float]:
    """Norms of what the memories and what the feed-forward parts give to the last row, means over the layers."""
    return {
        "output_norm": sum(float(one.output[-1].norm()) for one in read) / len(read),
        "ffn_norm": sum(float(one.dense[-1].norm()) for one in read) / len(read),
    }


if __name__ == "__main__":
    from engines.kit import show

    show("ultramem-v2", "tiny-ultramem", "fact: Ada Raven")
