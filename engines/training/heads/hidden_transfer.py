"""Trains Hidden Transfer's maps for a model: python -m engines.training transfer-maps MODEL

Behind layer l, m linear maps of a row's state make pseudo rows for the m places behind it; the layers above, frozen,
shall make of the i-th what the model says i places further on (arXiv 2404.12022: linear maps, distilled from the model;
no code is public, so the rest is our design). Texts and teacher are those of the text cache that Medusa's heads learn
from; the gradient crosses the layers above l, so the body runs. For each of three layers l, a third and two thirds up
and behind the last one, the maps start as the ridge regression from the state behind l to that i places ahead. The loss
is the sum over i of 0.8^(i - 1) times the soft cross-entropy with the teacher, and the sum over the layers l. Of a
large model, whose layers above cost most, a step takes 32 rows of each text."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from engines.methods.heads import hidden_transfer, medusa
from engines.training.core.commands import Command
from engines.training.core.loop import Loss
from engines.training.core.text_cache import Teacher, Text, TextCache, soft_cross_entropy
from engines.training.heads.drafters import RANKS, DraftTraining, command, cost_per_token, hits, tokens_per_call
from engines.training.heads.medusa import ridge

M, DECAY, ROWS = 3, 0.8, 32


class Maps(nn.Module):
    """W [M, d, d] and b [M, d] for each transfer layer."""

    def __init__(self, layers: Sequence[int], d: int) -> None:
        super().__init__()
        self.W = nn.ParameterDict({str(l): nn.Parameter(torch.eye(d).repeat(M, 1, 1)) for l in layers})  # noqa: E741
        self.b = nn.ParameterDict({str(l): nn.Parameter(torch.zeros(M, d)) for l in layers})  # noqa: E741
        self.register_buffer("layers", torch.tensor(layers, dtype=torch.int32))

    def forward(self, h: Tensor, layer: int) -> Tensor:
        """Pseudo states [c, M, d] of states h [c, d] behind a transfer layer."""
        out: Tensor = h @ self.W[str(layer)].mT + self.b[str(layer)][:, None]
        return out.transpose(0, 1)


class TransferTraining(DraftTraining):
    """The body runs, frozen; only the maps move."""

    learning_rate = 3e-4
    kind = "maps of Hidden Transfer"

    def __init__(self, name: str, model: Any, cache: TextCache, teacher: Teacher, seed: int) -> None:
        self.body, n = model.model.base_model.requires_grad_(False).eval(), model.num_layers
        self.through = sorted({max(1, n // 3), max(1, 2 * n // 3), n})
        self.facts = {"transfer_layers": self.through, "pseudo_rows": M}
        self.large = len(teacher.ids) < model.vocab_size
        super().__init__(name, Maps(self.through, model.config.hidden_size), cache, teacher, seed)

    @torch.no_grad()
    def streams(self, text: Text) -> dict[int, Tensor]:
        """The rows [n, d] of a text behind each transfer layer, before the final norm."""
        n = len(text.tokens)
        h, at = self.body.embed_tokens(text.tokens)[None], torch.arange(n)[None]
        rotations, found = self.body.rotary_emb(h, position_ids=at), {}
        mask = self._mask(torch.ones(n, n).tril().bool(), h)
        for i, layer in enumerate(self.body.layers, 1):
            h = layer(h, attention_mask=mask, position_ids=at, position_embeddings=rotations)
            if i in self.through:
                found[i] = h[0]
        return found

    def refined(self, stream: Tensor, pseudo: Tensor, cuts: Tensor, layer: int) -> Tensor:
        """Pseudo states [c, M, d] behind the rows `cuts` [c] of a stream [n, d], sent through the layers above and the
        final norm."""
        n, c = len(stream), len(cuts)
        own = torch.block_diag(*[torch.ones(M, M).tril()] * c).bool()
        seen = torch.cat([(torch.arange(n) <= cuts[:, None]).repeat_interleave(M, 0), own], 1)
        text = torch.cat([torch.ones(n, n).tril().bool(), torch.zeros(n, c * M, dtype=torch.bool)], 1)
        h = torch.cat([stream, pseudo.reshape(c * M, -1).to(stream.dtype)])[None]
        at = torch.cat([torch.arange(n), (cuts[:, None] + 1 + torch.arange(M)).flatten()])[None]
        rotations, mask = self.body.rotary_emb(h, position_ids=at), self._mask(torch.cat([text, seen]), h)
        for one in self.body.layers[layer:]:
            h = one(h, attention_mask=mask, position_ids=at, position_embeddings=rotations)
        out: Tensor = self.body.norm(h)[0, n:]
        return out.unflatten(0, (c, M))

    def _mask(self, sees: Tensor, h: Tensor) -> Tensor:
        return torch.zeros(sees.shape, dtype=h.dtype).masked_fill_(~sees, torch.finfo(h.dtype).min)[None, None]

    def said(self, text: Text, rows: range) -> dict[int, Tensor]:
        """By transfer layer the states [c, M, d] that the output head reads, of c rows of a text."""
        cuts, found = torch.tensor(rows, dtype=torch.long), {}
        for layer, stream in self.streams(text).items():
            found[layer] = self.refined(stream, self.network(stream[cuts], layer), cuts, layer)
        return found

    def start(self) -> None:
        """W of every map by ridge regression on the first texts."""
        texts = [(text, self.streams(text)) for text in self.first_texts()]
        assert isinstance(self.network, Maps)
        for layer in self.through:
            for i in range(M):
                rows = [(streams[layer], torch.tensor(text.rows(i + 1), dtype=torch.long)) for text, streams in texts]
                x, y = torch.cat([s[at] for s, at in rows]), torch.cat([s[at + i + 1] for s, at in rows])
                self.network.W[str(layer)].data[i].copy_(ridge(x, y))

    def some(self, rows: range, rng: random.Random) -> range:
        """The rows of a text that a step takes: of a large model ROWS side by side."""
        begin = rng.randrange(max(1, len(rows) - ROWS + 1))
        return rows[begin : begin + ROWS] if self.large else rows

    def loss(self, batch: list[Text]) -> Loss:
        """The sum over layers and places, each the mean over its rows."""
        batch = [text for text in batch if len(text.rows(1))]
        rng = random.Random(f"{self.seed}/{self.progress.step}")
        rows = [self.some(text.rows(1), rng) for text in batch]
        found, values, count = [self.said(*one) for one in zip(batch, rows, strict=True)], [], 0
        for i in range(M):
            m = [len(range(r.start, min(r.stop, text.rows(i + 1).stop))) for text, r in zip(batch, rows, strict=True)]
            true = [
                text.hidden[self.last][r.start + i + 1 : r.start + i + 1 + k]
                for text, r, k in zip(batch, rows, m, strict=True)
            ]
            wanted = self.teacher.logits(torch.cat(true))
            for layer in self.through if sum(m) else ():
                said = torch.cat([one[layer][:k, i] for one, k in zip(found, m, strict=True)])
                values.append(DECAY**i * soft_cross_entropy(self.teacher.logits(said), wanted))
            count = max(count, sum(m))
        return Loss(torch.stack(values).sum(), sum(len(text.tokens) for text in batch), count)

    @torch.inference_mode()
    def accuracy(self) -> tuple[Tensor, int]:
        """(a [transfer layers, M, RANKS], rows): on held-out prompts, how often guess r of a pseudo row is the token
        that the text has."""
        right, rows = torch.zeros(len(self.through), M, RANKS), torch.zeros(M)
        for text in self.cache.texts(self.layers, held_out=True):
            if not len(text.rows(1)):
                continue
            said = self.said(text, text.rows(1))
            for i in range(M):
                at = torch.tensor(text.rows(i + 1), dtype=torch.long)
                rows[i] += len(at)
                for k, layer in enumerate(self.through):
                    right[k, i] += hits(self.teacher, said[layer][: len(at), i], text.tokens[at + i + 2])
        return right / rows.clamp(min=1)[:, None], int(rows[0])


def calls(model: Any, asked: Sequence[list[int]]) -> dict[str, Any]:
    """Tokens per model call by transfer layer, with the layer-rows that a token took, and Medusa's with as many nodes
    and with as many layer-rows as the middle layer."""
    own, control = hidden_transfer.decode.info.slug, medusa.decode.info.slug
    n = model.num_layers
    through = sorted({max(1, n // 3), max(1, 2 * n // 3), n})
    found: dict[str, Any] = {}
    for layer in through:
        given = {"transfer_layer": layer}
        found |= tokens_per_call(f"layer_{layer}", own, model, asked, given)
        found[f"layer_{layer}_layer_rows_per_token"] = cost_per_token(own, model, asked, given)
    same = round(8 + 9 * M * (n - through[-2]) / n)
    for nodes in (8, same):
        found |= tokens_per_call(f"{control}_{nodes}_nodes", control, model, asked, {"nodes": nodes})
        found[f"{control}_{nodes}_nodes_layer_rows_per_token"] = cost_per_token(control, model, asked, {"nodes": nodes})
    return found


def commands() -> dict[str, Command]:
    """Hidden Transfer's maps of any layered model."""
    return command("transfer-maps", "MODEL's maps of Hidden Transfer", str(__doc__), TransferTraining, calls)
