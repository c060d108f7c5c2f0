"""Trains EAGLE's draft layer for a model: python -m engines.training eagle-layer MODEL

One decoder layer reads the token behind row t and the model's last state at t, and learns that state at t + 1 (EAGLE-1,
arXiv 2401.15077; SafeAILab/EAGLE, train/main.py). The model is frozen and never run: texts, states and teacher come
from the text cache that Medusa's heads learn from. The layer's first map starts as the ridge regression to the state
one place on; then all of it learns by smooth L1 to the true state and soft cross-entropy of what the output head says
of it.

We depart in: both losses with weight 1 (released: the cross-entropy with 0.1), a learning rate for a small model, no
noise on the states, the ridge start, attention that reads rows at one scale, and a draft vocabulary where the model's
is large."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import smooth_l1_loss

from engines.methods.heads import eagle, medusa
from engines.models.networks.eagle_layer import EagleLayer
from engines.models.networks.exits import Past
from engines.training.core.commands import Command
from engines.training.core.loop import Loss
from engines.training.core.text_cache import Teacher, Text, TextCache, soft_cross_entropy
from engines.training.heads.drafters import RANKS, DraftTraining, command, embeddings, hits, scale, tokens_per_call
from engines.training.heads.medusa import ridge

DEPTHS = 3


class EagleTraining(DraftTraining):
    """The layer on whole texts; E [V, d] are the model's embeddings."""

    learning_rate = 5e-4
    kind = "EAGLE's draft layer"

    def __init__(self, name: str, model: Any, cache: TextCache, teacher: Teacher, seed: int) -> None:
        E = embeddings(model)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            layer = EagleLayer(E.shape[1], 3 * E.shape[1], scale(E))
        self.E, self.layers = E, (max(cache.layers),)
        super().__init__(name, layer, cache, teacher, seed)

    def _inputs(self, text: Text) -> tuple[Tensor, Tensor]:
        """Embeddings of the tokens 1 ... and the states one place before them, each [n - 1, d]."""
        return self.E[text.tokens[1:]], text.hidden[self.last][:-1].float()

    def start(self) -> None:
        """The first map by ridge regression on the first texts."""
        layer, pairs = self.network, []
        assert isinstance(layer, EagleLayer)
        for text in self.first_texts():
            at = torch.tensor(text.rows(1), dtype=torch.long)
            pairs.append((layer.inputs(*self._inputs(text))[at], text.hidden[self.last][at + 1].float()))
        x, y = (torch.cat(side) for side in zip(*pairs, strict=True))
        layer.fc.data.copy_(ridge(x, y))

    def loss(self, batch: list[Text]) -> Loss:
        """Smooth L1 and soft cross-entropy, each the mean over the rows."""
        said, true = [], []
        for text in batch:
            at = torch.tensor(text.rows(1), dtype=torch.long)
            said.append(self.network(*self._inputs(text))[at])
            true.append(text.hidden[self.last][at + 1].float())
        F, h = torch.cat(said), torch.cat(true)
        value = smooth_l1_loss(F, h) + soft_cross_entropy(self.teacher.logits(F), self.teacher.logits(h))
        return Loss(value, sum(len(text.tokens) for text in batch), len(F))

    @torch.inference_mode()
    def accuracy(self) -> tuple[Tensor, int]:
        """(a [DEPTHS, RANKS], rows): on held-out prompts, how often guess r is the token that the text has, when the
        layer has gone on from its own states for 1, 2, ... places and read the true tokens."""
        right, rows = torch.zeros(DEPTHS, RANKS), torch.zeros(DEPTHS, 1)
        self.network.eval()
        for text in self.cache.texts(self.layers, held_out=True):
            for j, F in enumerate(self.rolled(text)):
                at = torch.tensor(text.rows(j + 1), dtype=torch.long)
                right[j] += hits(self.teacher, F[at], text.tokens[at + j + 2])
                rows[j] += len(at)
        return right / rows.clamp(min=1), int(rows[0])

    def rolled(self, text: Text) -> list[Tensor]:
        """States [n - 1, d] after 1, 2, ... DEPTHS places, from every row t of the text at once: row t of list entry j
        saw the true rows up to t and its own j before it. Where the text is over it reads token 0, and is not used."""
        past, (e, h) = Past(), self._inputs(text)
        n = len(e)
        F, found = self.network(e, h, past), []
        own, true = torch.eye(n, dtype=torch.bool), torch.ones(n, n).tril().bool()
        for j in range(DEPTHS):
            found.append(F)
            if j < DEPTHS - 1:
                ahead = torch.arange(n) + j + 2
                token = text.tokens[ahead.clamp(max=len(text.tokens) - 1)]
                sees = torch.cat([true, *[own] * (j + 1)], 1)
                F = self.network(self.E[token], F, past, torch.arange(n) + j + 1, sees)
        return found


def calls(model: Any, asked: Sequence[list[int]]) -> dict[str, Any]:
    """Tokens per model call of tree and chain, and of Medusa's heads with trees of two sizes."""
    own, control = eagle.decode.info.slug, medusa.decode.info.slug
    return {
        **tokens_per_call("tree_12_nodes", own, model, asked),
        **tokens_per_call("chain_of_4", own, model, asked, {"top_k": 1}),
        **tokens_per_call(f"{control}_12_nodes", control, model, asked),
        **tokens_per_call(f"{control}_3_nodes", control, model, asked, {"nodes": 3}),
    }


def commands() -> dict[str, Command]:
    """EAGLE's draft layer of any layered model."""
    return command("eagle-layer", "MODEL's draft layer (EAGLE)", str(__doc__), EagleTraining, calls)
