"""Tunes a model to write lexical units: python -m engines.training lexical-units MODEL

The frozen model marks its own answers: a token whose probability is at least alpha belongs to the unit of the one
before it (arXiv 2405.15208; no code is public). Behind the prefix of every unit stand pads, rows with a learned
embedding: the first token of the unit is asked of the last real row, the others of the pads. All units of a text go
through one forward; the pads of a unit see the text before it and the pads before them, and no real row sees a pad.
The loss is the cross-entropy with the answer's tokens on the pads, and on the real rows, so that one by one the model
goes on writing as it did.

Ours: LoRA in place of tuning all weights; pads behind a unit's end learn the true next tokens too, with a smaller
weight, or the tuned model would be sure of everything."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import islice
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import cross_entropy

from engines.methods.baselines import greedy
from engines.methods.heads import lud, lud_verified
from engines.methods.heads.lud import marked
from engines.models.networks.lora import MAPS, LoRA
from engines.training.core.commands import Command
from engines.training.core.loop import Loss
from engines.training.core.text_cache import Teacher, Text, TextCache
from engines.training.heads.drafters import (
    PROMPTS,
    RANKS,
    DraftTraining,
    command,
    embeddings,
    tokens_per_call,
)

WINDOW, ALPHA, RANK, BEHIND, MOST = 6, 0.8, 16, 0.3, 24  # MOST units of a text in a step


class UnitTraining(DraftTraining):
    """The body runs, frozen, with adapters on all rows."""

    learning_rate, texts_per_step = 3e-3, 4
    kind, begins = "adapters for lexical units", "untouched"

    def __init__(self, name: str, model: Any, cache: TextCache, teacher: Teacher, seed: int) -> None:
        self.body, E = model.model.base_model.requires_grad_(False).eval(), embeddings(model)
        self.facts = {"window": WINDOW, "alpha": ALPHA, "rank": RANK}
        maps = {f"{i}-{key}": one for i, layer in enumerate(self.body.layers) for key, one in mapped(layer)}
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = LoRA({key: tuple(one.weight.shape) for key, one in maps.items()}, E.mean(0), RANK)
        super().__init__(name, network, cache, teacher, seed)
        self.rng, self.maps = Generator().manual_seed(seed), maps
        self.W = model.model.get_output_embeddings().weight.detach().float()  # [V, d]

    @contextmanager
    def adapted(self) -> Iterator[None]:
        """The body with the adapters on all rows."""

        def hook(layer: str, name: str) -> Callable[..., Tensor]:
            def change(_: nn.Module, given: tuple[Tensor, ...], out: Tensor) -> Tensor:
                assert isinstance(self.network, LoRA)
                return out + self.network.added(int(layer), name, given[0][0]).to(out.dtype)

            return change

        hooks = [one.register_forward_hook(hook(*key.split("-"))) for key, one in self.maps.items()]
        try:
            yield
        finally:
            for one in hooks:
                one.remove()

    def batch(self, share: float) -> list[Text]:
        """The next texts with room for a pad."""
        found: list[Text] = []
        while len(found) < self.texts_per_step:
            found += [text for text in super().batch(share) if len(text.rows(1))]
        return found[: self.texts_per_step]

    def units(self, text: Text) -> list[tuple[int, int]]:
        """(start, length) of the units of the answer, at most WINDOW long, as the untouched model marks them."""
        rows = torch.tensor(text.rows(), dtype=torch.long)
        p = (text.hidden[self.last][rows].float() @ self.W.T).softmax(-1)
        sure = p.gather(-1, text.tokens[rows + 1, None])[:, 0].tolist()
        return [(text.prompt + start, length) for start, length in marked(sure, ALPHA, WINDOW)]

    def said(self, texts: Sequence[Text], cuts: Tensor) -> tuple[Tensor, Tensor]:
        """Texts one behind the other, each seeing itself only: logits of the real rows [n, V] and of the WINDOW - 1
        pads behind the rows `cuts` [c] of them: [c, WINDOW - 1, V]."""
        assert isinstance(self.network, LoRA)
        lengths, m = torch.tensor([len(text.tokens) for text in texts]), WINDOW - 1
        n, c, rows = int(lengths.sum()), len(cuts), torch.arange(int(lengths.sum()))
        of = torch.arange(len(texts)).repeat_interleave(lengths)  # [n]: the text of a row
        place = torch.cat([torch.arange(int(k)) for k in lengths])
        x = self.body.embed_tokens(torch.cat([text.tokens for text in texts]))
        x = torch.cat([x, self.network.pad.expand(c * m, -1)])[None]
        at = torch.cat([place, (place[cuts][:, None] + 1 + torch.arange(m)).flatten()])[None]
        ends = torch.cat([rows, cuts.repeat_interleave(m)])  # the last real row that each row sees
        real = (rows <= ends[:, None]) & (of == of[ends][:, None])
        own = torch.block_diag(*[torch.ones(m, m).tril()] * c).bool()
        sees = torch.cat([real, torch.cat([torch.zeros(n, c * m, dtype=torch.bool), own])], 1)
        mask = torch.zeros(sees.shape, dtype=x.dtype).masked_fill_(~sees, torch.finfo(x.dtype).min)[None, None]
        with self.adapted():
            out = self.body(inputs_embeds=x, attention_mask=mask, position_ids=at, use_cache=False)
        h = out.last_hidden_state[0]
        return h[:n] @ self.W.T, (h[n:] @ self.W.T).unflatten(0, (c, m))

    def start(self) -> None:
        """Nothing to fill: the model begins as it is."""

    def context(self) -> AbstractContextManager[Any]:
        """Float32: rows this short gain nothing from bfloat16."""
        return nullcontext()

    def loss(self, batch: list[Text]) -> Loss:
        """The mean over the real rows and that over the pads, those behind a unit's end weighing BEHIND."""
        tokens, rows, cuts, lengths, left = torch.cat([text.tokens for text in batch]), [], [], [], []
        begin = 0
        for text in batch:
            units, n = self.units(text), len(text.tokens)
            some = torch.randperm(len(units), generator=self.rng)[:MOST].tolist()
            cuts += [begin + units[i][0] - 1 for i in some]
            lengths += [units[i][1] for i in some]
            left += [n - units[i][0] for i in some]  # tokens from the unit's first on
            rows += [begin + row for row in text.rows()]
            begin += n
        at, j = torch.tensor(cuts), torch.arange(1, WINDOW)
        z, ahead = self.said(batch, at)
        fit = j < torch.tensor(left)[:, None]  # [c, WINDOW - 1]
        wanted = tokens[(at[:, None] + 1 + j).clamp(max=len(tokens) - 1)]
        weight = torch.where(j < torch.tensor(lengths)[:, None], 1.0, BEHIND)[fit]
        loss = (cross_entropy(ahead[fit], wanted[fit], reduction="none") * weight).sum() / weight.sum()
        return Loss(loss + cross_entropy(z[rows], tokens[torch.tensor(rows) + 1]), len(tokens), int(fit.sum()))

    @torch.no_grad()
    def accuracy(self) -> tuple[Tensor, int]:
        """(a [WINDOW, RANKS], rows): on the first held-out prompts, how often guess r of the last real row and of
        each pad is the token that the text has, behind every row of the answer."""
        right, rows = torch.zeros(WINDOW, RANKS), torch.zeros(WINDOW, 1)
        for text in islice(self.cache.texts(self.layers, held_out=True), PROMPTS):
            cuts = torch.tensor(text.rows(), dtype=torch.long)
            z, ahead = self.said([text], cuts)
            for j, logits in enumerate([z[cuts], *ahead.unbind(1)]):
                fit = cuts + j + 1 < len(text.tokens)
                guesses = logits[fit].topk(RANKS).indices
                right[j] += (guesses == text.tokens[cuts[fit] + j + 1, None]).sum(0)
                rows[j] += int(fit.sum())
        return right / rows.clamp(min=1), int(rows[0])


def mapped(layer: nn.Module) -> list[tuple[str, Any]]:
    """The linear maps of a layer that LoRA changes, by name."""
    named = ((name.rpartition(".")[2], one) for name, one in layer.named_modules())
    return [(name, one) for name, one in named if name in MAPS]


def calls(model: Any, asked: Sequence[list[int]]) -> dict[str, Any]:
    """Tokens per model call by beta, with a window of one, and with units as verified drafts, beside greedy."""
    own = lud.decode.info.slug
    found: dict[str, Any] = {}
    for beta in (0.5, 0.7, 0.9):
        found |= tokens_per_call(f"beta_{beta:g}", own, model, asked, {"beta": beta})
    found |= tokens_per_call("window_1", own, model, asked, {"k": 1})
    for one in (lud_verified, greedy):
        found |= tokens_per_call(one.decode.info.slug, one.decode.info.slug, model, asked)
    return found


def commands() -> dict[str, Command]:
    """Adapters for lexical units of any layered model."""
    return command("lexical-units", "MODEL's adapters for lexical units (LUD)", str(__doc__), UnitTraining, calls)
