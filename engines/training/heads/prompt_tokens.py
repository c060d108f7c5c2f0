"""Trains PPD's prompt tokens for a model: python -m engines.training prompt-tokens MODEL

Three embeddings p_1 ... p_3, appended to a text, shall make the frozen model say at p_j what it says j places further
on (arXiv 2405.18628; hmarkc/parallel-prompt-decoding, prompt/train/train.py). Texts and the teacher's last states come
from the text cache. No text sees a prompt token, so one text serves many cuts: it is read once without gradient, and
the prompt rows of all cuts then run together against its keys and values. The loss is the sum over j of 0.8^(j - 1)
times the cross-entropy with the teacher's distribution.

We depart in: many cuts of one text (released: one, at random), the teacher along the model's own answer (released: on
a greedy continuation made for each cut), one copy of each token (no ensemble), and starting at the mean embedding."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor, nn
from transformers import DynamicCache

from engines.core.errors import UserError
from engines.core.machine import trained_on
from engines.models.loading.zoo import load_model
from engines.models.parts import folder_of
from engines.training.core.commands import PROGRAM, Command, flags
from engines.training.core.head import HeadTraining
from engines.training.core.loop import Loss, Until, checkpoint_file, restore, run
from engines.training.core.parts import install_part
from engines.training.core.text_cache import Teacher, Text, TextCache, soft_cross_entropy
from engines.training.heads.medusa import coverage, options, vocabulary_of
from engines.training.heads.own_text import cache_of

NAME, M, RANKS, CUTS, DECAY = "prompt-tokens", 3, 10, 32, 0.8
DEFAULTS = {"steps": 600, "minutes": 8.0, "seed": 0}


class Embeddings(nn.Module):
    """The prompt tokens p [m, d]."""

    def __init__(self, p: Tensor) -> None:
        super().__init__()
        self.p = nn.Parameter(p.clone())


class PromptTraining(HeadTraining):
    """The body runs, frozen; only p moves."""

    learning_rate, texts_per_step = 1e-2, 2

    def __init__(self, name: str, network: Any, cache: TextCache, teacher: Teacher, seed: int) -> None:
        self.body = network.base_model.requires_grad_(False).eval()
        E = network.get_input_embeddings().weight.detach().float()
        start = E.mean(0).repeat(M, 1) + 0.02 * E.std() * torch.randn(
            M, E.shape[1], generator=Generator().manual_seed(0)
        )
        super().__init__(name, Embeddings(start), cache, teacher, seed)
        self.rng = Generator().manual_seed(seed)

    def batch(self, share: float) -> list[Text]:
        """The next texts with room for a cut; others have nothing to learn from."""
        found: list[Text] = []
        while len(found) < self.texts_per_step:
            found += [text for text in super().batch(share) if len(text.rows(M))]
        return found[: self.texts_per_step]

    def said(self, text: Text, cuts: Tensor) -> Tensor:
        """The teacher's-vocabulary logits [c, m, v] at the prompt rows behind the rows `cuts` [c] of a text."""
        assert isinstance(self.network, Embeddings)
        n, c = int(cuts.max()) + 1, len(cuts)
        past, kind = DynamicCache(config=self.body.config), next(self.body.parameters()).dtype
        with torch.no_grad():
            self.body(input_ids=text.tokens[None, :n], past_key_values=past, use_cache=True)
        x = self.network.p.to(kind).repeat(c, 1)[None]  # [1, c m, d]
        at = (cuts[:, None] + 1 + torch.arange(M)).reshape(1, -1)
        own = torch.block_diag(*[torch.ones(M, M).tril()] * c).bool()
        sees = torch.cat([(torch.arange(n) <= cuts[:, None]).repeat_interleave(M, 0), own], 1)
        mask = torch.zeros(1, 1, c * M, n + c * M, dtype=kind).masked_fill_(~sees, torch.finfo(kind).min)
        out = self.body(inputs_embeds=x, attention_mask=mask, position_ids=at, past_key_values=past, use_cache=True)
        return self.teacher.logits(out.last_hidden_state[0]).unflatten(0, (c, M))

    def loss(self, batch: list[Text]) -> Loss:
        """Random cuts of each text; every prompt row of a cut has an answer's token to foresee."""
        total, count = torch.zeros(()), 0
        for text in batch:
            rows = text.rows(M)
            cuts = rows.start + torch.randperm(len(rows), generator=self.rng)[:CUTS].sort().values
            said = self.said(text, cuts)
            for j in range(M):
                wanted = self.teacher.logits(text.hidden[self.last][cuts + j + 1])
                total = total + DECAY**j * soft_cross_entropy(said[:, j], wanted) * len(cuts)
            count += len(cuts)
        return Loss(total / max(count, 1), sum(len(text.tokens) for text in batch), count)

    @torch.no_grad()
    def accuracy(self, most: int = 3000) -> tuple[Tensor, int]:
        """(a [m, RANKS], rows of the first): on held-out prompts, how often guess r of p_j is the token that the text
        has."""
        hits, rows = torch.zeros(M, RANKS), torch.zeros(M, 1)
        for text in self.cache.texts((), held_out=True):
            cuts = torch.tensor(text.rows(1), dtype=torch.long)
            if not len(cuts) or rows[0] >= most:
                continue
            guesses = self.teacher.ids[self.said(text, cuts).topk(RANKS).indices]  # [c, m, RANKS]
            for j in range(M):
                fit = cuts + j + 2 < len(text.tokens)
                true = text.tokens[cuts[fit] + j + 2]
                hits[j] += (guesses[fit, j] == true[:, None]).sum(0)
                rows[j] += len(true)
        return hits / rows.clamp(min=1), int(rows[0])


