"""Chimera's two encoders and its heads in a run.

Letters: T rows of text with true states, d hidden size, H heads of size e, g the vector of a run of tokens, f what is
foreseen."""

from collections.abc import Sequence
from typing import Any

from engines.kit import Packed, Params, Record, Tensor, pack, torch
from engines.methods.heads._template import Path, Ranking, by_depth, rankings_of
from engines.methods.speculative._turn import Turn
from engines.methods.speculative._verify import Draft

WINDOW = 3  # tokens of the longest run


class Drafter:
    """Both encoders and the heads in a run: keys of the true states, and the vector of each run of tokens seen."""

    def __init__(self, model: Any, net: Any, vocabulary: Tensor | None, p: Params) -> None:
        from engines.models.networks.exits import Past

        self.model, self.net, self.p, self.past = model, net.to(model.record.device), p, Past()
        self.vocabulary = vocabulary
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
        self.hits += sum(trigram in self.known for trigram in runs)
        if new := sorted({trigram for trigram in runs if trigram not in self.known}):
            e = self.model.embed([token for trigram in new for token in trigram]).unflatten(0, (len(new), WINDOW))
            self.known |= dict(zip(new, self.net.encoded(e, self.p.window), strict=True))
        return torch.stack([self.known[trigram] for trigram in runs])

    def grown(self, paths: Sequence[Path], parents: Sequence[int], ids: Sequence[int]) -> Draft:
        """The tree of these paths below the text `ids`, all nodes of a depth at once."""
        self.last, self.seen = self.h, (self.past.k, self.past.v)
        encoder = TreeEncoder(self.net.layer, *self.seen, self.p.sees_drafts)

        def ranked(i: int, rows: list[int], draft: Draft) -> list[Ranking]:
            g = self.encoded([run_of(ids, draft.path(row)) for row in rows])
            if i == 0:
                self.looks = encoder.looks(g, rows, draft.parents, 0)[0][: self.past.length]
            f = encoder.foresee(g, rows, draft.parents, i)
            self.foreseen |= dict(zip(rows, f, strict=True))
            x = self.net.predicted(self.h.expand(len(rows), -1), f, i)
            z = self.model.unembed(x, self.vocabulary, normed=True, predicts=[len(ids) + i] * len(rows))
            return rankings_of(z, self.vocabulary)

        return by_depth(paths, parents, ids[-1], ranked)[0]


class TreeEncoder:
    """The full context encoder over one tree, depth by depth: a row sees the T true states of the text, what was
    foreseen for the rows above it, and itself."""

    def __init__(self, layer: Any, k: Tensor | None, v: Tensor | None, sees_drafts: bool) -> None:
        """k, v [H, T, e]: keys and values of the true states."""
        assert k is not None and v is not None  # the text was read
        self.layer, self.k, self.v, self.T, self.sees_drafts = layer, k, v, k.shape[1], sees_drafts
        self.at_key: dict[int, list[int]] = {-1: []}  # row -> places of its f and of those above it among the keys

    def looks(self, g: Tensor, rows: Sequence[int], parents: Sequence[int], i: int) -> list[Tensor]:
        """Of rows of depth i with the vectors g [n, d]: the attention of each [T + what it sees above it + 1]."""
        at = torch.full((len(rows),), self.T + i, device=g.device)
        own = self.layer.seen(g, at)[0]
        return [
            self.layer.looks(g[j : j + 1], at[:1], torch.cat([self._above(row, parents), own[:, j : j + 1]], 1))[0]
            for j, row in enumerate(rows)
        ]

    def _above(self, row: int, parents: Sequence[int]) -> Tensor:
        return self.k[:, [*range(self.T), *self.at_key[parents[row]]]]

    def foresee(self, g: Tensor, rows: Sequence[int], parents: Sequence[int], i: int) -> Tensor:
        """The states [n, d] that are foreseen at rows of depth i with the vectors g [n, d]; rows below them see these
        from then on."""
        at = torch.full((len(rows),), self.T + i, device=g.device)
        own, m = self.layer.seen(g, at), self.k.shape[1]
        sees = torch.zeros(len(rows), m + len(rows), dtype=torch.bool, device=g.device)
        sees[:, : self.T] = True
        for j, row in enumerate(rows):
            sees[j, [*self.at_key[parents[row]], m + j]] = True
        f: Tensor = self.layer(g, at, torch.cat([self.k, own[0]], 1), torch.cat([self.v, own[1]], 1), sees)
        for j, row in enumerate(rows):
            self.at_key[row] = [*self.at_key[parents[row]], m + j] if self.sees_drafts else []
        self.k, self.v = (torch.cat(pair, 1) for pair in zip((self.k, self.v), self.layer.seen(f, at), strict=True))
        return f


