"""Golden cases of EAGLE-2's dynamic tree, with a bigram table in the place of the draft layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engines.core.trees import ancestor_mask, leaf_paths, row_depths
from engines.core.verify import Case, checks, differ
from engines.methods.heads._confident_tree import Fan, expanded, reranked

TOLERANCE = 1e-6


@checks("eagle2_tree")
def eagle2_tree(case: Case, _: Mapping[str, Any], __: Path) -> str | None:
    """Tokens, parents and scores of the nodes that are verified, what each sees, and the paths to the leaves."""
    given, table = case["in"], case["in"]["draft_logprob"]

    def fan(rows: Sequence[int], tokens: Sequence[int], _: Sequence[int]) -> Fan:
        said = [table[tokens[row]] for row in rows]
        best = [sorted(range(len(one)), key=lambda t: -one[t])[: given["top_k"]] for one in said]
        return best, [[one[t] for t in ranked] for one, ranked in zip(said, best, strict=True)]

    pool = expanded(fan, given["root"], given["top_k"], given["depth"])
    tokens, parents, scores = reranked(pool, given["total_tokens"] - 1)
    rows = leaf_paths(parents)
    width = max(map(len, rows))
    got = {
        "tokens": tokens,
        "parents": parents,
        "depth": row_depths(parents),
        "score": scores,
        "ancestors": [row.nonzero()[:, 0].tolist() for row in ancestor_mask(parents)],
        "rows": [[*row, *[-1] * (width - len(row))] for row in rows],
    }
    return differ("", got, case["out"], TOLERANCE)
