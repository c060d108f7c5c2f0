"""What a run of tree speculation will need in bytes, by purpose, and the largest tree that fits a budget (SpecMemo,
arXiv:2506.01986).

Reference: tensor shapes of FasterDecoding/Medusa @ e2a5d20 (medusa/model/kv_cache.py, utils.py, medusa_model.py). Lean:
our own definition, as the paper's memory formula was not available.

Letters: B sequences, T nodes of the tree with its root, P its leaf paths, D the length of the longest, K draft heads,
n positions of the cache, V vocabulary, k guesses of a row, b bytes of a number."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engines.kit import Interval, Params, Tensor, UserError, bytes_held, row_depths, torch
from engines.methods.heads._template import likeliest, parents_of

STATM = Path("/proc/self/statm")


def reference_bytes(
    *, kv_row: int, n_max: int, V: int, b: int, B: int, T: int, P: int, D: int, K: int
) -> dict[str, int]:
    """A cache for the longest conversation, logits of every head at every node, and both gathered by path. kv_row:
    bytes of a position's keys and values, of all sequences."""
    return {
        "kv_prealloc": kv_row * n_max,
        "tree_logits": B * T * V * b,
        "tree_head_logits": K * B * T * V * b,
        "path_logits": P * D * V * b,
        "path_head_logits": K * P * D * V * b,
        "mask_f32": 4 * T * T,
        "index_buffers_i64": 8 * (2 * T + P * D),
    }


def lean_bytes(*, kv_row: int, n: int, V: int, b: int, B: int, T: int, K: int) -> dict[str, int]:
    """A cache for n positions and one tree, heads at the accepted node only, nothing gathered."""
    return {
        "kv_capacity": kv_row * (n + T),
        "tree_logits": B * T * V * b,
        "head_logits": K * B * V * b,
        "mask_f32": 4 * T * T,
        "parents_i64": 8 * T,
    }


def leaf_paths(parents: Sequence[int]) -> list[list[int]]:
    """Every path from the root to a leaf, as rows; the short ones filled up with their last row, as one index needs."""
    depth = max(row_depths(parents)) + 1
    paths = []
    for leaf in sorted(set(range(len(parents))) - set(parents)):
        path = [leaf]
        while parents[path[0]] >= 0:
            path.insert(0, parents[path[0]])
        paths.append(path + path[-1:] * (depth - len(path)))
    return paths


def by_path(z: Tensor, parents: Sequence[int]) -> Tensor:
    """Logits z [T, V] of a tree's rows, gathered for every leaf's path [P, D, V] as the reference does."""
    return z[torch.tensor(leaf_paths(parents))]


def live_bytes(tensors: Iterable[Tensor]) -> int:
    """Bytes of the memory behind tensors; what several of them share counts once."""
    return sum({t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}.values())


def stacked(group: str, parts: Mapping[str, tuple[int, bool]]) -> list[Interval]:
    """Parts, name -> (bytes, whether that was measured), one behind the other in an arena."""
    intervals, at = list[Interval](), 0
    for name, (size, measured) in parts.items():
        intervals.append(bytes_held(group, name, at, at + size, measured))
        at += size
    return intervals


def resident_bytes() -> int:
    """What the whole process holds in memory now; 0 where the system does not say."""
    if not STATM.is_file():
        return 0
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


MB = 1_000_000
TREES = (1, 2, 4, 8, 16, 32)  # nodes with the root
GUESSES = 4  # k
# How often guess r of the table was right at depth d: SmolLM2, four other prompts, 88 trees of 81 nodes.
RIGHT = ((0.27, 0.16, 0.06, 0.05), (0.38, 0.05, 0.03, 0.03), (0.5, 0.05, 0.02, 0.01), (0.5, 0.05, 0.02, 0.01))
LOGIT, ENTRY = 4, 4  # bytes of a logit, and of a number of the table
REFERENCE = "reference"


def shape(T: int) -> tuple[list[int], list[int]]:
    """(parents, ranks) of the T likeliest nodes, the root first: a smaller tree is part of a larger one."""
    paths, parents = parents_of(path for path, _ in likeliest(RIGHT, T - 1))
    return parents, [path[-1] if path else -1 for path in paths]


