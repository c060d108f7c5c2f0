"""Trains Chimera's drafter for a model: python -m engines.training chimera-drafter MODEL

Behind the model's last states h of a text, rows of the last three tokens are read at the next three places, one depth
after the other, and head i learns what the model says there (arXiv 2402.15758; kafkayu/Chimera, chimera/train.py). The
model is frozen and never run: texts, states and teacher come from the text cache that Medusa's heads learn from. The
token encoder and the heads start as ridge regressions; then all learns by soft cross-entropy with the teacher's
distribution, the mean over the heads, and a tenth of smooth L1 of f to the true state.

We depart in: the text's own tokens on the path (released: the drafter's own first guesses), heads that end in the
model's output head, a row that sees the rows of earlier guesses (in the code a sign hides them) in three of four
batches, and windows of 3, 2 and 1 tokens drawn for each row with chances 1/2, 1/4 and 1/4, so that the same weights can
be asked with each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import smooth_l1_loss

from engines.methods.heads import chimera, hydra, medusa
from engines.models.networks.chimera_drafter import WINDOW, ChimeraDrafter
from engines.training.core.commands import Command
from engines.training.core.loop import Loss
from engines.training.core.text_cache import Teacher, Text, TextCache, soft_cross_entropy
from engines.training.heads.drafters import RANKS, DraftTraining, command, embeddings, hits, tokens_per_call
from engines.training.heads.medusa import ridge
from engines.training.heads.packing import Packed, packed

HEADS, L1 = 3, 0.1


class ChimeraTraining(DraftTraining):
    """All heads on the same texts; E [V, d] are the model's embeddings."""

    learning_rate = 5e-4
    kind = "Chimera's drafter"
    facts = {"heads": HEADS, "windows": [1, 2, 3]}  # noqa: RUF012
    as_int8 = True

    def __init__(self, name: str, model: Any, cache: TextCache, teacher: Teacher, seed: int) -> None:
        self.E, self.layers = embeddings(model), (max(cache.layers),)
        d = self.E.shape[1]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            drafter = ChimeraDrafter(HEADS, d, 2 * d)
        super().__init__(name, drafter, cache, teacher, seed)

    def _windows(self, batch: Packed, at: Tensor) -> Tensor:
        """Embeddings [m, W, d] of the runs of tokens that end at rows `at` [m]; a run stops at its text's first
        token, which it repeats."""
        back = torch.arange(WINDOW - 1, -1, -1)
        return self.E[batch.tokens[torch.maximum(at[:, None] - back, (at - batch.at[at])[:, None])]]

    def start(self) -> None:
        """G and head 0 by one ridge regression on the first texts, the other heads by one each on what G makes."""
        drafter = self.network
        assert isinstance(drafter, ChimeraDrafter)
        one = packed(self.first_texts(), self.last)
        for i in range(HEADS):
            rows = one.rows(i + 1)
            h, e = one.h[rows], self._windows(one, rows + 1 + i)
            x = drafter.inputs(e) if i == 0 else drafter.inputs(e) @ drafter.G.data.T
            R = ridge(torch.cat([h, x], -1), one.h[rows + i + 1])
            d = h.shape[1]
            if i == 0:
                drafter.G.data.copy_(R[:, d:])
                drafter.A[0].data[:, :d] = R[:, :d]
            else:
                drafter.A[i].data.copy_(R)

    def drafted(
        self, batch: Packed, windows: Sequence[int | Tensor], sees_drafts: bool
    ) -> list[tuple[Tensor, Tensor, Tensor]]:
        """For each head i: (states [m, d] before the output head, the encoder's f [m, d], their rows t in the batch),
        behind the batch's own tokens. windows: one of each depth, a number or one for each row that `rows(1)` has."""
        net: Any = self.network
        k, v = net.layer.seen(batch.h, batch.at)
        rows, found = batch.rows(1), []
        keys, values, sees = [k], [v], [batch.sees[rows]]
        own = torch.eye(len(rows), dtype=torch.bool)
        for i in range(HEADS):
            ok = batch.left[rows] > i + 1
            end = (rows + 1 + i).clamp(max=len(batch.tokens) - 1)  # rows whose text is over are dropped below
            g, at = net.encoded(self._windows(batch, end), windows[i]), batch.at[rows] + 1 + i
            mine = net.layer.seen(g, at)
            now = [torch.cat([*have, one], 1) for have, one in zip((keys, values), mine, strict=True)]
            f = net.layer(g, at, *now, torch.cat([*sees, own], 1))
            found.append((net.predicted(batch.h[rows[ok]], f[ok], i), f[ok], rows[ok]))
            if sees_drafts:
                for have, one in zip((keys, values), net.layer.seen(f, at), strict=True):
                    have.append(one)
                sees.append(own)
        return found

    def loss(self, batch: list[Text]) -> Loss:
        """The mean over the heads."""
        one = packed(batch, self.last)
        rng = torch.Generator().manual_seed(1_000_003 * self.seed + self.progress.step)
        m = len(one.rows(1))
        windows = [WINDOW - (torch.randint(4, (m,), generator=rng) - 1).clamp(min=0) for _ in range(HEADS)]
        sees_drafts = bool(torch.randint(4, (1,), generator=rng) > 0)
        values = []
        for i, (x, f, rows) in enumerate(self.drafted(one, windows, sees_drafts)):
            true = one.h[rows + i + 1]
            fit = soft_cross_entropy(self.teacher.logits(x), self.teacher.logits(true))
            values.append(fit + L1 * smooth_l1_loss(f, true))
        return Loss(torch.stack(values).mean(), len(one.tokens), m)

    def accuracy(self) -> tuple[Tensor, int]:
        """(a [WINDOW, HEADS, RANKS], rows): on held-out prompts and for windows of 1, 2 and 3 tokens, how often guess r
        of head i is the token that the text has, behind the text's own tokens."""
        return self._right(True)

    @torch.inference_mode()
    def _right(self, sees_drafts: bool) -> tuple[Tensor, int]:
        self.network.eval()
        right, rows = torch.zeros(WINDOW, HEADS, RANKS), torch.zeros(HEADS, 1)
        texts = [text for text in self.cache.texts(self.layers, held_out=True) if len(text.rows(1))]
        for begin in range(0, len(texts), 8):
            one = packed(texts[begin : begin + 8], self.last)
            for window in range(1, WINDOW + 1):
                for i, (x, _, at) in enumerate(self.drafted(one, [window] * HEADS, sees_drafts)):
                    right[window - 1, i] += hits(self.teacher, x, one.tokens[at + i + 2])
                    rows[i] += len(at) if window == 1 else 0
        return right / rows.clamp(min=1), int(rows[0])

    def marks(self) -> dict[str, Tensor]:
        """First guesses right where rows do not see those of earlier guesses."""
        return {"rank_1_without_earlier_rows": self._right(False)[0][..., 0]}


def calls(model: Any, asked: Sequence[list[int]]) -> dict[str, Any]:
    """Tokens per model call for each window and without the rows of earlier guesses, of Medusa's and Hydra's heads."""
    own, heads = chimera.decode.info.slug, [one.decode.info.slug for one in (medusa, hydra)]
    ways = [(f"{own}_window_{w}", own, {"window": w}) for w in (3, 2, 1)]
    ways += [(f"{own}_without_earlier_rows", own, {"sees_drafts": False}), (f"{own}_3_nodes", own, {"nodes": 3})]
    ways += [(f"{slug}_{n}_nodes", slug, {"nodes": n}) for slug in heads for n in (12, 3)]
    found: dict[str, Any] = {}
    for name, slug, params in ways:
        found |= tokens_per_call(name, slug, model, asked, params)
    return found


def commands() -> dict[str, Command]:
    """Chimera's drafter of any layered model."""
    return command("chimera-drafter", "MODEL's drafter (Chimera)", str(__doc__), ChimeraTraining, calls)
