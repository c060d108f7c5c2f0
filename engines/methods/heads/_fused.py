"""The drafter of a run that fuses a run of tokens with the model's own states of the whole text (arXiv:2402.15758):
both encoders, the heads, and the tree that they fill.

Letters as in the method: h the model's last states, g the vector of a run of tokens, f what the encoder foresees, W
tokens of a run, T rows of text with true states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from engines.kit import Params, top_ids, torch
from engines.methods.heads._template import Path
from engines.methods.speculative._verify import Draft

if TYPE_CHECKING:
    from torch import Tensor

RANKS = 10  # guesses of each head
WINDOW = 3  # tokens of the longest run


class Drafter:
    """Both encoders and the heads in a run: keys of the true states, and the vector of each run of tokens seen."""

    def __init__(self, model: Any, net: Any, vocabulary: Tensor | None, p: Params) -> None:
        from engines.models.exits import Past

        self.model, self.net, self.p, self.past = model, net.to(model.record.device), p, Past()
        self.vocabulary = None if vocabulary is None else vocabulary.long().to(model.record.device)
        self.known: dict[tuple[int, ...], Tensor] = {}  # run of tokens -> g [d]
        self.begin()

    def begin(self) -> None:
        """A new turn: no tree yet."""
        self.hits = 0  # runs of this turn whose vector was there already
        self.foreseen: dict[int, Tensor] = {}  # row of the tree -> f [d], what is foreseen at that row
        self.looks: Tensor | None = None  # [T] attention of the root's row to the true states

    def read(self, h: Tensor) -> None:
        """True states h [k, d] of the next rows of the text."""
        begin = self.past.length
        self.past.add(*self.net.layer.seen(h, torch.arange(begin, begin + len(h), device=h.device)))
        self.h = h[-1]

    def encoded(self, lines: Sequence[Sequence[int]]) -> Tensor:
        """The vectors [n, d] of runs of W tokens, those seen before from memory."""
        runs = [tuple(line) for line in lines]
        self.hits += sum(one in self.known for one in runs)
        if new := sorted({one for one in runs if one not in self.known}):
            e = self.model.embed([token for one in new for token in one]).unflatten(0, (len(new), WINDOW))
            self.known |= dict(zip(new, self.net.encoded(e, self.p.window), strict=True))
        return torch.stack([self.known[one] for one in runs])

    def grown(self, paths: Sequence[Path], parents: Sequence[int], ids: Sequence[int]) -> Draft:
        """The tree of these paths below the text `ids`, all nodes of a depth at once: row r of depth i is encoded at
        its place, sees the true states, what was foreseen for the rows above it, and itself."""
        draft, layer, T = Draft(ids[-1], "draft"), self.net.layer, self.past.length
        k, v = self.past.k, self.past.v
        assert k is not None and v is not None  # the text was read
        at_key: dict[int, list[int]] = {-1: []}  # row -> places of its f and of those above it among the keys
        for i in range(max(map(len, paths))):
            rows = sorted({parents[row] for row, path in enumerate(paths) if len(path) == i + 1})
            g = self.encoded([run_of(ids, draft.path(row)) for row in rows])
            at = torch.full((len(rows),), T + i, device=g.device)
            own, m = layer.seen(g, at), k.shape[1]
            sees = torch.zeros(len(rows), m + len(rows), dtype=torch.bool, device=g.device)
            sees[:, :T] = True
            for j, row in enumerate(rows):
                sees[j, [*at_key[draft.parents[row]], m + j]] = True
            if i == 0:
                self.looks = layer.looks(g, at, torch.cat([k, own[0]], 1))[0, :T]
            f = layer(g, at, torch.cat([k, own[0]], 1), torch.cat([v, own[1]], 1), sees)
            self.foreseen |= dict(zip(rows, f, strict=True))
            for j, row in enumerate(rows):
                at_key[row] = [*at_key[draft.parents[row]], m + j] if self.p.sees_drafts else []
            k, v = (torch.cat(pair, 1) for pair in zip((k, v), layer.seen(f, at), strict=True))
            x = self.net.said(self.h.expand(len(rows), -1), f, i)
            z = self.model.unembed(x, self.vocabulary, normed=True, predicts=[len(ids) + i] * len(rows))
            best = top_ids(z, RANKS)
            found = best if self.vocabulary is None else self.vocabulary[best]
            tokens = dict(zip(rows, found.tolist(), strict=True))
            chances = dict(zip(rows, z.softmax(-1).gather(-1, best).tolist(), strict=True))
            for row, path in enumerate(paths):
                if len(path) == i + 1:
                    above, r = parents[row], path[-1]
                    draft.add(above, tokens[above][r], chances[above][r])
        return draft


def run_of(ids: Sequence[int], path: Sequence[int]) -> list[int]:
    """The last W tokens of the text with a path of guesses behind it; a short text repeats its first token."""
    line = [*ids[-WINDOW:], *path]
    return [*[ids[0]] * (WINDOW - len(line)), *line][-WINDOW:]
