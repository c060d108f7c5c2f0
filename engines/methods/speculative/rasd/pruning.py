"""What was retrieved, pruned by the drafter (RASD, arXiv:2503.03434; the rule and its budget are ours)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from engines.kit import (
    Tensor,
    top_ids,
)
from engines.methods.speculative._retrieval import Prefix


class Found(NamedTuple):
    """A trie of what was found in one corpus, and the length of the matches; infinite where it is not to count."""

    counts: Mapping[Prefix, int]
    n: float = math.inf


@dataclass(frozen=True)
class Pruned:
    """What became of the tries: the score of every node that the drafter let pass, the nodes kept (parents first), and
    how many were dropped for what."""

    scores: dict[Prefix, float]
    kept: list[Prefix]
    shared: int  # of the kept ones, how many the draft tree has too
    not_in_top_k: int
    too_unlikely: int
    over_budget: int

    def facts(self) -> dict[str, float]:
        """The counts for the record."""
        return {
            "retrieved": len(self.scores) + self.not_in_top_k,
            "not_in_top_k": self.not_in_top_k,
            "too_unlikely": self.too_unlikely,
            "over_budget": self.over_budget,
            "kept": len(self.kept),
            "shared": self.shared,
        }


def prune(
    sources: Sequence[Found],
    distributions: Mapping[Prefix, Tensor],
    top_k: int,
    budget: int,
    drafted: set[Prefix],
    room: int,
    floor: float = 0.0,
) -> Pruned:
    """The `budget` best nodes of score `floor` at least, at most `room` of them new to the draft tree
    (ties: shallower first, then token order). What both corpora have takes the better of its scores.

    distributions: path -> q [V] where the drafter has read it. A node below one that was dropped is dropped for the
    same reason."""
    best = {path: set(top_ids(q[None], top_k)[0].tolist()) for path, q in distributions.items()} if top_k else {}
    scores: dict[Prefix, float] = {}
    for counts, n in sources:
        for node, score in scored(counts, n, distributions, best).items():
            scores[node] = max(score, scores.get(node, 0.0))
    likely = [node for node in scores if scores[node] >= floor]
    kept: list[Prefix] = []
    for node in sorted(likely, key=lambda node: (-scores[node], len(node), node)):
        if len(kept) == budget:
            break
        if node in drafted or room > 0:  # scores never rise along a path, so the parent is kept already
            kept.append(node)
            room -= node not in drafted
    retrieved, shared = len({node for counts, _ in sources for node in counts}), sum(node in drafted for node in kept)
    in_order = sorted(kept, key=lambda node: (len(node), node))
    return Pruned(scores, in_order, shared, retrieved - len(scores), len(scores) - len(likely), len(likely) - len(kept))


def scored(
    counts: Mapping[Prefix, int], n: float, distributions: Mapping[Prefix, Tensor], best: Mapping[Prefix, set[int]]
) -> dict[Prefix, float]:
    """Scores of the nodes that the drafter lets pass, parents first: the product of q(x|P), or of the share of x among
    the continuations, along the path.

    A share counts the more, the longer the text that agrees: with 1 - 1 / (n + d) at depth d behind matches of n
    tokens, the succession rule for n + d - 1 tokens that agreed without a miss."""
    total: dict[Prefix, int] = {}
    for node, count in counts.items():
        total[node[:-1]] = total.get(node[:-1], 0) + count
    scores: dict[Prefix, float] = {}
    for node in sorted(counts, key=lambda node: (len(node), node)):
        above, x = node[:-1], node[-1]
        known = above in distributions and float(distributions[above][x]) > 0  # 0: outside the drafter's vocabulary
        if (above and above not in scores) or (known and x not in best.get(above, {x})):
            continue
        weight = float(distributions[above][x]) if known else counts[node] / total[above] * (1 - 1 / (n + len(node)))
        scores[node] = (scores[above] if above else 1.0) * weight
    return scores
