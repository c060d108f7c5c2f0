"""EAGLE-2's dynamic draft tree (Li et al., arXiv:2406.16858; code SafeAILab/EAGLE, model/cnets1.py): the drafter's own
confidence shapes it, whatever the drafter is."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engines.kit import torch
from engines.methods.speculative._verify import Draft

Fan = tuple[list[list[int]], list[list[float]]]  # guesses of each row, best first, and their log-probabilities
Pool = tuple[list[int], list[int], list[float]]  # tokens, parents, scores of rows, row 0 the root
Fanning = Callable[[Sequence[int], Sequence[int], Sequence[int]], Fan]  # rows, tokens and parents of the tree -> Fan


def grown(fan: Fanning, root: int, k: int, depth: int, n: int) -> Draft:
    """The n likeliest of what was expanded, as a draft: a row's chance is that behind its parent, its value the joint
    probability of its path."""
    tokens, parents, scores = reranked(expanded(fan, root, k, depth), n)
    draft = Draft.of(tokens, parents, "draft")
    joint = torch.tensor(scores, dtype=torch.float64).exp().tolist()
    draft.chances[1:] = [joint[row] / max(joint[parents[row]], 1e-300) for row in range(1, len(tokens))]
    draft.values, draft.value_is = joint, ("joint probability of its path", "chance")
    return draft


def expanded(fan: Fanning, root: int, k: int, depth: int) -> Pool:
    """EAGLE-2's expansion: the root's guesses, then `depth` times those of the k rows with the largest scores among the
    newest. A score is the sum of log-probabilities on the path. All rows, in the order in which they came up."""
    tokens, parents, scores, frontier = [root], [-1], [0.0], [0]
    for _ in range(depth + 1):
        born: list[int] = []
        guesses, chances = fan(frontier, tokens, parents)
        for row, fanned, logp in zip(frontier, guesses, chances, strict=True):
            for token, row_logp in zip(fanned, logp, strict=True):
                born.append(len(tokens))
                tokens.append(token)
                parents.append(row)
                scores.append(scores[row] + row_logp)
        frontier = sorted(born, key=lambda row: -scores[row])[:k]
    return tokens, parents, scores


def reranked(pool: Pool, n: int) -> Pool:
    """EAGLE-2's choice: the n rows of a pool with the largest scores, in its order. No row has a larger score than its
    parent, so they are a tree."""
    tokens, parents, scores = pool
    best = sorted(range(1, len(tokens)), key=lambda row: -scores[row])[:n]
    kept = [0, *sorted(best)]
    number = {row: i for i, row in enumerate(kept)} | {-1: -1}
    return [tokens[row] for row in kept], [number[parents[row]] for row in kept], [scores[row] for row in kept]
