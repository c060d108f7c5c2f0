"""Trains drafters in the formats in which drafters are published (`engines.models.drafters`): what is learned are a
checkpoint's tensors under their published names, and what computes the loss is what computes a download.

A module says which tensors there are, how they begin, and its config; `RowsTraining` has the loss of those that go from
row to row (EAGLE-3, P-EAGLE, MTP layers). Texts, states and teacher come from the text cache.

Shapes: n rows of a text, d width, v draft vocabulary, V vocabulary, f channels of the feed-forward part."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from engines.models.drafters import format_of
from engines.models.drafters.base import RowDrafter
from engines.models.drafters.files import Checkpoint
from engines.models.drafters.network import causal
from engines.models.drafters.tensors import Tensors
from engines.training.core.loop import Loss
from engines.training.core.text_cache import Teacher, Text, TextCache, soft_cross_entropy
from engines.training.heads.drafters import RANKS, DraftTraining


class Published(nn.Module):
    """Tensors by their published names, those of floating point to be learned, and the drafter that computes with
    them."""

    def __init__(self, config: Mapping[str, Any], tensors: Mapping[str, Tensor], model: Any) -> None:
        super().__init__()
        self.config = dict(config)
        for name, tensor in tensors.items():
            *path, last = name.split(".")
            place: nn.Module = self
            for part in path:
                if part not in place._modules:
                    place.add_module(part, nn.Module())
                place = place.get_submodule(part)
            if tensor.is_floating_point():
                place.register_parameter(last, nn.Parameter(tensor.float()))
            else:
                place.register_buffer(last, tensor)
        held = {**dict(self.named_parameters()), **dict(self.named_buffers())}
        checkpoint = Checkpoint(Path(), "the drafter in training", "", self.config, (), "", held)
        reader = Tensors(checkpoint, torch.float32, "cpu")
        self.drafter: Any = format_of(checkpoint)(checkpoint, model, reader)
        reader.finish(self.drafter.title)


def matrix(rows: int, columns: int) -> Tensor:
    """A matrix [rows, columns] that keeps the size of what it reads."""
    return torch.randn(rows, columns) * columns**-0.5


def layer(prefix: str, d: int, f: int, w: int | None = None, *, q_norm: int = 0) -> dict[str, Tensor]:
    """The tensors of a decoder layer that begins as the identity: attention on w numbers (d by default), its output
    matrix and that of the feed-forward part 0. q_norm: the size of a head where queries and keys have norms."""
    w, at = w or d, f"{prefix}self_attn."
    return {
        **{f"{at}{one}_proj.weight": matrix(d, w) for one in "qkv"},
        f"{at}o_proj.weight": torch.zeros(d, d),
        **({f"{at}{one}_norm.weight": torch.ones(q_norm) for one in "qk"} if q_norm else {}),
        f"{prefix}post_attention_layernorm.weight": torch.ones(d),
        f"{prefix}mlp.gate_proj.weight": matrix(f, d),
        f"{prefix}mlp.up_proj.weight": matrix(f, d),
        f"{prefix}mlp.down_proj.weight": torch.zeros(d, f),
    }


def sizes(model: Any, f: int, **more: Any) -> dict[str, Any]:
    """The config of layers as wide as the model's, with heads of 64 numbers, for `engines.models.drafters`."""
    held = model.model.config
    return {
        "hidden_size": held.hidden_size,
        "num_attention_heads": max(2, held.hidden_size // 64),
        "num_key_value_heads": max(2, held.hidden_size // 64),
        "intermediate_size": f,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "vocab_size": held.vocab_size,
        **more,
    }


class RowsTraining(DraftTraining):
    """A drafter that goes from row to row, unrolled over `depths` places as it drafts: each row reads its own output of
    the place before and the true token (training-time test of EAGLE-3, arXiv 2503.01840, section 3.2)."""

    learning_rate = 1e-3
    depths = 3
    fall = 1.0  # the weight of a place in the loss, to that of the place before it

    def __init__(
        self, name: str, made: Callable[[], Published], cache: TextCache, teacher: Teacher, seed: int, model: Any
    ) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = made()
        self.drafter: RowDrafter = network.drafter
        self.layers = tuple(sorted({*self.drafter.reads, max(cache.layers)}))
        table = self.drafter.table
        self.E = model.model.get_input_embeddings().weight.detach().float() if table is None else table
        super().__init__(name, network, cache, teacher, seed)
        self.facts = {"config": network.config}

    def logits(self, out: Tensor) -> Tensor:
        """Logits [m, v] of outputs [m, d]: of the drafter's own head, or the teacher's."""
        read, head = self.drafter.spoken(out), self.drafter.head
        return self.teacher.logits(read) if head is None else nn.functional.linear(read, head).float()

    def rolled(self, text: Text) -> list[Tensor]:
        """Outputs [n - 1, d] after 1, 2, ... `depths` places, from every row t of the text at once: row t of list entry
        j saw the true rows up to t and its own j before it. Rows for which the text is over are not used."""
        d, pasts = self.drafter, self.drafter.pasts()
        s = d.project(d.states({i: h[:-1].float() for i, h in text.hidden.items()}))
        n, found = len(s), list[Tensor]()
        own, sees = torch.eye(n, dtype=torch.bool), causal(n, 0, "cpu")
        tokens = text.tokens[1:]
        for j in range(self.depths):
            if j:
                tokens, s = self.ahead(text, j, found[-1])
                sees = torch.cat([sees, own], 1)
            found.append(d.rows(self.E[tokens], s, pasts, torch.arange(n) + j, sees))
        return found

    def ahead(self, text: Text, j: int, out: Tensor) -> tuple[Tensor, Tensor]:
        """(tokens [n], states [n, d]) that the rows read j places ahead, behind their outputs `out` [n, d]."""
        at = torch.arange(len(out)) + j + 1
        return text.tokens[at.clamp(max=len(text.tokens) - 1)], self.drafter.fed_back(out)

    def loss(self, batch: list[Text]) -> Loss:
        """Soft cross-entropy with the teacher, the mean over rows and then the weighted one over the depths."""
        said: list[list[Tensor]] = [[] for _ in range(self.depths)]
        true: list[list[Tensor]] = [[] for _ in range(self.depths)]
        for text in batch:
            z = self.teacher.logits(text.hidden[self.last].float())
            for j, out in enumerate(self.rolled(text)):
                at = torch.tensor(text.rows(j + 1), dtype=torch.long)
                said[j].append(self.logits(out[at]))
                true[j].append(z[at + j + 1])
        pairs = [(torch.cat(a), torch.cat(b)) for a, b in zip(said, true, strict=True)]
        # No text of a batch may go as far as the last places.
        parts = [(self.fall**j, soft_cross_entropy(a, b)) for j, (a, b) in enumerate(pairs) if len(a)]
        value = torch.stack([w * part for w, part in parts]).sum() / sum(w for w, _ in parts)
        return Loss(value, sum(len(text.tokens) for text in batch), sum(map(len, said[0])))

    @torch.inference_mode()
    def accuracy(self) -> tuple[Tensor, int]:
        """(a [depths, RANKS], rows): on held-out prompts, how often guess r is the token that the text has, when the
        drafter has gone on from its own outputs for 1, 2, ... places and read the true tokens."""
        right, rows = torch.zeros(self.depths, RANKS), torch.zeros(self.depths, 1)
        for text in self.cache.texts(self.layers, held_out=True):
            for j, out in enumerate(self.rolled(text)):
                at = torch.tensor(text.rows(j + 1), dtype=torch.long)
                guesses = self.teacher.ids[self.logits(out[at]).topk(RANKS).indices]
                right[j] += (guesses == text.tokens[at + j + 2][:, None]).sum(0).float()
                rows[j] += len(at)
        return right / rows.clamp(min=1), int(rows[0])
