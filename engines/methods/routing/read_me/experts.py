"""Experts cut out of a dense model, and what it means to know ahead which one is needed (Read-ME, arXiv:2410.19123).

Letters: E experts, L layers, F channels of a feed-forward part, n tokens, c slots of a cache, W tokens looked ahead."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from engines.core.trace import Count, Detail, Index, Routing
from engines.core.trace.packed import pack_exact
from engines.kit import Alternatives, Generator, Position, Record, Stops, Tensor, UserError, torch

NEVER, FREE, HIT = 1_000_000_000, -2, -1
LRU, LOOKAHEAD, RANDOM = "lru", "look-ahead", "random"
MOST_SLOTS = 8  # that a person may try
CUTS = 5  # ranks at which a token's own channels are compared with the experts'
SHARPNESS = 10.0


def channel_ranks(activity: Tensor) -> Tensor:
    """Ranks of the channels by activity [..., F], 0 the busiest; the lower channel first where equal."""
    order = activity.argsort(dim=-1, descending=True, stable=True)
    return torch.empty_like(order).scatter_(-1, order, torch.arange(order.shape[-1]).expand_as(order).contiguous())


def masks(ranks: Tensor, keep: float) -> Tensor:
    """Which channels an expert uses [E, ..., F], from their ranks: the busiest ones down to the channel of rank
    int(keep · F), which itself falls out (as published: what is greater than its activity stays). keep 1: all."""
    F = ranks.shape[-1]
    return ranks < (F if keep >= 1 else int(keep * F) - 1)


def permanent(mask: Tensor) -> Tensor:
    """The channels that every expert uses [..., F]."""
    return mask.all(0)


def label(own: Tensor, mask: Tensor) -> Tensor:
    """How well each expert suits a token in one layer [n, E]: of its own channels' sizes [n, F] the largest ones
    down to five ranks, counted where an expert's mask [E, F] has them; sharpened and made to sum up to 1."""
    N = int(mask[0].sum()) + 1
    order = own.topk(N - 1, -1).indices  # [n, N - 1], the largest first
    inside = mask[:, order].float().cumsum(-1)  # [E, n, N - 1]
    cuts = [max(1, N - 1 if i == CUTS else i * N // CUTS) - 1 for i in range(1, CUTS + 1)]
    overlap = inside[..., cuts].sum(-1).T / (3 * N)  # [n, E]
    return (SHARPNESS * (overlap - overlap.mean(-1, keepdim=True))).softmax(-1)


@dataclass
class Cache:
    """c slots for experts, by one rule for what is thrown out. Beside a hit or a free slot: lru throws out what was
    asked for longest ago, random any; look-ahead what is needed latest of the next `window` requests (never is latest;
    the lowest number where equal), which is Belady's rule where the window holds them all."""

    c: int
    rule: str
    window: int = NEVER
    rng: Generator | None = None
    slots: list[int] = field(default_factory=list)  # the expert in each
    used: dict[int, int] = field(default_factory=dict)  # expert -> when it was last asked for
    clock: int = 0
    hits: int = 0

    def ask(self, expert: int, future: Sequence[int] = ()) -> int:
        """Serve a request; future: those known behind it. Returns HIT, FREE or the expert thrown out."""
        self.clock += 1
        if expert in self.slots:
            self.hits, out = self.hits + 1, HIT
        elif len(self.slots) < self.c:
            self.slots.append(expert)
            out = FREE
        else:
            out = self._victim(future[: self.window])
            self.slots[self.slots.index(out)] = expert
        self.used[expert] = self.clock
        return out

    def _victim(self, future: Sequence[int]) -> int:
        if self.rule == RANDOM:
            return self.slots[int(torch.randint(self.c, (1,), generator=self.rng))]
        if self.rule == LRU:
            return min(self.slots, key=lambda e: self.used[e])
        return min(self.slots, key=lambda e: (-next_use(e, future), e))


class Requests(Record):
    """The experts that the tokens of a step asked for, from the first one on."""

    KEPT_FROM: ClassVar[Detail] = "light"
    start: Position
    experts: list[Index]
    slots: Count
    window: Count

    def alternatives(self, run: Alternatives) -> dict[str, Stops]:
        """With another number of slots what came of each request: HIT, FREE or the expert thrown out."""

        def asked(rule: str, c: int) -> list[int]:
            cache: Cache = run.kept.setdefault(f"{rule} {c}", Cache(c, rule))
            cache.window = self.window
            return [cache.ask(expert, self.experts[i + 1 :]) for i, expert in enumerate(self.experts)]

        return {rule: Stops.over(range(1, MOST_SLOTS + 1), lambda c: asked(rule, int(c))) for rule in (LRU, LOOKAHEAD)}


def next_use(expert: int, future: Sequence[int]) -> int:
    """How many requests ahead it is needed; NEVER if not."""
    return next((i for i, other in enumerate(future) if other == expert), NEVER)


def runs(experts: Iterable[int]) -> list[tuple[int, int, int]]:
    """(expert, start, end) of the stretches of a stream in which it stays the same."""
    stretches = list[tuple[int, int, int]]()
    for i, expert in enumerate(experts):
        if stretches and stretches[-1][0] == expert:
            stretches[-1] = (expert, stretches[-1][1], i + 1)
        else:
            stretches.append((expert, i, i + 1))
    return stretches


def everywhere(base: int, experts: Sequence[int], L: int, E: int) -> Routing:
    """For the record: tokens from position `base` on, each served by one of E experts in all of L layers."""
    chosen = np.repeat(np.array(experts, dtype=np.int32)[:, None, None], L, axis=1)
    return Routing("expert", list(range(base, base + len(experts))), list(range(L)), pack_exact(chosen), None, E)


def check_expert(fixed: int, names: Sequence[str]) -> None:
    """Raises UserError for an expert that the model was not cut into; 0 stands for the router."""
    if fixed > len(names):
        raise UserError(
            f"fixed={fixed} was given and there are {len(names)} experts ({', '.join(names)}); give one from 1 to "
            f"{len(names)}, or 0 for the router's choice."
        )
