"""Chimera: a drafter that fuses all tokens (Zeng et al., arXiv:2402.15758; code kafkayu/Chimera,
model/Chimera_model.py).

Short range first: the embeddings of the last three tokens go through a small network (the trigram encoder), one vector
for each run of three. Then one transformer layer (the full context encoder) reads that vector together with the model's
own last hidden states of the whole text and foresees the hidden state there. A head for each depth joins it with the
last true state and ranks the next guess. A tree of guesses is verified in one forward.

We depart from the released code in: heads that end in the model's own output head; token encoder and heads begin as
ridge regressions; a row sees those of the guesses above it, as the paper says (in the code a sign hides them; there is
a switch); rows of older tokens are not read again, their states are there; the tree comes from accuracies on held-out
text; a draft vocabulary where the model's is large; exact verification above temperature 0.

Letters: h the model's last states, g the vector of a run of tokens, f what the encoder foresees, W tokens of a run, K
heads A_i, T rows of text with true states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from engines.kit import (
    Bool,
    Int,
    Params,
    Recorder,
    Roles,
    Steps,
    max_new_tokens,
    method,
    part,
    top_ids,
    torch,
)
from engines.methods.heads._template import Path, likeliest, parents_of
from engines.methods.speculative._turn import EMITS, LANES, Target, Turn, temperature
from engines.methods.speculative._verify import Draft

if TYPE_CHECKING:
    from torch import Tensor

RANKS = 10  # guesses of each head
WINDOW = 3  # tokens of the longest run


@method(
    "chimera",
    title="Chimera",
    family="heads",
    paper="arXiv:2402.15758",
    code="https://github.com/kafkayu/Chimera",
    summary="Guesses from the last three tokens and from one layer over the model's own states of the whole text.",
    needs={"target": "layered", "drafter": part("chimera-drafter")},
    params=[
        max_new_tokens(64),
        Int("nodes", 12, 0, 63, neutral=0, source="25 in the code"),
        Int("K", 3, 1, 3, symbol="K", source="4 in the code"),
        Int("window", 3, 1, 3, symbol="W", source="3 in the code"),
        Bool("sees_drafts", True, source="on in the paper, off in the code"),
        temperature(),
    ],
    signature="tree",
    emits=EMITS - {"intervals"},
    lanes=LANES | {"attention": "score", "foreseen": "score"},
    baseline="greedy",
    lossless=True,
)
def decode(models: Roles, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """The encoder's keys of true states grow by the accepted tokens and one, behind the verification. A turn without
    all of them (the first, and after a person's change) reads the text and drafts nothing."""
    from engines.models.networks.chimera_drafter import drafter_of  # it needs torch, which listing does not load

    model, n = models.target, models.target.num_layers
    drafter = Drafter(model.playing("draft"), drafter_of(models.drafter), models.drafter.tensors.get("vocabulary"), p)
    accuracy = models.drafter.tensors["accuracy"][p.window - 1][: p.K].tolist()  # [K][RANKS]
    paths, parents = parents_of(path for path, _ in likeliest(accuracy, p.nodes))
    target, ids, ready = Target(model, prompt, p, rows=len(paths)), prompt, False
    while target.unfinished(ids):
        drafter.begin()
        draft, known = Draft(ids[-1], "draft"), paths[:1]
        if ready and len(paths) > 1:
            deepest = min(target.room(ids), (model.max_positions or target.end) - len(ids))
            known = [path for path in paths if len(path) <= deepest]
            draft = drafter.grown(known, parents[: len(known)], ids)
        base = target.cache.length
        turn = target.verify(ids, draft, run.rng, hidden=(n,))
        h = torch.cat([turn.hidden_chain[n], turn.hidden[n][turn.verdict.path]])[: target.cache.length - base]
        drafter.read(h)
        ranks = [path[-1] if path else -1 for path in known]
        size = "" if ready else f" {models.drafter.parameters:,} trained parameters draft from here on."
        groups = dict(turn.groups(ranks))
        cosines, groups["scores"] = lanes_of(turn, drafter, n, groups["scores"])
        facts = turn.facts(heads=max(map(len, known)), runs_seen_before=drafter.hits, **cosines)
        edit = yield run.step(**groups, facts=facts, note=turn.note() + size)
        ids = run.apply_edit(edit, turn.ids, target.cache)
        drafter.past.crop(target.cache.length)
        ready = ids == turn.ids


def lanes_of(turn: Turn, drafter: Drafter, n: int, scores: Any) -> tuple[dict[str, float], Any]:
    """What became known of the foreseen states of rows that were kept: their mean cosine with the true ones; and the
    score lanes with the encoder's attention and these cosines."""
    rows = [row for row in turn.verdict.path if row in drafter.foreseen]
    if not rows or drafter.looks is None:
        return {}, scores
    f, h = torch.stack([drafter.foreseen[row] for row in rows]), turn.hidden[n][rows].float()
    cosines, looks = torch.nn.functional.cosine_similarity(f, h, dim=-1), drafter.looks
    start = len(turn.before) - 1
    more = {
        "attention": (list(range(len(looks))), looks),
        "foreseen": (list(range(start, start + len(rows))), cosines),
    }
    return {"cosine_of_foreseen_states": float(cosines.mean())}, lambda: {**scores(), **more}


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
        self.hits += sum(trigram in self.known for trigram in runs)
        if new := sorted({trigram for trigram in runs if trigram not in self.known}):
            e = self.model.embed([token for trigram in new for token in trigram]).unflatten(0, (len(new), WINDOW))
            self.known |= dict(zip(new, self.net.encoded(e, self.p.window), strict=True))
        return torch.stack([self.known[trigram] for trigram in runs])

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
            tokens = best if self.vocabulary is None else self.vocabulary[best]
            tokens = dict(zip(rows, tokens.tolist(), strict=True))
            chances = dict(zip(rows, z.softmax(-1).gather(-1, best).tolist(), strict=True))
            for row, path in enumerate(paths):
                if len(path) == i + 1:
                    above, r = parents[row], path[-1]
                    node = draft.add(above, tokens[above][r], chances[above][r])
                    draft.taken(node, "head", f"head {i + 1}")
        return draft


def run_of(ids: Sequence[int], path: Sequence[int]) -> list[int]:
    """The last W tokens of the text with a path of guesses behind it; a short text repeats its first token."""
    line = [*ids[-WINDOW:], *path]
    return [*[ids[0]] * (WINDOW - len(line)), *line][-WINDOW:]


if __name__ == "__main__":
    from engines.kit import show

    show("chimera", "tiny-ar-l", "add: 457 + 86")
