"""What both of STAND's ways (arXiv:2506.04708) do with a sample: draft from the store, remember, record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from engines.kit import (
    Choice,
    Int,
    Memory,
    Params,
    UserError,
    torch,
)
from engines.methods.speculative._turn import LANES, Turn, temperature
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
    temperature(),
]
WITH_SUFFIX = {**LANES, "suffix": "count"}


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