def run_of(ids: Sequence[int], path: Sequence[int]) -> list[int]:
    """The last W tokens of the text with a path of guesses behind it; a short text repeats its first token."""
    line = [*ids[-WINDOW:], *path]
    return [*[ids[0]] * (WINDOW - len(line)), *line][-WINDOW:]


SHOWN = 5  # tokens of a ranking


class Reading(Record):
    """What is ranked after each row with a window of some length, and where the encoder looked."""

    rankings: list[Ranking]
    # [rows, T + K]: the true states of the text, what was foreseen for the rows above, itself; the mean of the heads,
    # in steps of 1/254, missing where a row does not see
    attention: Packed


class Fusing(Record):
    """Tokens and states that were fused at each row of the tree which the drafter went on from."""

    window: int  # W of the run
    rows: list[int]  # of the tree
    readings: list[Reading]  # with windows of 1, 2 and 3 tokens
    cosines: list[float | None]  # of each row's foreseen state with the true one, where it became known


def fusing_of(drafter: Drafter, model: Any, iteration: Turn, true: Tensor) -> Fusing | None:
    """The record of a turn, None where nothing was drafted. model: on a meter that no run reads. true [n, d]: the last
    states of the tree's rows."""
    draft = iteration.draft
    if len(draft) == 1:
        return None
    rows, kept = sorted(set(draft.parents[1:])), set(iteration.verdict.path)
    cosines = [
        float(torch.nn.functional.cosine_similarity(drafter.foreseen[row], true[row].float(), dim=-1))
        if row in kept
        else None
        for row in rows
    ]
    readings = [_reading(drafter, model, iteration, rows, window) for window in range(1, WINDOW + 1)]
    return Fusing(drafter.p.window, rows, readings, [None if c is None else round(c, 5) for c in cosines])


def _reading(drafter: Drafter, model: Any, iteration: Turn, rows: list[int], window: int) -> Reading:
    draft, ids, net = iteration.draft, iteration.before, drafter.net
    encoder, depths = TreeEncoder(net.layer, *drafter.seen, drafter.p.sees_drafts), draft.depths()
    T, K = drafter.seen[0].shape[1], 1 + max(depths[row] for row in rows)
    attention = torch.full((len(rows), T + K), torch.nan)
    rankings: dict[int, Ranking] = {}
    for i in range(K):
        level = [row for row in rows if depths[row] == i]
        tokens = [token for row in level for token in run_of(ids, draft.path(row))]
        g = net.encoded(model.embed(tokens).unflatten(0, (len(level), WINDOW)), window)
        for row, looks in zip(level, encoder.looks(g, level, draft.parents, i), strict=True):
            at = [*range(T), *(range(T, T + i) if drafter.p.sees_drafts else ()), T + i]
            attention[rows.index(row), at] = looks.cpu()
        f = encoder.foresee(g, level, draft.parents, i)
        x = net.predicted(drafter.last.expand(len(level), -1), f, i)
        z = model.unembed(x, drafter.vocabulary, normed=True, predicts=[len(ids) + i] * len(level))
        rankings |= zip(level, rankings_of(z, drafter.vocabulary), strict=True)
    return Reading([rankings[row].rounded(SHOWN) for row in rows], pack(attention.numpy(), 0, 1))
