"""Trains Clover's drafter for a model: python -m engines.training clover-drafter MODEL

An augmenting block reads the model's last states; from its state at t the drafter goes on for three places, reads the
text's own token at each, and learns what the model says behind it (arXiv 2405.00263). The model is frozen and never
run: texts, states and teacher come from the text cache that Medusa's heads learn from. The recurrence starts as the
ridge regression from a state and the token behind it to the next state; then all of it learns by soft cross-entropy
with the teacher's distribution, the mean over the depths with weights 1, 0.8, 0.64.

Beside it, on the same batches, the control learns: Medusa's heads behind the same kind of block, which do not know what
was guessed. No code of the paper is public; wiring, the linear path and these figures are our design."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from engines.methods.heads import clover, hydra, medusa
from engines.models.networks.clover_drafter import CONTROL, OWN, BlockHeads, CloverDrafter, drafter_of
from engines.models.networks.exits import scaled
from engines.models.parts import folder_of
from engines.training.core.commands import Command
from engines.training.core.loop import Loss
from engines.training.core.text_cache import Teacher, Text, TextCache, soft_cross_entropy
from engines.training.core.weights import read_weights
from engines.training.heads.drafters import LARGEST, RANKS, DraftTraining, command, embeddings, hits, tokens_per_call
from engines.training.heads.medusa import ridge
from engines.training.heads.packing import Packed, packed

NAME = "clover-drafter"
DEPTHS, FALL = 3, 0.8
LINKED, UNLINKED = OWN.rstrip("."), CONTROL.rstrip(".")  # names of the two networks


class CloverTraining(DraftTraining):
    """Drafter and control on the same texts; E [V, d] are the model's embeddings."""

    learning_rate = 5e-4
    kind = "Clover's drafter"
    as_int8 = True

    def __init__(self, name: str, model: Any, cache: TextCache, teacher: Teacher, seed: int) -> None:
        self.E, self.layers = embeddings(model), (max(cache.layers),)
        d = self.E.shape[1]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            both = nn.ModuleDict({LINKED: CloverDrafter(DEPTHS, d, 2 * d), UNLINKED: BlockHeads(DEPTHS, d, 2 * d)})
        super().__init__(name, both, cache, teacher, seed)
        own, control = (sum(one.numel() for one in net.parameters()) for net in both.values())
        self.facts = {"depths": DEPTHS, "parameters_of_the_drafter": own, "parameters_of_the_control": control}

    def start(self) -> None:
        """A and T by ridge regression on the first texts; for the control P of every head."""
        texts, own, control = self.first_texts(), self.network[LINKED], self.network[UNLINKED]
        d = self.E.shape[1]
        for i in range(DEPTHS):
            x, y = [], []
            for text in texts:
                at, h = torch.tensor(text.rows(i + 1), dtype=torch.long), text.hidden[self.last].float()
                x.append(torch.cat([h[at], scaled(self.E[text.tokens[at + 1]])], -1))
                y.append(h[at + i + 1])
            X, Y = torch.cat(x), torch.cat(y)
            control.P[i].data.copy_(ridge(X[:, :d], Y))
            if i == 0:
                R = ridge(X, Y)
                own.A.data.copy_(R[:, :d])
                own.T.data.copy_(R[:, d:])

    def drafted(self, net: nn.Module, batch: Packed) -> list[tuple[Tensor, Tensor]]:
        """For each depth i: (states [m, d] before the output head, their rows t in the batch), behind the batch's own
        tokens t + 1 ... t + 1 + i."""
        k, v = net.block.seen(batch.h, batch.at)
        a = net.block(batch.h, batch.at, k, v, batch.sees)
        rows, found = batch.rows(1), []
        M = a[rows][:, None]
        for i in range(DEPTHS):
            left = batch.left[rows] > i + 1
            rows, M = rows[left], M[left]
            M, _ = net.onward(M, self.E[batch.tokens[rows + 1 + i]])
            found.append((net.predicted(M[:, -1], i), rows))
        return found

    def loss(self, batch: list[Text]) -> Loss:
        """The weighted mean over the depths, of drafter and control together."""
        one, values, count = packed(batch, self.last), [], 0
        wanted: list[Tensor] = []
        for net in self.network.values():
            for i, (x, rows) in enumerate(self.drafted(net, one)):
                if len(wanted) == i:
                    wanted.append(self.teacher.logits(one.h[rows + i + 1]))
                values.append(FALL**i * soft_cross_entropy(self.teacher.logits(x), wanted[i]))
                count = max(count, len(rows))
        total = torch.stack(values).sum() / sum(FALL**i for i in range(DEPTHS))
        return Loss(total, len(one.tokens), count)

    def accuracy(self) -> tuple[Tensor, int]:
        """(a [DEPTHS, RANKS], rows) of the drafter: on held-out prompts, how often guess r of depth i is the token that
        the text has, behind the text's own tokens."""
        return self._right(LINKED)

    @torch.inference_mode()
    def _right(self, name: str) -> tuple[Tensor, int]:
        self.network.eval()
        right, rows = torch.zeros(DEPTHS, RANKS), torch.zeros(DEPTHS, 1)
        for text in self.cache.texts(self.layers, held_out=True):
            if not len(text.rows(1)):
                continue
            one = packed([text], self.last)
            for i, (x, at) in enumerate(self.drafted(self.network[name], one)):
                right[i] += hits(self.teacher, x, one.tokens[at + i + 2])
                rows[i] += len(at)
        return right / rows.clamp(min=1), int(rows[0])

    def marks(self) -> dict[str, Tensor]:
        """First guesses of the control that are right."""
        return {"rank_1_of_the_control": self._right(UNLINKED)[0][:, 0]}

    def tensors(self) -> dict[str, Tensor]:
        """Also the control's accuracies, from which its tree is built; the drafter alone where both together would be
        too large for the repository."""
        both = super().tensors() | {f"{CONTROL}accuracy": self._right(UNLINKED)[0]}
        if sum(one.numel() for one in self.network.parameters()) <= LARGEST:
            return both
        return {name: one for name, one in both.items() if not name.startswith(CONTROL)}


def calls(model: Any, asked: Sequence[list[int]]) -> dict[str, Any]:
    """Tokens per model call of Clover, of the control without its link where it ships, and of Medusa's and Hydra's
    heads, with trees of two sizes."""
    own, heads = clover.decode.info.slug, [one.decode.info.slug for one in (medusa, hydra)]
    tensors, found = read_weights(folder_of(NAME, model.record.name)), dict[str, Any]()
    for n in (12, 3):
        found |= tokens_per_call(f"{own}_{n}_nodes", own, model, asked, {"nodes": n})
        if drafter_of(tensors, link=False):
            found |= tokens_per_call(f"control_{n}_nodes", own, model, asked, {"nodes": n, "link": False})
        for slug in heads:
            found |= tokens_per_call(f"{slug}_{n}_nodes", slug, model, asked, {"nodes": n})
    return found


def commands() -> dict[str, Command]:
    """Clover's drafter of any layered model."""
    return command(NAME, "MODEL's drafter (Clover)", str(__doc__), CloverTraining, calls)
