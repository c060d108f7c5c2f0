"""Drafting in hidden states, row by row (EAGLE, arXiv 2401.15077; EAGLE-3, arXiv 2503.01840; MTP layers): a row is a
token's embedding and the state one place before it, and its output is the state of the row behind it.

What is shared by the methods that draft so: the text is read with the target's own states, a draft tree below it with
the drafter's, and after a round only rows of true states stay. The tree is EAGLE-2's (Li et al., arXiv:2406.16858; code
SafeAILab/EAGLE, model/cnets1.py): the drafter's own confidence shapes it, whatever the drafter is.

Letters: T rows of text that were read, n rows of a tree, k guesses of each row, d width of the drafter, D numbers of
the target's states for a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from engines.kit import Int, Params, Tensor, top_ids, torch
from engines.methods.speculative._turn import Target, Turn
from engines.methods.speculative._verify import Draft

if TYPE_CHECKING:
    from engines.models.drafters.rows import Rows

Fan = tuple[list[list[int]], list[list[float]]]  # guesses of each row, best first, and their log-probabilities
Pool = tuple[list[int], list[int], list[float]]  # tokens, parents, scores of rows, row 0 the root
Fanning = Callable[[Sequence[int], Sequence[int], Sequence[int]], Fan]  # rows, tokens and parents of the tree -> Fan

MOST = 63  # guesses that are verified
TREE = [
    Int("nodes", 12, 0, MOST, neutral=0, source="59 beside the root in the code"),
    Int("depth", 3, 0, 7, source="7 in the code"),
    Int("top_k", 4, 1, 10, symbol="k", source="10 in the code"),
]


class Drafter:
    """A drafter and the target's states of the text, S [T, D] with room behind them. known: how many there are, from
    the first token on; rows: those that went through it in this turn, text_rows those of them with the target's
    states."""

    def __init__(self, rows: Rows) -> None:
        self.source, self.T, self.rows, self.text_rows, self.known = rows, 0, 0, 0, 0
        self.S: Tensor | None = None

    def ready(self, ids: Sequence[int]) -> bool:
        """Whether it knows a state for each token of the text but the last; else the target has to read it first."""
        return self.known > 0 and self.known == len(ids) - 1

    def learn(self, iteration: Turn) -> None:
        """Take the target's states of a round: of the text that was fed with it, and of the accepted path."""
        states = self.source.states(iteration.states)
        end = self.known + len(states)
        if self.S is None or end > len(self.S):
            room = states.new_empty(2 * end, states.shape[-1])
            if self.S is not None:
                room[: self.known] = self.S[: self.known]
            self.S = room
        self.S[self.known : end], self.known = states, end

    def tree(self, target: Target, ids: Sequence[int], p: Params) -> Draft:
        """EAGLE-2's tree below the text; none where a state is missing, or there is no room for one."""
        deepest = min(target.deepest(ids), p.depth + 1)
        if not (self.ready(ids) and p.nodes and deepest > 0):
            return Draft(ids[-1])
        self.read(ids, p.top_k)
        return grown(self.fan, ids[-1], p.top_k, deepest - 1, p.nodes)

    def read(self, ids: Sequence[int], k: int) -> None:
        """Read what is new of the text: row t is the token t + 1 with the state at t. A tree below `ids` may follow,
        with k guesses of each node."""
        assert self.S is not None
        begin, self.end, self.k, self.T = self.source.length, len(ids), k, self.known
        F = self.source.read(ids[begin + 1 :], self.S[begin : self.T])
        self.F = F[-1:]  # [1, d]: at the root
        self.rows = self.text_rows = len(F)
        self.features = {0: self.F[0]}
        self.lines: dict[int, list[int]] = {0: []}  # row of the tree -> places of it and its ancestors

    def fan(self, rows: Sequence[int], tokens: Sequence[int], parents: Sequence[int]) -> Fan:
        """The k best guesses behind each of these rows of a tree, all of one depth, with their log-probabilities over
        what the drafter can draft."""
        depth = len(self.lines[parents[rows[0]]]) + 1 if rows[0] else 0
        if depth:
            base = self.source.length
            sees = torch.zeros(len(rows), base + len(rows), dtype=torch.bool, device=self.F.device)
            sees[:, : self.T] = True
            for i, row in enumerate(rows):
                self.lines[row] = [*self.lines[parents[row]], base + i]
                sees[i, self.lines[row]] = True
            before = torch.stack([self.features[parents[row]] for row in rows])
            at = torch.full((len(rows),), self.T + depth - 1, device=self.F.device)
            self.F = self.source.grow([tokens[row] for row in rows], before, at, sees)
            self.features |= dict(zip(rows, self.F, strict=True))
            self.rows += len(rows)
        z = self.source.logits(self.F, [self.end + depth] * len(rows))
        best = top_ids(z, self.k)
        return self.source.tokens(best).tolist(), z.double().log_softmax(-1).gather(-1, best).tolist()

    def forget(self, length: int) -> None:
        """Of the text's first `length` states the row of the last one waits for its token; the tree is gone."""
        self.known, self.rows, self.text_rows = min(self.known, length), 0, 0
        self.source.crop(max(0, min(length - 1, self.T)))


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
