"""What both of STAND's ways (arXiv:2506.04708) do with a sample: draft from the store, remember, record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from engines.kit import (
    Choice,
    Int,
    Memory,
    Params,
    Probability,
    Record,
    TokenId,
    UserError,
    children,
    torch,
)
from engines.methods.speculative._turn import Turn
from engines.methods.speculative.stand.store import Grown, Store, grow, largest

# Children of each node, breadth first: of `broad(6, 10)` (780 nodes) the best under an assumed chance of 0.6 (rank +
# 1)^-1.5 to be accepted per level. `python -m engines.methods.speculative.stand.templates` counts what SmolLM2 really
# accepts (the paper's rule) and prints templates to put here.
_COUNTS = {
    "8": "32101001",
    "16": "5311002101010001",
    "32": "65211103110010100210101020000101",
    "80": "66321116221102112111042110021101021101001031101010100101000102101010101010000001",
}
TEMPLATES = {name: [int(count) for count in counts] for name, counts in _COUNTS.items()}
LISTED, SHOWN = 24, 5  # keys recorded per step, tokens recorded per key

SHARED = [
    Choice("drafting", "stochastic", ["stochastic", "deterministic"], source="paper"),
    Choice("template", "16", ["8", "16", "32", "80"], source="80 in the paper"),
    Int("longest", 3, 1, 5, symbol="n", source="ours; up to 4 in the paper"),
    Int("shortest", 1, 1, 5, source="ours; 2 in the paper"),
    Int("stored", 10, 2, 20, symbol="K", source="paper"),
]


def check(p: Params) -> None:
    """The shortest key is not longer than the longest."""
    if p.shortest > p.longest:
        raise UserError(
            f"shortest={p.shortest} is above longest={p.longest}; give a shortest key of at most {p.longest} tokens."
        )


def drafted(
    store: Store,
    ids: list[int],
    parents: list[int],
    p: Params,
    rng: torch.Generator,
    vocab_size: int,
    deepest: int,
) -> Grown:
    """A draft tree behind a text, with fresh noise for every node unless the most likely tokens are wanted."""

    def noise(_: int, n: int) -> list[float]:
        return torch.rand(n, dtype=torch.float64, generator=rng).tolist()

    drawn: Callable[[int, int], list[float]] | None = noise if p.drafting == "stochastic" else None
    return grow(store, ids, parents, lengths(p), vocab_size=vocab_size, noise=drawn, deepest=deepest)


def lengths(p: Params) -> range:
    """Key lengths in the order of the look-up."""
    return range(p.longest, p.shortest - 1, -1)


def remember(store: Store, iteration: Turn, p: Params) -> None:
    """Store what the target said at the positions that are text now: those fed with the tree, row 0 and the accepted
    rows. Refused ones are not text."""
    distributions = largest(torch.cat([iteration.z_chain, iteration.deciding()]), p.temperature, p.stored)
    store.learn(iteration.ids, len(iteration.before) - 1 - len(iteration.chain), distributions, lengths(p), p.stored)


def groups(iteration: Turn, tree: Grown, restart: int | None) -> dict[str, Any]:
    """The groups of the record; restart: where the sample before is taken off the board."""
    used = [tree.orders[tree.draft.parents[row]] for row in iteration.verdict.path[1:]]
    fields = iteration.groups(lanes=lambda: {"suffix": (at, [float(n) for n in (*used, 0)][: len(at)])})
    at, gained, causes, chance = fields["commits"]
    if restart is not None:
        fields["commits"] = ([restart, *at], [-1, *gained], ["withdrawn", *causes], [None, *chance.tolist()])
    return fields


def entries(store: Store, iteration: Turn, tree: Grown, sizes: Sequence[int]) -> list[Memory]:
    """The keys that were drafted from, and those that were merged: of a long prompt the last ones; with the most likely
    tokens behind each."""
    ids, first = iteration.ids, len(iteration.before) - len(iteration.chain)
    read = {tuple([*iteration.before, *tree.draft.path(row)][-n:]) for row, n in tree.orders.items() if n}
    merged = [tuple(ids[end - n : end]) for end in range(first, len(ids)) for n in sorted(sizes) if n <= end]
    latest = list(dict.fromkeys(reversed([*merged, *read])))[:LISTED]
    shown = {key: list(store.entries[key].distribution.items())[:SHOWN] for key in reversed(latest)}
    return [
        Memory(
            [*key],
            [x for x, _ in distribution],
            [round(c, 4) for _, c in distribution],
            key in read,
            key in merged,
            f"{len(key)}-gram",
        )
        for key, distribution in shown.items()
    ]


MOST, DIGITS = 6, 6  # tokens recorded per key, beside those drawn; digits of their probabilities


class Key(Record):
    """A suffix that was found in the store, and the distribution remembered after it. count: distributions merged
    into it; tokens, q: the most likely ones and those drawn, with the probability that they were drawn from; drawn: in
    the order of their draws; why: what became of each, accepted, mismatch or unreached."""

    key: list[TokenId]
    count: int
    tokens: list[TokenId]
    q: list[Probability]
    drawn: list[TokenId]
    why: list[str]


class SampleStep(Record):
    """What a step wrote of a sample. length: of the sample after it; suffix: of each token the tokens of the key that
    it was drafted after, 0 of the target's own; keys: those along the path that was kept."""

    sample: int
    length: int
    drafted: int
    tokens: list[TokenId]
    suffix: list[int]
    keys: list[Key]


class Suffixes(Record):
    """The samples that a step wrote to, and the stored suffixes that their drafts came from."""

    samples: list[SampleStep]


def sample_step(sample: int, prompt: int, iteration: Turn, tree: Grown) -> SampleStep:
    """What a round wrote of a sample. prompt: tokens in front of it."""
    draft, path, tested = tree.draft, iteration.verdict.path, {test.row for test in iteration.verdict.tests}
    orders = [tree.orders[draft.parents[row]] for row in path[1:]]
    below, keys = children(draft.parents), list[Key]()
    for row in path:
        if (hit := tree.hits.get(row)) is None:
            continue
        text = [*iteration.before, *draft.path(row)]
        drawn = [draft.tokens[child] for child in below[row]]
        order = sorted(range(len(hit.tokens)), key=lambda i: (-float(hit.q[i]), hit.tokens[i]))
        listed = [i for rank, i in enumerate(order) if rank < MOST or hit.tokens[i] in drawn]
        q = [round(float(hit.q[i]), DIGITS) for i in listed]
        why = ["accepted" if child in path else "mismatch" if child in tested else "unreached" for child in below[row]]
        keys.append(Key(text[-hit.n :], hit.count, [hit.tokens[i] for i in listed], q, drawn, why))
    suffix = [*orders, 0][: len(iteration.gained)]
    return SampleStep(sample, len(iteration.ids) - prompt, len(draft) - 1, [*iteration.gained], suffix, keys)
