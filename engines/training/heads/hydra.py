"""Trains Hydra's heads for a model: python -m engines.training hydra-heads MODEL

Head i reads the model's last state h, its next token and the i tokens behind that one, and learns what the model says
next (arXiv 2402.05109; zankner/Hydra, train/train.py). The model is frozen and never run: texts, states and teacher
come from the text cache that Medusa's heads learn from; the tokens on the path are those of the text. Each head starts
as the ridge regression to the state i + 1 places ahead; then R, W and b learn by soft cross-entropy with the teacher's
distribution, the sum over the heads.

We depart in: the linear path R, three heads of one layer, a learning rate for a small model, no prefix layer, dropout
or noise (these are Hydra++), and a draft vocabulary where the model's is large."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from engines.methods.heads import hydra, medusa
from engines.models.networks.hydra_heads import HydraHeads
from engines.training.core.commands import Command
from engines.training.core.loop import Loss
from engines.training.core.text_cache import Teacher, Text, TextCache, soft_cross_entropy
from engines.training.heads.drafters import RANKS, DraftTraining, command, embeddings, hits, scale, tokens_per_call
from engines.training.heads.medusa import ridge

HEADS = 3


class HydraTraining(DraftTraining):
    """All heads on the same texts; E [V, d] are the model's embeddings."""

    learning_rate = 3e-4
    kind = "Hydra heads"
    facts = {"heads": HEADS}  # noqa: RUF012

    def __init__(self, name: str, model: Any, cache: TextCache, teacher: Teacher, seed: int) -> None:
        self.E, self.layers = embeddings(model), (max(cache.layers),)
        super().__init__(name, HydraHeads(HEADS, self.E.shape[1], scale(self.E)), cache, teacher, seed)

    def _inputs(self, text: Text, i: int) -> tuple[Tensor, Tensor, Tensor]:
        """Rows [m] on which head i has an answer's token to foresee, its states [m, d] and embeddings [m, i + 1, d]."""
        at = torch.tensor(text.rows(i + 1), dtype=torch.long)
        tokens = text.tokens[at[:, None] + 1 + torch.arange(i + 1)]
        return at, text.hidden[self.last][at].float(), self.E[tokens]

    def start(self) -> None:
        """R of every head by ridge regression on the first texts."""
        texts, heads = self.first_texts(), self.network
        assert isinstance(heads, HydraHeads)
        for i, R in enumerate(heads.R):
            pairs = []
            for text in texts:
                at, h, e = self._inputs(text, i)
                pairs.append((heads.inputs(h, e), text.hidden[self.last][at + i + 1].float()))
            x, y = (torch.cat(side) for side in zip(*pairs, strict=True))
            R.data.copy_(ridge(x, y))

    def loss(self, batch: list[Text]) -> Loss:
        """The sum over the heads, each the mean over its rows."""
        values, count = [], 0
        for i in range(HEADS):
            found = [(text, *self._inputs(text, i)) for text in batch]
            said = self.network(torch.cat([h for _, _, h, _ in found]), torch.cat([e for *_, e in found]))
            true = torch.cat([text.hidden[self.last][at + i + 1] for text, at, _, _ in found])
            if len(true):
                values.append(soft_cross_entropy(self.teacher.logits(said), self.teacher.logits(true)))
            count = max(count, len(true))
        return Loss(torch.stack(values).sum(), sum(len(text.tokens) for text in batch), count)

    @torch.inference_mode()
    def accuracy(self) -> tuple[Tensor, int]:
        """(a [HEADS, RANKS], rows): on held-out prompts, how often guess r of head i is the token that the text has,
        behind the text's own tokens."""
        self.network.eval()
        right, rows = torch.zeros(HEADS, RANKS), torch.zeros(HEADS, 1)
        for text in self.cache.texts(self.layers, held_out=True):
            for i in range(HEADS):
                at, h, e = self._inputs(text, i)
                right[i] += hits(self.teacher, self.network(h, e), text.tokens[at + i + 2])
                rows[i] += len(at)
        return right / rows.clamp(min=1), int(rows[0])


def calls(model: Any, asked: Sequence[list[int]]) -> dict[str, Any]:
    """Tokens per model call of these heads and of Medusa's, with trees of two sizes."""
    slugs = [one.decode.info.slug for one in (hydra, medusa)]
    found: dict[str, Any] = {}
    for slug in slugs:
        for n in (12, 3):
            found |= tokens_per_call(f"{slug}_{n}_nodes", slug, model, asked, {"nodes": n})
    return found


def commands() -> dict[str, Command]:
    """Hydra's heads of any layered model."""
    return command("hydra-heads", "MODEL's Hydra heads", str(__doc__), HydraTraining, calls)
