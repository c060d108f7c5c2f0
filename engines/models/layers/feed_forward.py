"""The feed-forward half of a mixture's layers in plain numpy, and the process that holds nothing else: attention-FFN
disaggregation (Step-3, arXiv 2507.19427, section 5).

As a program (`python -I feed_forward.py FOLDER`) it maps the file of rows in that folder, reads one request after the
other from its input and answers each when it is done. Nothing of this package and no torch is loaded there, so that it
starts in a tenth of a second.

Shapes: n rows, H hidden size, N experts of width f."""

import struct
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

WEIGHTS, ROWS = "weights.npz", "rows.bin"
REQUEST, ANSWER = struct.Struct("=III"), struct.Struct("=Idd")  # layer, microbatch, rows; microbatch, began, ended
READY = 0xFFFFFFFF  # in place of the first answer's microbatch: the weights are there
EXPERTS = ("gate_rows", "up_rows", "down_rows")
NAMES = ("router", *EXPERTS, *(f"shared_{name}" for name in EXPERTS))


def silu(x: np.ndarray) -> np.ndarray:
    """x sigmoid(x)."""
    with np.errstate(over="ignore"):  # far below 0 it is 0
        return np.asarray(x / (1 + np.exp(-x)))


class FeedForward:
    """The k best of N experts for each row and one that all rows use: down_i (SiLU(gate_i x) * up_i x), the chosen ones
    weighted by the softmax of their scores. Every expert is multiplied; what a row does not use counts 0."""

    def __init__(self, weights: Mapping[str, np.ndarray], k: int) -> None:
        """weights: router [N, H]; gate_rows, up_rows, down_rows [N f, H] and the same, shared_, [f, H]."""
        self.weights, self.k = {name: np.ascontiguousarray(weights[name], np.float32) for name in NAMES}, k

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Rows [n, H] to [n, H], float32."""
        w = self.weights
        scores = x @ w["router"].T
        at = np.argpartition(-scores, self.k - 1, axis=1)[:, : self.k]
        best = np.exp(np.take_along_axis(scores, at, 1) - scores.max(1, keepdims=True))
        a = np.zeros_like(scores)
        np.put_along_axis(a, at, best / best.sum(1, keepdims=True), 1)
        h = silu(x @ w["gate_rows"].T) * (x @ w["up_rows"].T)
        h = (h.reshape(len(x), a.shape[1], -1) * a[:, :, None]).reshape(len(x), -1)
        beside = silu(x @ w["shared_gate_rows"].T) * (x @ w["shared_up_rows"].T)
        return np.asarray(h @ w["down_rows"] + beside @ w["shared_down_rows"])


def give(folder: Path, layers: Sequence[FeedForward], microbatches: int, rows: int) -> np.memmap:
    """Write what the process needs into a folder, and map the rows [microbatches, rows, H] that both will share."""
    arrays = {f"{i}.{name}": layer.weights[name] for i, layer in enumerate(layers) for name in NAMES}
    H = layers[0].weights["router"].shape[1]
    np.savez(folder / WEIGHTS, shape=np.array([microbatches, rows, H, layers[0].k]), **arrays)  # type: ignore[arg-type]
    return np.memmap(folder / ROWS, np.float32, "w+", shape=(microbatches, rows, H))


def serve(folder: Path) -> None:
    """Answer until the input ends. A result stands where its rows stood."""
    with np.load(folder / WEIGHTS) as archive:
        microbatches, rows, H, k = archive["shape"].tolist()
        count = sum(name.endswith(".router") for name in archive.files)
        layers = [FeedForward({name: archive[f"{i}.{name}"] for name in NAMES}, k) for i in range(count)]
    shared = np.memmap(folder / ROWS, np.float32, "r+", shape=(microbatches, rows, H))
    for layer in layers:  # the first products of a process are slow
        layer(np.zeros((rows, H), np.float32))
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    answers.write(ANSWER.pack(READY, 0, 0))
    answers.flush()
    while len(asked := requests.read(REQUEST.size)) == REQUEST.size:
        number, j, n = REQUEST.unpack(asked)
        began = time.perf_counter()  # one clock for all processes of a machine
        shared[j, :n] = layers[number](shared[j, :n])
        answers.write(ANSWER.pack(j, began, time.perf_counter()))
        answers.flush()


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
