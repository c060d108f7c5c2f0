"""Golden cases of EAGLE-2's dynamic tree, with a bigram table in the place of the draft layer."""

from __future__ import annotations

from collections.abc import Sequence

from engines.core.trees import ancestor_mask, leaf_paths, row_depths
from engines.methods.heads._confident_tree import Fan, expanded, reranked

from .cases import Given, Values, ancestors, computes

TOLERANCE = 1e-6


@computes("eagle2_tree", tolerance=TOLERANCE)
def eagle2_tree(given: Given) -> Values:
    """Tokens, parents and scores of the nodes that are verified, what each sees, and the paths to the leaves."""
    table = given["draft_logprob"]

    def fan(rows: Sequence[int], tokens: Sequence[int], _: Sequence[int]) -> Fan:
        said = [table[tokens[row]] for row in rows]
        best = [sorted(range(len(one)), key=lambda t: -one[t])[: given["top_k"]] for one in said]
        return best, [[one[t] for t in ranked] for one, ranked in zip(said, best, strict=True)]

    pool = expanded(fan, given["root"], given["top_k"], given["depth"])
    tokens, parents, scores = reranked(pool, given["total_tokens"] - 1)
    rows = leaf_paths(parents)
    width = max(map(len, rows))
    return {
        "tokens": tokens,
        "parents": parents,
        "depth": row_depths(parents),
        "score": scores,
        "ancestors": ancestors(ancestor_mask(parents)),
        "rows": [[*row, *[-1] * (width - len(row))] for row in rows],
    }
