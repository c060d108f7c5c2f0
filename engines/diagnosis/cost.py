"""What a round costs on this machine: a forward of the target over the drafted tokens and the newest one, and the
drafting itself, each timed here and in turn.

A draft is timed as a loop makes it behind a text that the drafter has read: one new row of the text, then what it takes
to draft k tokens, the greedy choice of each included."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import torch
from torch import Tensor

from engines.core.kinds import counted
from engines.core.machine import machine
from engines.core.measure import PAST, RowClock
from engines.core.meter import Meter, synchronise

REPEATS, MOST = 7, 16  # of everything that is timed; tokens of the longest draft that is
BUSY = 1.5  # how much slower the slower half of equal calls may be before the times say little


class Cost(msgspec.Struct, frozen=True):
    """Median seconds. rows: of a call of the target, by how many rows it has, 1 to k + 1; drafts: of a draft, by how
    many tokens it has, 1 to k. machine: where that was. spread: equal calls of one row, third quartile over first."""

    rows: dict[int, float]
    drafts: dict[int, float]
    machine: str = ""
    spread: float = 1.0

    @property
    def busy(self) -> bool:
        """Whether something else was computing meanwhile."""
        return self.spread > BUSY


def cost_of(target: Any, drafter: Any, ids: Sequence[int], hidden: Mapping[int, Tensor], k: int) -> Cost:
    """Measure both sides for drafts of up to k tokens, at most MOST. ids, hidden: a text with its states, as
    `forced` reads them."""
    longest = min(k, MOST, getattr(drafter, "heads", 0) or MOST)
    meter, n = Meter(), min(len(ids) - 1, PAST)
    run = drafter.counted(counted(target, "target", meter, "layered"), meter)
    clock, device = RowClock(target, longest + 1), target.record.device
    with torch.inference_mode():
        draft = _way(run, list(ids[: n + 1]), run.states(hidden)[:n])
        rows = {n: [clock.seconds(n)] for n in range(1, longest + 2)}
        drafts = {k: [_seconds(draft, k, device)] for k in range(1, longest + 1)}
        for _ in range(REPEATS):  # in turn, so that a busy moment hits all alike
            for n, took in rows.items():
                took.append(clock.seconds(n))
            for k, took in drafts.items():
                took.append(_seconds(draft, k, device))
    quartiles = statistics.quantiles(rows[1][1:], n=4)
    return Cost(_medians(rows), _medians(drafts), machine([device]), quartiles[2] / max(1e-9, quartiles[0]))


def _seconds(draft: Callable[[int], object], k: int, device: str) -> float:
    synchronise(device)
    began = time.perf_counter()
    draft(k)
    synchronise(device)
    return time.perf_counter() - began


def _medians(times: Mapping[int, list[float]]) -> dict[int, float]:
    """Behind the first of each, which warms it."""
    return {n: statistics.median(took[1:]) for n, took in times.items()}


def _way(run: Any, ids: list[int], S: Tensor) -> Callable[[int], list[int]]:
    """What drafts k tokens behind a text, whose last state [n, D] is new to it."""
    ways: dict[str, Callable[..., Callable[[int], list[int]]]] = {
        "parallel-eagle": _block,
        "dflash-block": _filled,
        "medusa-heads": _heads,
        "hydra-heads": _sequential,
    }
    return ways.get(run.format, _rows)(run, ids, S)


def _rows(run: Any, ids: list[int], S: Tensor) -> Callable[[int], list[int]]:
    pasts, n = run.pasts(), len(S)

    def row(e: Tensor, s: Tensor) -> Tensor:
        m = pasts.length
        return run.call(1, lambda: run.rows(e, s, pasts, torch.tensor([m], device=e.device), None))

    if n > 1:
        sees = torch.ones(n - 1, n - 1, dtype=torch.bool, device=S.device).tril()
        run.rows(run.embed(ids[1:n]), run.project(S[:-1]), pasts, torch.arange(n - 1, device=S.device), sees)

    def draft(k: int) -> list[int]:
        out, line = row(run.embed(ids[n : n + 1]), run.project(S[-1:])), list[int]()
        for j in range(k):
            line += run.tokens(run.logits(run.spoken(out), [0]).argmax(-1)).tolist()
            if j < k - 1:
                out = row(run.embed(line[-1:]), run.fed_back(out))
        pasts.crop(n - 1)
        return line

    return draft


def _block(run: Any, ids: list[int], S: Tensor) -> Callable[[int], list[int]]:
    pasts, n = run.pasts(), len(S)
    if n > 1:
        run.block(run, ids[1:n], S[:-1], pasts, 1)

    def draft(k: int) -> list[int]:
        out = run.block(run, ids[n : n + 1], S[-1:], pasts, k)
        line: list[int] = run.tokens(run.logits(run.spoken(out), [0] * k).argmax(-1)).tolist()
        pasts.crop(n - 1)
        return line

    return draft


def _filled(run: Any, ids: list[int], S: Tensor) -> Callable[[int], list[int]]:
    pasts, n = run.pasts(), len(S)
    if n > 1:
        run.read(S[:-1], pasts)

    def draft(k: int) -> list[int]:
        out = run.fill(run, ids[n], S[-1:], pasts, k + 1)
        line: list[int] = run.tokens(run.logits(out, [0] * k).argmax(-1)).tolist()
        pasts.crop(n - 1)
        return line

    return draft


def _heads(run: Any, ids: list[int], S: Tensor) -> Callable[[int], list[int]]:
    return lambda k: run.guess(run, S[-1], 0, k).argmax(-1).tolist()


def _sequential(run: Any, ids: list[int], S: Tensor) -> Callable[[int], list[int]]:
    pasts, n = run.pasts(), len(S)
    if n > 1 and run.prefix:
        run.state(run, S[:-1], pasts)

    def draft(k: int) -> list[int]:
        h, path = run.state(run, S[-1:], pasts), [ids[n]]
        for i in range(k):
            path.append(int(run.guess(run, i, h, [path], 0).argmax(-1)))
        pasts.crop(max(0, n - 1))
        return path[1:]

    return draft
