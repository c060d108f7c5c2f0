"""Golden cases of Lean Attention: grids, ranges and splits of the published kernels, and triples that merge."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from engines.methods.system.lean_attention.attention import add, empty, merge
from engines.methods.system.lean_attention.partition import (
    Piece,
    grid,
    lean,
    num_splits,
    ranges,
    splits_bound,
    tile_tokens,
    tiles,
)

from .cases import Given, Values, float64, kinds


def by_worker(pieces: Sequence[Piece], heads: int) -> list[list[list[int]]]:
    """[batch, head, first, end] of each worker's pieces."""
    found: list[list[list[int]]] = [[] for _ in range(pieces[-1].worker + 1)]
    for piece in pieces:
        found[piece.worker].append([*divmod(piece.problem, heads), piece.first, piece.end])
    return found


def published(given: Given) -> Values:
    """The host code's numbers, and FlashDecoding's splits for the same two slots on each processor."""
    problems, b = given["batch"] * given["kv_heads"], tile_tokens(given["head_dim"])
    t = tiles(given["context"], b)
    T, P = t * problems, given["processors"]
    G = grid(T, t, problems, P)
    pieces = lean([t] * problems, G)
    rows, lengths = by_worker(pieces, given["kv_heads"]), [end - first for first, end in ranges(T, G)]
    return {
        "block_n": b,
        "n_blocks": t,
        "tiles_per_head": t,
        "total_tiles": T,
        "grid": G,
        "max_tiles_per_worker": max(lengths),
        "high_load_workers": lengths.count(max(lengths)),
        "num_splits_bound": splits_bound(T, t, G),
        "first_workers": rows[:6],
        "last_worker": rows[-1],
        "segments_total": len(pieces),
        "workers_touching_two_heads": sum(len(row) == 2 for row in rows),
        "flashdecoding_splits": num_splits(problems, t, 2 * P),
    }


def pure(given: Given) -> Values:
    """As many workers as asked for, at most one for each tile."""
    t = [tiles(given["context"], given["tile_tokens"])] * (given["batch"] * given["heads"])
    pieces = lean(t, min(given["workers"], sum(t)))
    rows = by_worker(pieces, given["heads"])
    most = max(sum(end - first for *_, first, end in row) for row in rows)
    return {"total_tiles": sum(t), "assignment": rows, "max_tiles_per_worker": most}


def partials(given: Given) -> Values:
    """Triples of the pieces of one head, and what they merge to."""
    q, K, V = (float64(given[name]) for name in ("q", "K", "V"))
    q, cuts = q[None] * given["scale"], given["token_cuts"]
    found = [add(None, q, K[a:z], V[a:z]) for a, z in pairwise(cuts)]
    whole = empty(q)
    for one in found:
        whole = merge(whole, one)
    return {
        "partials": [{"m": float(one.m), "l": float(one.l), "o": one.o[0].tolist()} for one in found],
        "output": (whole.o / whole.l[:, None])[0].tolist(),
        "logsumexp": float(whole.m + whole.l.log()),
    }


kinds("lean_attention", **{"schedule": published, "pure-stream-k": pure, "partials": partials})
