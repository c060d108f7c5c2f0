"""Golden cases of UltraMemV2: candidates of rows and columns, slots, scores of each head, output, and the growth of
the set of slots that a chunk touches; from queries and keys, without norms and permutation."""

from __future__ import annotations

from pathlib import Path

from engines.core.lazy import torch
from engines.core.verify import Case, checks, differ
from engines.models.activation import distinct

from .cases import Given, float64


@checks("ultramem_v2")
def check(case: Case, _: Given, __: Path) -> str | None:
    """All that is expected of a case; the ranks of its queries share one row and one column query."""
    from engines.models.networks.ultra_mem import pre_scores, search, weighted

    given = case["inputs"]
    q, keys, C, V, P, p, W_o = (
        float64(given[name])
        for name in ("query", "keys", "cores", "values", "pre_values", "pre_input", "out_projection")
    )
    q = q[:, :, None].expand(-1, -1, C.shape[1], -1)
    with torch.no_grad():
        found = search(q, keys.transpose(2, 3), C, given["top"])
        output = weighted(found.scores, pre_scores(p, P[found.crossings]), V[found.crossings]) @ W_o.T
    growth = distinct(found.crossings)
    got = {
        "row_candidates": found.rows.tolist(),
        "column_candidates": found.columns.tolist(),
        "slots": found.crossings.tolist(),
        "slot_total_score": found.scores.sum(-1).tolist(),
        "slot_head_scores": found.scores.tolist(),
        "output": output.tolist(),
        "unique_slots": growth[-1],
        "union_growth": growth,
    }
    return differ("", got, case["expected"], 1e-6)  # nine digits are printed, of numbers up to some hundreds
