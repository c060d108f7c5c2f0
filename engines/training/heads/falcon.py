"""Trains Falcon's draft layers for a model: python -m engines.training falcon-layer MODEL

Row t reads the token t + 1 with the model's last state at t and learns the state at t + k, inside blocks of k rows that
see each other (Falcon, arXiv 2412.12639; Bestpay-inc/Falcon, train/glance.py). The model is frozen and never run:
texts, states and teacher come from the text cache that Medusa's heads and EAGLE's layer learn from. Three layers learn
from the same batches: k = 2 with coupled sequential glancing, k = 2 without, and k = 1. Glancing: a first pass without
gradient guesses; at lambda times as many places as it got wrong, drawn at random, the input is replaced by the
teacher's state and token k places on; the loss is that of a second pass on these inputs, over all rows of the answer.
lambda falls from 0.4 to 0.

We depart in: smooth L1 with weight 1 beside 0.9 of the soft and 0.1 of the hard cross-entropy (released: those with
0.1), the ridge start and the linear path that it fills, no noise on the states, borders of blocks at a random offset,
and a learning rate for a small model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import cross_entropy, smooth_l1_loss

from engines.methods.heads import eagle, falcon, medusa
from engines.models.networks.exits import Past
from engines.models.networks.falcon_layer import FalconLayer, visible
from engines.training.core.commands import Command
from engines.training.core.loop import Loss
from engines.training.core.text_cache import Teacher, Text, TextCache, soft_cross_entropy
from engines.training.heads.drafters import (
    PROMPTS,
    RANKS,
    DraftTraining,
    command,
    embeddings,
    hits,
    scale,
    tokens_per_call,
)
from engines.training.heads.medusa import ridge

LAYERS: Mapping[str, tuple[int, float]] = {"k2": (2, 0.4), "k2-unglanced": (2, 0.0), "k1": (1, 0.0)}  # k, lambda
LEVELS, HARD = 4, 0.1


class FalconTraining(DraftTraining):
    """The layers on whole texts; E [V, d] are the model's embeddings."""

    learning_rate = 1e-3
    kind = "Falcon's draft layers"
    facts = {"layers": list(LAYERS), "lambda": LAYERS["k2"][1]}  # noqa: RUF012

    def __init__(self, name: str, model: Any, cache: TextCache, teacher: Teacher, seed: int) -> None:
        self.E, self.layers, self.share = embeddings(model), (max(cache.layers),), 0.0
        self.W = teacher.weight.float()  # [v, d]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            one = FalconLayer(self.E.shape[1], 3 * self.E.shape[1], scale(self.E))
        layers = nn.ModuleDict({key: FalconLayer(self.E.shape[1], 3 * self.E.shape[1]) for key in LAYERS})
        for layer in layers.values():
            layer.load_state_dict(one.state_dict())
        super().__init__(name, layers, cache, teacher, seed)
        self.rng = Generator().manual_seed(seed)

    def batch(self, share: float) -> list[Text]:
        """The next texts with a place to foresee; `share` of the training is done."""
        self.share, found = share, list[Text]()
        while len(found) < self.texts_per_step:
            found += [text for text in super().batch(share) if len(text.rows(2))]
        return found[: self.texts_per_step]

    def context(self) -> AbstractContextManager[Any]:
        """Float32: rows this short gain nothing from bfloat16."""
        return nullcontext()

    def inputs(self, layer: FalconLayer, text: Text) -> Tensor:
        """[n - 1, 2 d]: the token t + 1 with the state at t."""
        return layer.inputs(self.E[text.tokens[1:]], text.hidden[self.last][:-1].float())

    def start(self) -> None:
        """The linear path by ridge regression on the first texts."""
        texts = self.first_texts()
        for key, (k, _) in LAYERS.items():
            layer, pairs = self.layer(key), []
            for text in texts:
                at = torch.tensor(text.rows(k), dtype=torch.long)
                pairs.append((self.inputs(layer, text)[at], text.hidden[self.last][at + k].float()))
            x, y = (torch.cat(side) for side in zip(*pairs, strict=True))
            layer.fc.data.copy_(ridge(x, y))

    def layer(self, key: str) -> FalconLayer:
        """One of the layers."""
        assert isinstance(self.network, nn.ModuleDict)
        found = self.network[key]
        assert isinstance(found, FalconLayer)
        return found

    def said(self, layer: FalconLayer, z: Tensor, k: int, offset: int) -> Tensor:
        """Estimates [n, d] of rows with inputs z [n, 2 d]; the first block has `offset` rows."""
        n = len(z)
        sees = [*visible(min(offset, n), k), *visible(max(0, n - offset), k, offset)]
        mask = torch.arange(n) < torch.tensor(sees)[:, None]
        return layer.through(layer.mixed(z, layer.run(z[:, None])[0][:, 0]), sees=mask)

    def glanced(self, layer: FalconLayer, text: Text, k: int, offset: int, rate: float) -> tuple[Tensor, int]:
        """Inputs [n - 1, 2 d] with some places filled in by the teacher, and how many the first pass got wrong."""
        z = self.inputs(layer, text)
        at = torch.tensor(text.rows(k), dtype=torch.long)
        with torch.no_grad():
            guess = (self.said(layer, z, k, offset)[at] @ self.W.T).argmax(-1)
        wrong = int((guess != (text.hidden[self.last][at + k].float() @ self.W.T).argmax(-1)).sum())
        some = at[torch.randperm(len(at), generator=self.rng)[: round(rate * wrong)]]
        some = some[some + k < len(z)]
        shown = z.clone()
        shown[some] = z[some + k]
        return shown, wrong

    def loss(self, batch: list[Text]) -> Loss:
        """The sum over the layers of smooth L1 and cross-entropy, each the mean over its rows."""
        total, count, wrong = torch.zeros(()), 0, 0
        offsets = [int(torch.randint(2, (), generator=self.rng)) for _ in batch]
        for key, (k, most) in LAYERS.items():
            layer, rate, said, true, tokens = self.layer(key), most * (1 - self.share), [], [], []
            for text, offset in zip(batch, offsets, strict=True):
                z = self.inputs(layer, text)
                if rate > 0:
                    z, found = self.glanced(layer, text, k, offset % k, rate)
                    wrong += found
                at = torch.tensor(text.rows(k), dtype=torch.long)
                said.append(self.said(layer, z, k, offset % k)[at])
                true.append(text.hidden[self.last][at + k].float())
                tokens.append(text.tokens[at + k + 1])
            F, h = torch.cat(said), torch.cat(true)
            total = total + smooth_l1_loss(F, h) + self.surprise(F, h, torch.cat(tokens))
            count = max(count, len(F))
        return Loss(total, sum(len(text.tokens) for text in batch), count)

    def surprise(self, F: Tensor, h: Tensor, tokens: Tensor) -> Tensor:
        """0.9 of the soft cross-entropy with the teacher and 0.1 of the hard one with the text's tokens."""
        z = F @ self.W.T
        soft, known = soft_cross_entropy(z, h @ self.W.T), torch.isin(tokens, self.teacher.ids)
        if not known.any():
            return soft
        hard = cross_entropy(z[known], torch.searchsorted(self.teacher.ids, tokens[known]))
        return (1 - HARD) * soft + HARD * hard

    @torch.inference_mode()
    def accuracy(self) -> tuple[Tensor, int]:
        """(a [layers, 2 LEVELS, RANKS], rows): on the first held-out prompts, how often guess r of a level is the
        token that the text has, the tokens above it being those of the text. A layer with blocks of one has LEVELS."""
        right, rows = torch.zeros(len(LAYERS), 2 * LEVELS, RANKS), torch.zeros(len(LAYERS), 2 * LEVELS, 1)
        self.network.eval()
        for text in islice(self.cache.texts(self.layers, held_out=True), PROMPTS):
            for i, (key, (k, _)) in enumerate(LAYERS.items()):
                cuts, found = self.drafted(self.layer(key), text, k)
                for level, F in enumerate(found):
                    fit = cuts + level + 2 < len(text.tokens)
                    right[i, level] += hits(self.teacher, F[fit], text.tokens[cuts[fit] + level + 2])
                    rows[i, level] += int(fit.sum())
        return right / rows.clamp(min=1), int(rows[0, 0])

    def drafted(self, layer: FalconLayer, text: Text, k: int) -> tuple[Tensor, list[Tensor]]:
        """Rows t [c] of the answer, and for each level of a draft behind token t + 1 the states [c, d] that LEVELS
        passes foresee, from the true tokens and, behind the first pass, the layer's own states. All rows at once."""
        z, past, states = self.inputs(layer, text), Past(), []
        n, state, given = len(z), None, []
        for row in z[:, None]:
            r, state = layer.run(row[None], state)
            given.append(r[0, 0])
            states.append(state)
        x, t = layer.mixed(z, torch.stack(given)), torch.tensor([t for t in text.rows(1) if t + 1 >= k])
        layer.through(x, past)  # keys and values of the rows of text, which see what they see
        c, found = len(t), list[Tensor]()
        block = (t[:, None] - k + 1 + torch.arange(k)).flatten()  # [c k]: the last k rows up to each t
        sees = torch.arange(n) <= t.repeat_interleave(k)[:, None]
        own = torch.zeros(c * k, 0, dtype=torch.bool)
        F = layer.through(x[block], past, block, torch.cat([sees, own, torch.zeros(c * k, c * k).bool()], 1))
        own = torch.zeros(c * k, c * k, dtype=torch.bool)
        h, cell = (torch.cat([states[i][side] for i in t.tolist()], 1) for side in (0, 1))
        blocks = torch.block_diag(*[torch.ones(k, k)] * c).bool()
        for turn in range(LEVELS):
            F = F.unflatten(0, (c, k))
            found += list(F.unbind(1))
            if turn == LEVELS - 1:
                break
            ahead = (t[:, None] + 2 + turn * k + torch.arange(k)).clamp(max=len(text.tokens) - 1)  # [c, k]
            u = layer.inputs(self.E[text.tokens[ahead]].flatten(0, 1), F.flatten(0, 1)).unflatten(0, (c, k))
            r, (h, cell) = layer.run(u.transpose(0, 1), (h, cell))
            y = layer.mixed(u, r.transpose(0, 1)).flatten(0, 1)
            at = (t[:, None] + 1 + turn * k + torch.arange(k)).flatten()
            F = layer.through(y, past, at, torch.cat([sees, own, blocks], 1))
            own = torch.cat([own, blocks], 1)
        return t, found


def calls(model: Any, asked: Sequence[list[int]]) -> dict[str, Any]:
    """Tokens per model call of 12 nodes with each layer, and of the controls with as many."""
    own, found = falcon.decode.info.slug, dict[str, Any]()
    for key, params in {
        "k2_2_passes": {"k": 2, "m": 2},
        "k2_unglanced_2_passes": {"k": 2, "m": 2, "glancing": False},
        "k1_2_passes": {"k": 1, "m": 2},
        "k1_4_passes": {"k": 1, "m": 4},
    }.items():
        found |= tokens_per_call(key, own, model, asked, params)
    for control in (eagle, medusa):
        slug = control.decode.info.slug
        found |= tokens_per_call(f"{slug}_12_nodes", slug, model, asked)
    return found


def commands() -> dict[str, Command]:
    """Falcon's draft layers of any layered model."""
    return command("falcon-layer", "MODEL's draft layers (Falcon)", str(__doc__), FalconTraining, calls)
