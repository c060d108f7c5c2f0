"""Trains a block drafter for a model: python -m engines.training dflash-layers MODEL

Two layers fill a block of masks in one pass behind the model's states (DFlash, arXiv 2602.06036; z-lab/dflash). Every
position of an answer is an anchor: the block [its token, mask, mask ...] stands behind the true states before it, and
slot i learns what the model says of the token at i, with the weight exp(-(i - 1) / 4) (equation 4; NVIDIA's trainer,
Model-Optimizer, divides by 4 for a block of 8). All blocks of a text go through the layers at once, and none sees
another. The model is frozen and never run.

We depart in: the teacher's whole distribution instead of the text's token, every anchor instead of drawn ones, layers
that begin as the identity, a feed-forward part as wide as the stream, and a small model's learning rate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from engines.methods.heads import dflash, eagle
from engines.training.core.commands import Command
from engines.training.core.loop import Loss
from engines.training.core.text_cache import Teacher, Text, TextCache
from engines.training.heads.drafters import RANKS, DraftTraining, command, embeddings, tokens_per_call
from engines.training.heads.formats import Published, layer, sizes

READS, LAYERS, BLOCK, DECAY = (1, 3, 5), 2, 8, 4.0
MASK = 1  # <mask> of the tokenizer that our models share: it stands in no text


class DFlashTraining(DraftTraining):
    """The layers on whole texts. Letters: n tokens of a text, a anchors, b slots of a block with its anchor's."""

    kind = "DFlash's block drafter"
    begins = "untrained"
    reads = READS
    learning_rate = 1e-3

    def __init__(self, name: str, model: Any, cache: TextCache, teacher: Teacher, seed: int) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = self.made(model)
        self.drafter, self.E = network.drafter, embeddings(model)
        self.layers = tuple(sorted({*self.drafter.reads, max(cache.layers)}))
        self.weights_of_slots = torch.exp(-torch.arange(self.drafter.k) / DECAY)  # [b - 1]
        super().__init__(name, network, cache, teacher, seed)
        self.facts = {"config": network.config}

    @staticmethod
    def made(model: Any) -> Published:
        """Layers before their training: the context is a mean of the states."""
        d = model.model.config.hidden_size
        tensors = {
            "fc.weight": torch.cat([torch.eye(d) / len(READS)] * len(READS), 1),
            "hidden_norm.weight": torch.ones(d),
            "norm.weight": model.model.model.norm.weight.detach().clone(),
        }
        for i in range(LAYERS):
            at = f"layers.{i}."
            tensors |= {**layer(at, d, d, q_norm=64), f"{at}input_layernorm.weight": torch.ones(d)}
        held = {"mask_token_id": MASK, "target_layer_ids": [i - 1 for i in READS]}
        more = {"model_type": "qwen3", "head_dim": 64, "num_hidden_layers": LAYERS}
        config = {**sizes(model, d, **more), "block_size": BLOCK, "dflash_config": held}
        return Published(config, tensors, model)

    def start(self) -> None:
        """It begins as `made` says."""

    @staticmethod
    def anchors(text: Text) -> Tensor:
        """Positions [a] of the answer with a token behind them."""
        return torch.arange(text.prompt, len(text.tokens) - 1)

    def filled(self, text: Text, anchors: Tensor) -> Tensor:
        """What the head reads of the slots [a, b - 1, d] of the blocks at these positions of a text, in one pass: a
        block sees the states before its anchor and itself."""
        d, b, a = self.drafter, self.drafter.block, len(anchors)
        states = d.states({i: h.float() for i, h in text.hidden.items()})
        pasts, n = d.pasts(), len(states)
        d.read(states, pasts)
        tokens = torch.full((a, b), d.mask_id)
        tokens[:, 0] = text.tokens[anchors]
        x, of = self.E[tokens.flatten()], torch.arange(a).repeat_interleave(b)  # of: which block a row belongs to
        sees = torch.cat([torch.arange(n)[None] < anchors[of][:, None], of[:, None] == of[None]], 1)
        turn = d.rotation.at((anchors[:, None] + torch.arange(b)).flatten(), x.dtype)
        for one, past in zip(d.stack, pasts.layers, strict=True):
            x = one(x, turn, past, sees)
        return d.stack[0].norm(x, d.out_norm).view(a, b, -1)[:, 1:]  # type: ignore[no-any-return]

    def pairs_of(self, text: Text) -> tuple[Tensor, Tensor, Tensor]:
        """(logits [m, v], positions [m], slots [m] from 0) of all slots that a token of the text stands at."""
        anchors = self.anchors(text)
        at = anchors[:, None] + torch.arange(1, self.drafter.block)
        inside = at < len(text.tokens)
        slots = torch.arange(self.drafter.k).expand_as(at)[inside]
        return self.teacher.logits(self.filled(text, anchors)[inside]), at[inside], slots

    def loss(self, batch: list[Text]) -> Loss:
        """Soft cross-entropy with the teacher, slots weighted."""
        total, weights, rows = torch.zeros(()), torch.zeros(()), 0
        for text in batch:
            if not len(self.anchors(text)):
                continue
            said, at, slots = self.pairs_of(text)
            true = self.teacher.logits(text.hidden[self.last][at - 1].float()).softmax(-1)
            w = self.weights_of_slots[slots]
            total = total - (w * (true * F.log_softmax(said, -1)).sum(-1)).sum()
            weights, rows = weights + w.sum(), rows + len(at)
        return Loss(total / weights, sum(len(text.tokens) for text in batch), rows)

    @torch.inference_mode()
    def accuracy(self) -> tuple[Tensor, int]:
        """(a [b - 1, RANKS], rows): on held-out prompts, how often guess r of a slot is the token that the text has."""
        right, rows = torch.zeros(self.drafter.k, RANKS), torch.zeros(self.drafter.k, 1)
        for text in self.cache.texts(self.layers, held_out=True):
            if not len(self.anchors(text)):
                continue
            said, at, slots = self.pairs_of(text)
            hit = self.teacher.ids[said.topk(RANKS).indices] == text.tokens[at][:, None]
            right.index_add_(0, slots, hit.float())
            rows.index_add_(0, slots, torch.ones(len(slots), 1))
        return right / rows.clamp(min=1), int(rows[0])


def calls(model: Any, asked: Sequence[list[int]]) -> dict[str, Any]:
    """Tokens per model call with whole and half blocks, beside the control's tree and its chain."""
    ours, control = dflash.decode.info.slug, eagle.decode.info.slug
    return {
        **tokens_per_call(f"block_of_{BLOCK}", ours, model, asked),
        **tokens_per_call(f"block_of_{BLOCK // 2}", ours, model, asked, {"block": BLOCK // 2}),
        **tokens_per_call("eagle_12_nodes", control, model, asked),
        **tokens_per_call("eagle_chain_of_4", control, model, asked, {"top_k": 1}),
    }


def commands() -> dict[str, Command]:
    """A block drafter of a layered model with at least six layers."""
    return command("dflash-layers", "MODEL's block drafter (DFlash)", str(__doc__), DFlashTraining, calls)
