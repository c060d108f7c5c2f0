"""Attention in pieces: triples (maximum, sum, output not yet divided) that merge to the exact result, computed by
workers in real threads with a flag for every piece that another worker waits for (Lean Attention, arXiv:2405.10480).

Letters: r queries that share a key-value head, N context, e head size, b tokens of a tile, m, l, o a triple."""

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from threading import Event
from typing import NamedTuple

from engines.core.lazy import without_gradients
from engines.kit import AttentionInputs, Tensor, torch
from engines.methods.system.lean_attention.partition import FLASH, Piece


class Triple(NamedTuple):
    """Softmax of some keys, not finished: the largest score m [r], the sum l [r] of exp(score - m), and o [r, e], the
    values weighted with these."""

    m: Tensor
    l: Tensor  # noqa: E741 - the paper's letter
    o: Tensor


def empty(q: Tensor) -> Triple:
    """Of no keys: merged with it, a triple stays what it is."""
    return Triple(q.new_full((len(q),), -torch.inf), q.new_zeros(len(q)), torch.zeros_like(q))


def merge(a: Triple, b: Triple) -> Triple:
    """Of the keys of both: associative and commutative, to rounding."""
    m = torch.maximum(a.m, b.m)
    safe = torch.where(m.isinf(), 0.0, m)  # nothing seen on either side: exp(-inf) is 0, exp(-inf + inf) no number
    x, y = (a.m - safe).exp(), (b.m - safe).exp()
    return Triple(m, a.l * x + b.l * y, a.o * x[:, None] + b.o * y[:, None])


def add(running: Triple | None, q: Tensor, K: Tensor, V: Tensor, sees: Tensor | None = None) -> Triple:
    """The running triple with a tile more (None: the first one): scaled queries q [r, e], keys and values [b, e], and
    which of the keys are seen [b]."""
    s = q @ K.T  # [r, b]
    if sees is not None:
        s = s.masked_fill(~sees, -torch.inf)
    m = s.amax(-1) if running is None else torch.maximum(running.m, s.amax(-1))
    safe = m if sees is None else torch.where(m.isinf(), 0.0, m)
    p = (s - safe[:, None]).exp_()
    if running is None:
        return Triple(m, p.sum(-1), p @ V)
    shrink = (running.m - safe).exp_()
    return Triple(m, running.l * shrink + p.sum(-1), torch.addmm(running.o * shrink[:, None], p, V))


def heads(given: AttentionInputs) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """(q [g, r, e], scaled, K, V [g, N, e], which positions are seen [N], or None if all) of one row's attention: the
    queries that share keys stand together. In float32 at least."""
    h, _, e = given.queries.shape
    g = len(given.keys)
    dtype = torch.promote_types(given.queries.dtype, torch.float32)
    q = given.queries[:, 0].reshape(g, h // g, e).to(dtype) * given.scale
    sees = given.sees[0]
    return q, given.keys.to(dtype), given.values.to(dtype), None if bool(sees.all()) else sees


class Timed(NamedTuple):
    """What ran in a thread, by `time.perf_counter`."""

    thread: int
    kind: str
    label: str
    mark: int | str
    began: float
    ended: float


@dataclass
class Work:
    """One layer's attention by a schedule. Worker w runs in thread w modulo their number. A worker computes its pieces;
    the one that holds tile 0 of a head is its host: it waits for the flags of the others, merges their triples in the
    order of the tiles and divides. FlashDecoding merges in a second launch, when all pieces are done."""

    given: AttentionInputs
    pieces: Sequence[Piece]
    b: int
    triples: dict[Piece, Triple] = field(default_factory=dict)
    times: list[Timed] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.q, self.K, self.V, self.sees = heads(self.given)
        self.out = torch.zeros_like(self.q)
        self.flags = {piece: Event() for piece in self.pieces}

    def run(self, kind: str, threads: int, pool: Executor | None) -> Tensor:
        """The output of the attention [h, 1, e]."""
        launches = [(True, False), (False, True)] if kind == FLASH else [(True, True)]
        for compute, finish in launches:
            if pool is None:
                self._thread(0, 1, compute, finish)
            else:
                for job in [pool.submit(self._thread, i, threads, compute, finish) for i in range(threads)]:
                    job.result()
        return self.out.reshape(-1, 1, self.out.shape[-1])

    @without_gradients
    def _thread(self, thread: int, threads: int, compute: bool, finish: bool) -> None:
        """All pieces of this thread's workers, then the merges of the heads that they host."""
        own = [piece for piece in self.pieces if piece.worker % threads == thread]
        for piece in own if compute else ():
            began = time.perf_counter()
            try:
                self.triples[piece] = self.triple(piece)
            finally:
                self.flags[piece].set()  # in any case, so that no host waits for ever
            tiles = f"{piece.first + 1}–{piece.end}"
            self._note(thread, "head", f"head {piece.problem + 1}, tiles {tiles}", tiles, began)
        for host in (piece for piece in own if finish and piece.first == 0):
            began = time.perf_counter()
            merged = empty(self.q[host.problem])
            for piece in of(self.pieces, host.problem):
                self.flags[piece].wait()
                merged = merge(merged, self.triples[piece])
            self.out[host.problem] = merged.o / merged.l[:, None]
            self._note(thread, "merge", f"merge, head {host.problem + 1}", host.problem + 1, began)

    def triple(self, piece: Piece) -> Triple:
        """Of a piece: its tiles one behind the other into one running triple."""
        q, K, V = self.q[piece.problem], self.K[piece.problem], self.V[piece.problem]
        running = None
        for i in range(piece.first, piece.end):
            at = slice(i * self.b, (i + 1) * self.b)
            running = add(running, q, K[at], V[at], None if self.sees is None else self.sees[at])
        assert running is not None
        return running

    def _note(self, thread: int, kind: str, label: str, mark: int | str, began: float) -> None:
        self.times.append(Timed(thread, kind, label, mark, began, time.perf_counter()))

    def error(self) -> float:
        """The largest difference of the output to softmax and sum in float64, in one piece."""
        q, K, V = (x.double() for x in (self.q, self.K, self.V))
        s = q @ K.mT
        if self.sees is not None:
            s = s.masked_fill(~self.sees, -torch.inf)
        return float((s.softmax(-1) @ V - self.out).abs().max())


def of(pieces: Sequence[Piece], problem: int) -> Iterator[Piece]:
    """The pieces of a head in the order of their tiles; the first one's worker is its host."""
    return iter(sorted((piece for piece in pieces if piece.problem == problem), key=lambda piece: piece.first))


def softmax_state(triples: Mapping[Piece, Triple], piece: Piece) -> str:
    """m and l of a piece, of the first query that its head serves."""
    m, total, _ = triples[piece]
    return f"m {float(m[0]):.2f}, l {float(total[0]):.3g}"
