"""Two processes, each with half of a layer's experts, that exchange activations through shared memory: bytes and
waiting are real, the results those of one process.

Each holds the tokens that are at home with it. A round: hand the other the rows that need its experts, wait, compute,
hand back what was computed for the other, wait, add. Nothing but numpy is loaded there, so that they start fast."""

from __future__ import annotations

import multiprocessing as mp
import time
from collections.abc import Mapping
from multiprocessing.shared_memory import SharedMemory
from typing import Any, NamedTuple

import numpy as np

PARTNERS = 2
PATIENCE = 60.0  # seconds that one waits for the other


class Told(NamedTuple):
    """What the two did in a round, together: bytes handed over and back, seconds of waiting and of computing (of both),
    and the seconds of the round. difference: largest of a number from what one process computes."""

    bytes_out: int
    bytes_back: int
    wait_s: float
    compute_s: float
    round_s: float
    difference: float


def silu(x: np.ndarray) -> np.ndarray:
    """x sigmoid(x)."""
    return np.asarray(x / (1 + np.exp(-x)))


def experts(x: np.ndarray, a: np.ndarray, up: np.ndarray, down: np.ndarray) -> np.ndarray:
    """Rows x [n, d] with weights a [n, m] through m experts up, down [m, e, d]; an expert computes the rows that use it
    and no other."""
    y = np.zeros_like(x)
    for i in range(len(up)):
        rows = np.flatnonzero(a[:, i])
        if len(rows):
            y[rows] += a[rows, i, None] * (silu(x[rows] @ up[i].T) @ down[i])
    return y


def run(
    x: np.ndarray, a: np.ndarray, up: np.ndarray, down: np.ndarray, home: np.ndarray, C: np.ndarray, turns: int = 5
) -> Told:
    """One layer's experts on two processes, the middle one of some rounds by its length. x [B, d] (float32), a [B, N],
    up and down [N, e, d], home [B] and C [N] in 0 and 1."""
    context, B, d = mp.get_context("spawn"), *x.shape
    shapes = {"out0": (B, d), "out1": (B, d), "back0": (B, d), "back1": (B, d), "y": (B, d)}
    held = {name: SharedMemory(create=True, size=max(1, 4 * B * d)) for name in shapes}
    barrier, results = context.Barrier(PARTNERS), context.Queue()
    names = {name: (one.name, shapes[name]) for name, one in held.items()}
    partners = [
        context.Process(
            target=partner,
            args=(me, names, barrier, results, x, a, up[me == C], down[me == C], home, C, turns),
            daemon=True,
        )
        for me in range(PARTNERS)
    ]
    try:
        for one in partners:
            one.start()
        found = [results.get(timeout=PATIENCE) for _ in partners]
        y = np.ndarray((B, d), np.float32, held["y"].buf).copy()
    finally:
        for one in partners:
            one.join(5)
            if one.is_alive():
                one.terminate()
        for shared in held.values():
            shared.close()
            shared.unlink()
    middle = int(np.argsort([row[4] for row in found[0]])[turns // 2])
    both = [np.array(rows[middle]) for rows in found]
    out, back, wait, compute = (float(both[0][i] + both[1][i]) for i in range(4))
    apart = float(np.abs(y - experts(x, a, up, down)).max())
    return Told(int(out), int(back), wait, compute, float(max(both[0][4], both[1][4])), apart)


def partner(
    me: int,
    names: Mapping[str, tuple[str, tuple[int, int]]],
    barrier: Any,
    results: Any,
    x: np.ndarray,
    a: np.ndarray,
    up: np.ndarray,
    down: np.ndarray,
    home: np.ndarray,
    C: np.ndarray,
    turns: int,
) -> None:
    """One of the two: `me` holds the experts up, down and, of the rows x and a, those at home with it."""
    held = {name: SharedMemory(name=shared) for name, (shared, _) in names.items()}
    box = {name: np.ndarray(shape, np.float32, held[name].buf) for name, (_, shape) in names.items()}
    other, mine, theirs = 1 - me, me == C, me != C
    own = np.flatnonzero(home == me)
    send = own[(a[own][:, theirs] != 0).any(1)]
    get = np.flatnonzero((home == other) & (a[:, mine] != 0).any(1))
    told: list[tuple[float, ...]] = []

    def wait() -> float:
        began = time.perf_counter()
        barrier.wait(PATIENCE)
        return time.perf_counter() - began

    for _ in range(turns):
        barrier.wait(PATIENCE)
        began = time.perf_counter()
        box[f"out{other}"][: len(send)] = x[send]
        waited = wait()
        worked = time.perf_counter()
        y = experts(x[own], a[own][:, mine], up, down)
        box[f"back{other}"][: len(get)] = experts(box[f"out{me}"][: len(get)], a[get][:, mine], up, down)
        compute = time.perf_counter() - worked
        waited += wait()
        y[np.searchsorted(own, send)] += box[f"back{me}"][: len(send)]
        box["y"][own] = y
        told.append((4.0 * send.size * x.shape[1], 4.0 * get.size * x.shape[1], waited, compute))
        told[-1] = (*told[-1], time.perf_counter() - began)
    results.put(told)
    barrier.wait(PATIENCE)
    del box
    for one in held.values():
        one.close()
