"""Drafting in hidden states, row by row (EAGLE, arXiv 2401.15077; EAGLE-3, arXiv 2503.01840; MTP layers): a row is a
token's embedding and the state one place before it, and its output is the state of the row behind it.

What is shared by the methods that draft so: the text is read with the target's own states, a draft tree below it with
the drafter's, and after a round only rows of true states stay.

Letters: T rows of text that were read, n rows of a tree, k guesses of each row, d width of the drafter, D numbers of
the target's states for a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from engines.kit import top_ids, torch
from engines.methods.heads._confident_tree import Fan
from engines.models.exits import Past

if TYPE_CHECKING:
    from torch import Tensor

    from engines.methods.speculative._turn import Turn
    from engines.models.networks.eagle_layer import EagleLayer


class Rows(Protocol):
    """A drafter whose rows this module feeds. reads: the target's states that it reads, as `extend` numbers them."""

    reads: tuple[int, ...]
    length: int

    def states(self, hidden: Mapping[int, Tensor]) -> Tensor:
        """States [n, D] of the target for n rows."""
        ...

    def read(self, tokens: Sequence[int], S: Tensor) -> Tensor:
        """Outputs [n, d] of rows of text: each token with the target's state before it."""
        ...

    def grow(self, tokens: Sequence[int], before: Tensor, at: Tensor, sees: Tensor) -> Tensor:
        """Outputs [n, d] of rows of a tree: each token with the output before it [n, d], at positions [n]; sees
        [n, length + n]."""
        ...

    def logits(self, F: Tensor, predicts: Sequence[int]) -> Tensor:
        """Logits [n, v] of outputs."""
        ...

    def tokens(self, columns: Tensor) -> Tensor:
        """The target's tokens of columns of the logits."""
        ...

    def crop(self, length: int) -> None:
        """Forget the rows behind the first `length`."""
        ...


class Trained:
    """The layer that was trained here (`engines.models.networks.eagle_layer`), with the model's embeddings and head."""

    def __init__(self, model: Any, layer: EagleLayer, vocabulary: Tensor | None) -> None:
        """model: the target playing the draft."""
        self.model, self.layer, self.past = model, layer, Past()
        self.vocabulary = None if vocabulary is None else vocabulary.long().to(model.record.device)
        self.reads = (model.num_layers,)

    @property
    def length(self) -> int:
        """Rows that it holds."""
        return self.past.length

    def states(self, hidden: Mapping[int, Tensor]) -> Tensor:
        """See `Rows`."""
        return hidden[self.reads[0]]

    def read(self, tokens: Sequence[int], S: Tensor) -> Tensor:
        """See `Rows`."""
        return self.layer(self.model.embed(tokens), S, self.past)  # type: ignore[no-any-return]

    def grow(self, tokens: Sequence[int], before: Tensor, at: Tensor, sees: Tensor) -> Tensor:
        """See `Rows`."""
        return self.layer(self.model.embed(tokens), before, self.past, at, sees)  # type: ignore[no-any-return]

    def logits(self, F: Tensor, predicts: Sequence[int]) -> Tensor:
        """See `Rows`."""
        return self.model.unembed(F, self.vocabulary, normed=True, predicts=predicts)  # type: ignore[no-any-return]

    def tokens(self, columns: Tensor) -> Tensor:
        """See `Rows`."""
        return columns if self.vocabulary is None else self.vocabulary[columns]

    def crop(self, length: int) -> None:
        """See `Rows`."""
        self.past.crop(length)


class Published:
    """A published drafter (`engines.models.drafters`), counted for this run: its passes are the draft's work."""

    def __init__(self, drafter: Any) -> None:
        self.drafter, self.pasts, self.reads = drafter, drafter.pasts(), drafter.reads

    @property
    def length(self) -> int:
        """Rows that it holds."""
        return self.pasts.length  # type: ignore[no-any-return]

    def states(self, hidden: Mapping[int, Tensor]) -> Tensor:
        """See `Rows`."""
        return self.drafter.states(hidden)  # type: ignore[no-any-return]

    def read(self, tokens: Sequence[int], S: Tensor) -> Tensor:
        """See `Rows`; the states go through the drafter's projection, which those of a tree do not."""
        m, n, e = self.length, len(tokens), self.drafter.embed(tokens)
        at = torch.arange(m, m + n, device=S.device)
        sees = torch.arange(m + n, device=S.device)[None] <= at[:, None]

        def compute() -> Tensor:
            out: Tensor = self.drafter.rows(e, self.drafter.project(S), self.pasts, at, sees)
            return out

        return self.drafter.call(n, compute)  # type: ignore[no-any-return]

    def grow(self, tokens: Sequence[int], before: Tensor, at: Tensor, sees: Tensor) -> Tensor:
        """See `Rows`."""
        e, s = self.drafter.embed(tokens), self.drafter.fed_back(before)
        return self.drafter.call(  # type: ignore[no-any-return]
            len(tokens), lambda: self.drafter.rows(e, s, self.pasts, at, sees)
        )

    def logits(self, F: Tensor, predicts: Sequence[int]) -> Tensor:
        """See `Rows`."""
        return self.drafter.logits(self.drafter.spoken(F), predicts)  # type: ignore[no-any-return]

    def tokens(self, columns: Tensor) -> Tensor:
        """See `Rows`."""
        return self.drafter.tokens(columns)  # type: ignore[no-any-return]

    def crop(self, length: int) -> None:
        """See `Rows`."""
        self.pasts.crop(length)


class Drafter:
    """A drafter and the target's states of the text, S [T, D] with room behind them. known: how many there are, from
    the first token on; rows: those that went through it in this turn."""

    def __init__(self, rows: Rows) -> None:
        self.source, self.T, self.rows, self.known = rows, 0, 0, 0
        self.S: Tensor | None = None

    def ready(self, ids: Sequence[int]) -> bool:
        """Whether it knows a state for each token of the text but the last; else the target has to read it first."""
        return self.known > 0 and self.known == len(ids) - 1

    def learn(self, turn: Turn) -> None:
        """Take the target's states of a round: of the text that was fed with it, and of the accepted path."""
        path = turn.verdict.path
        for new in (turn.hidden_chain, {i: h[path] for i, h in turn.hidden.items()}):
            states = self.source.states(new)
            end = self.known + len(states)
            if self.S is None or end > len(self.S):
                room = states.new_empty(2 * end, states.shape[-1])
                if self.S is not None:
                    room[: self.known] = self.S[: self.known]
                self.S = room
            self.S[self.known : end], self.known = states, end

    def read(self, ids: Sequence[int], k: int) -> None:
        """Read what is new of the text: row t is the token t + 1 with the state at t. A tree below `ids` may follow,
        with k guesses of each node."""
        assert self.S is not None
        begin, self.end, self.k, self.T = self.source.length, len(ids), k, self.known
        self.F = self.source.read(ids[begin + 1 :], self.S[begin : self.T])[-1:]  # [1, d]: at the root
        self.rows, self.features = self.T - begin, {0: self.F[0]}
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
        self.known, self.rows = min(self.known, length), 0
        self.source.crop(max(0, min(length - 1, self.T)))
