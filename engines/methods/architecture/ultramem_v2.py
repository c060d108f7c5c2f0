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

Letters: m slots of a token in a layer, K rows and columns of keys, c tokens of a chunk, L layers with memories."""

from collections.abc import Sequence

import numpy as np

from engines.kit import (
    Bool,
    Int,
    MemoryTable,
    Params,
    Recorder,
    Roles,
    Routing,
    SlotsRead,
    Steps,
    Taps,
    Tensor,
    entropy,
    max_new_tokens,
    method,
    pack_routing,
    pack_slots,
    token_probability,
    torch,
)
from engines.methods.architecture._routed import pattern

MATRICES = ("gate_proj", "up_proj", "down_proj")  # of a dense feed-forward part


@method(
    "ultramem-v2",
    title="UltraMemV2",
    paper="arXiv:2508.18756",
    code="https://github.com/ZihaoHuang-notabot/Ultra-Sparse-Memory-Network",
    summary="Reads a few slots of a large table in every layer, and counts what several tokens together read of it.",
    needs={"target": "memory", "mixture": "moe", "dense": "layered"},
    params=[
        max_new_tokens(32),
        Int("slots", 16, 4, 64, symbol="m", neutral=16, source="32"),
        Int("chunk", 8, 1, 32, symbol="c"),
        Bool("twins", True),
    ],
    signature="starfield",
    emits={"commits", "scores", "candidates", "routing", "facts", "note"},
    lanes={"confidence": "probability", "entropy": "nats", "without memory": "probability"},
    baseline="greedy",
    beside={"mixture", "dense"},
)
def decode(models: Roles, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """One token per step; the first step's rows are the prompt's. Before each the cache holds all ids but the last."""
    model, ids, end = models.target, prompt, len(prompt) + p.max_new_tokens
    cache, text, beside = model.new_cache(end), Text(model.memories), Beside(models, end)
    K, L = model.memories[0].keys, len(model.memories)
    always = sum(table.always_bytes for table in model.memories)  # keys, projections and feed-forward parts, all layers
    while len(ids) < end and not (len(ids) > len(prompt) and ids[-1] in model.eos_ids):
        base, rows, read = cache.length, ids[cache.length :], list[SlotsRead]()
        taps = Taps(memory=read.append, slots=min(p.slots, K))
        x = model.layers(model.embed(rows), cache, 0, model.num_layers, taps=taps)
        z = model.unembed(x[-1:], predicts=len(ids))  # [1, V]
        token, at, chance = int(z[0].argmax()), [len(ids)], token_probability(z, z.argmax(-1))
        new, positions = text.add(read, base), range(base, base + len(rows))
        union, size = text.chunk(p.chunk)
        facts = {"new_slots": new, "union": union, "bytes_read": size + always}
        facts |= {"slot_bytes": model.memories[0].slot_bytes, "always_bytes": always}
        facts |= strength(read)
        lanes = {"confidence": (at, chance), "entropy": (at, entropy(z))}
        routing = pack_slots(read, K, positions)
        note = f"{new} of {len(rows) * L * min(p.slots, K)} slots are read for the first time."
        if p.twins:
            without = beside.read(ids, base)
            chance_without = float(token_probability(without, torch.tensor([token], device=without.device)))
            lanes["without memory"] = (at, [chance_without])
            facts |= {
                "mixture_bytes": beside.chunk(p.chunk),
                "dense_bytes": beside.dense_bytes,
                "without": chance_without,
            }
            facts |= {"router_bytes": beside.router_bytes, "expert_bytes": models.mixture.mixtures[0].expert_bytes}
            routing += [packed for packed in [pack_routing(beside.found, positions, "mixture")] if packed]
            note += f" The twin without memory gives this token a probability of {chance_without:.0%}."
        edit = yield run.step(
            commits=(at, [token], "greedy", chance),
            scores=lambda: lanes,
            candidates=lambda: (at, z),
            routing=routing,
            facts=facts,
            note=note,
        )
        ids = run.apply_edit(edit, [*ids, token], cache)


def strength(read: list[SlotsRead]) -> dict[str, float]:
    """Norms of what the memories and what the feed-forward parts give to the last row, means over the layers."""
    return {
        "output_norm": sum(float(slots.output[-1].norm()) for slots in read) / len(read),
        "ffn_norm": sum(float(slots.dense[-1].norm()) for slots in read) / len(read),
    }


class Text:
    """The slots [L, m] that every position of the text read, of the pool."""

    def __init__(self, memories: Sequence[MemoryTable]) -> None:
        self.memories, self.slots = memories, list[np.ndarray]()
        self.ever = self.used(0)

    def add(self, read: Sequence[SlotsRead], base: int) -> int:
        """Rows from position `base` on, behind which nothing counts any more. Returns how many slots, counted by layer,
        none of the positions before had read."""
        if self.slots[base:]:
            del self.slots[base:]
            self.ever = self.used(0)
        before = sum(map(len, self.ever))
        self.slots += list(np.stack([layer_slots.slots.cpu().numpy() for layer_slots in read], 1))
        for ever, new in zip(self.ever, self.used(base), strict=True):
            ever |= new
        return sum(map(len, self.ever)) - before

    def used(self, start: int) -> list[set[int]]:
        """By layer the slots of the positions from `start` on."""
        rows = np.stack(self.slots[start:]) if self.slots[start:] else np.zeros((0, len(self.memories), 0), int)
        return [set(rows[:, layer].ravel().tolist()) for layer in range(len(self.memories))]

    def chunk(self, length: int) -> tuple[float, int]:
        """Of the last so many positions together: different slots, mean over the layers, and their bytes."""
        used = self.used(max(0, len(self.slots) - length))
        size = sum(len(slots) * table.slot_bytes for slots, table in zip(used, self.memories, strict=True))
        return sum(map(len, used)) / len(used), size


class Beside:
    """Both twins on the rows of the model: what the mixture's routers chose and the dense one's guess."""

    def __init__(self, models: Roles, capacity: int) -> None:
        self.mixture, self.dense = models.mixture, models.dense
        self.caches = self.mixture.new_cache(capacity), self.dense.new_cache(capacity)
        self.experts: list[list[Tensor]] = []  # by position, by layer: which are on, [N]
        self.found: list[Routing] = []
        self.dense_bytes = self.router_bytes = 0

    def read(self, ids: Sequence[int], base: int) -> Tensor:
        """The rows from position `base` on. Returns the dense twin's logits [1, V] behind the last one."""
        for cache in self.caches:
            cache.crop(min(base, cache.length))
        del self.experts[base:]
        base, routings, sizes = self.caches[0].length, list[Routing](), dict[tuple[int, str], int]()

        def sized(layer: int, name: str, x: Tensor, y: Tensor) -> None:
            sizes[layer, name] = x.shape[1] * y.shape[1] * x.element_size()

        x = self.mixture.embed(ids[base:])
        self.mixture.layers(x, self.caches[0], 0, self.mixture.num_layers, taps=Taps(router=routings.append))
        self.router_bytes = sum(routing.logits.shape[1] * x.shape[1] * x.element_size() for routing in routings)
        self.found = routings
        self.experts += [list(row) for row in zip(*(pattern(routing) for routing in routings), strict=True)]
        x = self.dense.embed(ids[base:])
        x = self.dense.layers(x, self.caches[1], 0, self.dense.num_layers, taps=Taps(linear=sized))
        self.dense_bytes = sum(size for (_, name), size in sizes.items() if name in MATRICES)
        return self.dense.unembed(x[-1:])

    def chunk(self, length: int) -> int:
        """Bytes of routers and experts that the last so many positions read together."""
        layers = zip(*self.experts[-length:], strict=True)
        unions = [int(torch.stack(layer).any(0).sum()) for layer in layers]
        sizes = [table.expert_bytes for table in self.mixture.mixtures]
        return self.router_bytes + sum(U * size for U, size in zip(unions, sizes, strict=True))
