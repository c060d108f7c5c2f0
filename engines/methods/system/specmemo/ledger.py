"""Bytes that tree speculation needs, by purpose: as a reference implementation allocates them, and lean.

Reference: tensor shapes of FasterDecoding/Medusa @ e2a5d20 (medusa/model/kv_cache.py, utils.py, medusa_model.py). Lean:
our own definition, as the memory formula of SpecMemo (arXiv:2506.01986) was not available.

Letters: B sequences, T nodes of the tree with its root, P its leaf paths, D the length of the longest, K draft heads,
V vocabulary, n positions, b bytes of a number."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from engines.kit import Interval, Tensor, bytes_held, row_depths, torch

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