@dataclass(frozen=True)
class Plan:
    """Sizes of a run. kv_row: bytes of a position's keys and values; start: positions of the prompt, which all
    sequences share; new: positions that each may add; n_max: those that the model has; whole: the reference's
    allocation is asked for."""

    name: str
    weights: int
    kv_row: int
    number: int  # bytes of a number of the model's dtype
    V: int
    n_max: int
    start: int
    new: int
    B: int
    whole: bool

    @classmethod
    def of(cls, model: Any, start: int, p: Params) -> Plan:
        """From the model's record. Raises UserError for a model that does not say how large its cache is, or whose
        weights are coded."""
        record, kv_row = model.record, model.position_bytes
        if not kv_row:
            raise UserError(f"{record.name} does not say how large its keys and values are; choose a Llama-like model.")
        kind = getattr(torch, record.dtype, None)
        if not isinstance(kind, torch.dtype):
            raise UserError(
                f"a plan of memory needs weights of one type and {record.name} is coded as {record.dtype}; load the "
                "model's safetensors."
            )
        number = kind.itemsize
        whole, n_max = p.allocation == REFERENCE, model.max_positions or start + p.max_new_tokens + TREES[-1]
        sizes = kv_row, number, model.vocab_size, n_max, start, p.max_new_tokens, p.batch, whole
        return cls(record.name, record.parameters * number, *sizes)

    def rows(self, T: int) -> int:
        """Positions of the cache: what the answer and one tree of each sequence need, or all that there are."""
        return self.B * self.n_max if self.whole else self.start + self.B * (self.new + T)

    def mask(self, T: int) -> int:
        """Bytes of the mask that the model makes for the trees of all sequences, at its largest."""
        return self.number * self.B * T * self.rows(T)

    def parts(self, T: int, whole: bool | None = None) -> dict[str, int]:
        """Bytes by purpose beside the weights; whole: as the reference allocates them, by default as this run does.
        Each sequence keeps one row of logits from round to round."""
        same = {"V": self.V, "b": LOGIT, "B": self.B, "T": T, "K": 0}
        if self.whole if whole is None else whole:
            paths = leaf_paths(shape(T)[0])
            given = reference_bytes(
                **same, kv_row=self.kv_row * self.B, n_max=self.n_max, P=len(paths), D=len(paths[0])
            )
            given["path_logits"] *= self.B
        else:
            given = lean_bytes(**same, kv_row=self.kv_row, n=self.rows(T) - T)
        if whole is None:
            given["mask_f32"] = self.mask(T)
        return {**given, "kept_logits": LOGIT * self.B * self.V, "table": ENTRY * self.V * GUESSES}

    def total(self, T: int) -> int:
        """Bytes of everything, the weights too."""
        return self.weights + sum(self.parts(T).values())

    def limit(self, T: int, budget: float) -> int:
        """How many tokens each sequence could write inside the budget with that tree; 0 MB: no limit but the
        model's positions."""
        most = self.n_max - self.start
        if not budget or self.whole:
            return most
        left = int(budget * MB) - self.total(T)
        return max(0, min(most, self.new + left // (self.B * (self.kv_row + self.number * self.B * T))))

    def shortened(self, budget: float, T: int) -> Plan:
        """The same with as many new tokens as the budget holds beside a tree of T. Raises UserError where there is no
        room for one, with what is missing."""
        new = min(self.new, self.limit(T, budget))
        if new < 1:
            least = replace(self, new=1).total(T) / MB
            raise UserError(
                f"a budget of {budget:g} MB is too small: a tree of {T} nodes and one new token need {least:.2f} MB "
                f"with the weights. Give at least {least + 0.01:.2f} MB, {least - budget:.2f} more, or a smaller tree."
            )
        return replace(self, new=new)

    def fit(self, budget: float, most: int, *, strict: bool = False) -> int:
        """Nodes of the largest tree, at most `most`, with which everything fits; 1 where none does. Raises UserError
        then if strict, with what is missing."""
        sizes = sorted({most, *(T for T in TREES if most > T)})
        fitting = [T for T in sizes if not budget or self.total(T) <= budget * MB]
        if strict and not fitting:
            raise UserError(self._missing(budget))
        return max(fitting, default=1)

    def _missing(self, budget: float) -> str:
        least = self.total(1) / MB
        if budget * MB < self.weights:
            why = f"the weights of {self.name} alone are {self.weights / MB:.1f} MB"
        else:
            why = f"{self.rows(1)} positions and plain decoding need {least:.2f} MB with the weights"
        return (
            f"a budget of {budget:g} MB is too small: {why}. Give at least {least + 0.01:.2f} MB, "
            f"{least - budget:.2f} more, or fewer new tokens, a smaller batch or the lean allocation."
        )
