"""Falcon's drafter at work: blocks of k rows, and a tree whose levels come in groups of k.

Letters: k rows of a block, m passes, T rows of text that the layer has read, g group, F estimates of hidden states, d
hidden size."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engines.kit import top_ids, torch
from engines.models.exits import Past

if TYPE_CHECKING:
    from torch import Tensor

    from engines.methods.heads._template import Path
    from engines.models.networks.falcon_layer import FalconLayer, State

RANKS = 10


@dataclass(frozen=True)
class Group:
    """What one pass found below a node: states F [k, d] of the next k places, the best guesses of each of them
    [k][RANKS] and their chances, the LSTM's state behind its rows, and the places of its rows and those above them in
    the layer's cache."""

    F: Tensor
    guesses: list[list[int]]
    chances: list[list[float]]
    state: State
    line: list[int]


class Drafter:
    """The layer with its keys, values and LSTM states: it reads the text with its true states, then whole blocks of a
    tree with its own."""

    def __init__(self, model: Any, layer: FalconLayer, k: int, vocabulary: Tensor | None) -> None:
        self.model, self.layer, self.k, self.past = model, layer, k, Past()
        self.vocabulary = None if vocabulary is None else vocabulary.long().to(model.record.device)
        self.states: list[State] = []  # behind each row of text that was read
        self.rows = self.passes = 0  # of this turn

    @property
    def parameters(self) -> int:
        """Trained numbers of the layer."""
        return sum(one.numel() for one in self.layer.parameters())

    def read(self, ids: Sequence[int], H: Tensor) -> Group | None:
        """Read what is new of the text, at least the last k rows: row t is the token t + 1 with the state H[t]. What
        the last block foresees behind the text; None where the text is shorter than a block."""
        from engines.models.networks.falcon_layer import mask_of

        T = len(H)
        self.rows = self.passes = 0
        if self.k > T:
            return None
        begin = min(len(self.states), T - self.k)
        self.forget_from(begin)
        z = self.layer.inputs(self.model.embed(ids[begin + 1 : T + 1]), H[begin:])[:, None]  # [n, 1, 2 d]
        given = []
        for row in z:
            r, state = self.layer.run(row[None], self.states[-1] if self.states else None)
            given.append(r)
            self.states.append(state)
        x = self.layer.mixed(z, torch.cat(given))[:, 0]
        F = self.layer.through(x, self.past, sees=mask_of(len(x), self.k, begin).to(x.device))[-self.k :]
        self.rows, self.passes = len(x), 1
        return Group(F, *self._said(F, len(ids)), self.states[-1], [])

    def below(
        self, leaders: Sequence[Path], of: MutableMapping[Path, Group], tokens: Mapping[Path, int], end: int
    ) -> None:
        """One pass below nodes of one depth, a multiple of k: each has a block of its own, the k tokens that lead to it
        with the states that its group foresaw. Adds the groups to `of`, which is by node. end: length of the text."""
        k, depth, T = self.k, len(leaders[0]), len(self.states)
        above = [of[path[:-k]] for path in leaders]
        e = [self.model.embed([tokens[path[: depth - k + j + 1]] for j in range(k)]) for path in leaders]
        z = torch.stack([self.layer.inputs(one, up.F) for one, up in zip(e, above, strict=True)], 1)  # [k, B, 2 d]
        h, c = (torch.cat(side, 1) for side in zip(*(up.state for up in above), strict=True))
        r, (h, c) = self.layer.run(z, (h, c))
        x = self.layer.mixed(z, r).transpose(0, 1).flatten(0, 1)  # [B k, d], block behind block
        base, n = self.past.length, len(x)
        sees = torch.zeros(n, base + n, dtype=torch.bool, device=x.device)
        sees[:, :T] = True
        lines = [[*up.line, *range(base + b * k, base + (b + 1) * k)] for b, up in enumerate(above)]
        for b, line in enumerate(lines):
            sees[b * k : (b + 1) * k, line] = True
        at = (T + depth - k + torch.arange(k, device=x.device)).repeat(len(leaders))
        F = self.layer.through(x, self.past, at, sees).unflatten(0, (len(leaders), k))
        self.rows, self.passes = self.rows + n, self.passes + 1
        for b, path in enumerate(leaders):
            said = self._said(F[b], end + depth)
            of[path] = Group(F[b], *said, (h[:, b : b + 1], c[:, b : b + 1]), lines[b])

    def _said(self, F: Tensor, start: int) -> tuple[list[list[int]], list[list[float]]]:
        z = self.model.unembed(F, self.vocabulary, normed=True, predicts=start)
        best = top_ids(z, RANKS)
        found = best if self.vocabulary is None else self.vocabulary[best]
        return found.tolist(), z.double().softmax(-1).gather(-1, best).tolist()

    def forget(self, length: int) -> None:
        """Of the text's first `length` states the row of the last one waits for its token; the tree is gone."""
        self.forget_from(max(0, min(length - 1, len(self.states))))

    def forget_from(self, row: int) -> None:
        """Only the first rows of text stay."""
        del self.states[row:]
        self.past.crop(row)


def grown(drafter: Drafter, paths: Sequence[Path], ids: Sequence[int], first: Group) -> tuple[list[int], list[float]]:
    """Tokens and chances of the nodes of a template, the root first: those of a group share the guesses of its rows;
    below a node at a multiple of k stands a group of its own, all groups of a depth in one pass."""
    k, of, tokens, chances = drafter.k, {(): first}, {(): ids[-1]}, {(): 1.0}
    inner = {path[: (len(path) - 1) // k * k] for path in paths if path}
    for depth in sorted({len(path) for path in paths if path}):
        if depth > k and depth % k == 1 % k:
            drafter.below(sorted(path for path in inner if len(path) == depth - 1), of, tokens, len(ids))
        for path in (path for path in paths if len(path) == depth):
            group, j = of[path[: (depth - 1) // k * k]], (depth - 1) % k
            tokens[path], chances[path] = group.guesses[j][path[-1]], group.chances[j][path[-1]]
    return [tokens[path] for path in paths], [chances[path] for path in paths]
