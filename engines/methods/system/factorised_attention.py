"""Multi-matrix factorisation attention beside three others: what a token reads of the cache, and how long that takes
(Step-3, arXiv:2507.19427, section 4; MFA is that of arXiv:2412.19255).

MFA has many wide query heads, made through a low rank, over one key head and one value head. A token then reads as few
bytes of the cache as with the narrowest grouped queries, and makes more operations of each byte: enough for a cheap
device, not so many that only a costly one keeps up, which is the report's case against MLA.

Four networks with as many weights, trained on the same rows, read the same text: the one that was picked writes it, the
others are fed what it writes. So that reading the cache weighs more than calling a kernel, each of them decodes several
copies of the text at once, each copy with a cache of its own.

We depart from the paper in: networks of 0.56 M parameters, trained here; the cache in float32, four bytes an element in
place of one; the copies of the text are there for the clock alone; the four run one after the other.

Letters: n positions in the cache, L layers, c elements kept of a token in a layer, h query heads of width w."""

import time
from collections.abc import Sequence
from typing import ClassVar

from engines.core.trace import Count, Detail
from engines.kit import (
    CountedSplit,
    Float,
    Int,
    Interval,
    KVCache,
    NumBytes,
    Params,
    Record,
    Recorder,
    Roles,
    Steps,
    Tensor,
    many,
    max_new_tokens,
    method,
)
from engines.methods.baselines._plain import chosen, token_groups
from engines.methods.system.afd.batch import Part, prefilled

TWINS = ("mha", "gqa", "mla")


class Reader(Record):
    """What one new token costs one of the networks in attention."""

    name: str  # also of the track of its intervals
    bytes: NumBytes  # of the cache
    operations: Count


class Readers(Record):
    """What one new token costs each of the networks in attention."""

    KEPT_FROM: ClassVar[Detail] = "light"
    copies: Count
    readers: list[Reader]


@method(
    "factorised-attention",
    title="Factorised attention beside its twins",
    paper="arXiv:2507.19427",
    code="https://github.com/stepfun-ai/Step3",
    summary="Four networks that differ in their attention read one text: bytes of the cache and milliseconds of each.",
    needs={"target": "split", **dict.fromkeys(TWINS, "split")},
    params=[
        max_new_tokens(32),
        Int("copies", 16, 1, 64, symbol="B"),
        Float("temperature", 0.0, 0.0, 2.0, step=0.05, symbol="T"),
    ],
    signature="attentions",
    emits={"commits", "scores", "candidates", "intervals", "facts", "note"},
    lanes={"confidence": "probability", "entropy": "nats"},
    records={"readers": Readers},
    baseline="greedy",
    lossless=True,
)
def decode(models: Roles, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """One token per step, read by all four. Before each the caches hold all tokens but the last."""
    target, ids, end, B = models.target, prompt, len(prompt) + p.max_new_tokens, p.copies
    readers: dict[str, CountedSplit] = {target.attention: target}
    readers |= {role: reader for role, reader in models.models.items() if role in TWINS and role not in readers}
    caches = {name: prefilled(reader, prompt, 1, B, end)[0] for name, reader in readers.items()}
    while len(ids) < end and not (len(ids) > len(prompt) and ids[-1] in target.eos_ids):
        logits: dict[str, Tensor] = {}
        parts, n = list[tuple[str, Part]](), len(ids)
        for name, reader in readers.items():
            logits[name], own = read(reader, ids, caches[name], B)
            parts += [(name, part) for part in own]
        z = logits[target.attention]  # [1, V]
        token = chosen(z, p.temperature, run.rng)
        facts = {"context": n, "copies": B, **figures(readers, n)}
        facts |= {f"agrees_{name}": float(int(y[0].argmax()) == token) for name, y in logits.items()}
        edit = yield run.step(
            **token_groups(n, token, z, p.temperature),
            intervals=[bar for name, part in parts for bar in interval(name, part, run)],
            records={
                "readers": Readers(
                    B,
                    [
                        Reader(name.upper(), reader.position_bytes * n, reader.position_operations * n)
                        for name, reader in readers.items()
                    ],
                )
            },
            facts=facts,
            note=f"After {many(n, 'token')} each copy reads "
            + ", ".join(f"{facts[f'kv_bytes_{name}']:,.0f} ({name.upper()})" for name in readers)
            + " bytes of its KV cache.",
        )
        ids = run.apply_edit(edit, [*ids, token], *caches.values())


def read(model: CountedSplit, ids: Sequence[int], cache: KVCache, B: int) -> tuple[Tensor, list[Part]]:
    """Feed what the cache lacks of a text to B copies: logits [1, V] behind it, and what the last token took."""
    for place in range(cache.length, len(ids)):
        x, parts = model.embed([ids[place]] * B), list[Part]()  # [B, d]
        for layer in range(model.num_layers):
            began = time.perf_counter()
            x, u = model.attend(x, cache, layer)
            between = time.perf_counter()
            x = x + model.feed(u, layer)
            parts.append(Part("attention", layer, 0, began, between))
            parts.append(Part("feed-forward", layer, 0, between, time.perf_counter()))
    return model.unembed(x[:1], predicts=len(ids)), parts


def figures(readers: dict[str, CountedSplit], n: int) -> dict[str, float]:
    """What one new token costs each of them behind n positions, its own among them: bytes of the cache (L n c, four
    bytes each) and operations of attention without its linear maps (L n 4 h w)."""
    numbers = dict[str, float]()
    for name, reader in readers.items():
        numbers[f"kv_bytes_{name}"] = reader.position_bytes * n
        numbers[f"operations_{name}"] = reader.position_operations * n
    return numbers


def interval(name: str, part: Part, run: Recorder) -> list[Interval]:
    """A half of a layer of one network, measured."""
    label, about = f"{part.side}, layer {part.layer + 1}", {"layer": part.layer + 1}
    return run.interval(name.upper(), part.began, part.ended, label, about, part.side)