def train(
    model: Any, cache: TextCache, out: Path, *, steps: int, minutes: float, seed: int, command: str, resume: bool
) -> Path:
    """Trains p and measures its guesses; writes the part into `out`. Returns it."""
    ids = vocabulary_of(cache, model.vocab_size, model.eos_ids)
    network = model.model.to(torch.bfloat16) if ids is not None else model.model
    teacher = Teacher(network.get_output_embeddings().weight, ids)
    training = PromptTraining(out.name, network, cache, teacher, seed)
    training.command, file = command, checkpoint_file(out.name)
    if resume and file.is_file():
        restore(training, file)
    run(training, Until(steps, minutes), checkpoint=file)
    a, rows = training.accuracy()
    p = training.network.p.detach()
    progress = training.progress
    card = {
        "name": out.name,
        "kind": "prompt tokens",
        "bases": {"target": model.record.sha256},
        "data": f"{training.per_epoch} answers of {model.record.name} (the text cache), {CUTS} cuts of each",
        "seed": seed,
        "prompt_tokens": M,
        "parameters": p.numel(),
        "steps": progress.step,
        "tokens": progress.tokens,
        "minutes": round(progress.seconds / 60, 1),
        "cpu_minutes": round(progress.cpu_seconds / 60, 1),
        "machine": trained_on("cpu"),
        "draft_vocabulary": None if ids is None else {"tokens": len(ids), "covers": round(coverage(cache, ids), 4)},
        "held_out": {
            "rows": rows,
            "rank_1": [round(one, 4) for one in a[:, 0].tolist()],
            "top_4": [round(one, 4) for one in a[:, :4].sum(1).tolist()],
        },
        "licence": "Apache-2.0 (trained here, on what the model wrote)",
        "command": command,
    }
    print(card["held_out"], flush=True)
    install_part(out, {"p": p, "accuracy": a} | ({} if ids is None else {"vocabulary": ids.int()}), card)
    file.unlink(missing_ok=True)
    return out


def _run(a: Namespace) -> None:
    if a.steps < 1 or a.minutes <= 0:
        raise UserError(f"--steps {a.steps} --minutes {a.minutes:g} trains nothing; give numbers above 0.")
    model: Any = load_model(a.model, kind="causal", dtype="float32")
    given = {name: getattr(a, name) for name in DEFAULTS}
    command = f"{PROGRAM} {NAME} {model.record.name}" + flags((n, v, DEFAULTS[n]) for n, v in given.items())
    cache = cache_of(model, a.seed, a.cache)
    print(train(model, cache, a.out or folder_of(NAME, a.model), command=command, resume=a.resume, **given))


def _options(parser: ArgumentParser) -> None:
    options(parser, DEFAULTS)


def commands() -> dict[str, Command]:
    """PPD's prompt tokens of any causal model."""
    return {NAME: Command("MODEL's prompt tokens (PPD)", str(__doc__), _options, _run)}
