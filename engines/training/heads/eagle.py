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

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import smooth_l1_loss

from engines.core.errors import UserError
from engines.core.machine import trained_on
from engines.methods.heads import eagle, medusa
from engines.models.exits import Past
from engines.models.networks.eagle_layer import EagleLayer
from engines.models.parts import folder_of
from engines.models.zoo import load_model
from engines.training.core.commands import PROGRAM, Command, flags
from engines.training.core.head import HeadTraining
from engines.training.core.loop import Loss, Until, checkpoint_file, restore, run
from engines.training.core.parts import install_part
from engines.training.core.text_cache import Teacher, Text, TextCache, soft_cross_entropy
from engines.training.heads.calls import PROMPTS, prompts_of, tokens_per_call
from engines.training.heads.medusa import RIDGE_ROWS, coverage, options, ridge, vocabulary_of
from engines.training.heads.own_text import cache_of

NAME, RANKS, DEPTHS = "eagle-layer", 10, 3
DEFAULTS = {"epochs": 3, "minutes": 8.0, "seed": 0}


class EagleTraining(HeadTraining):
    """The layer on whole texts; E [V, d] are the model's embeddings."""

    learning_rate = 5e-4

    def __init__(self, name: str, E: Tensor, cache: TextCache, teacher: Teacher, seed: int) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            layer = EagleLayer(E.shape[1], 3 * E.shape[1], 1 / float(E.square().mean().sqrt()))
        self.E, self.layers = E, (max(cache.layers),)
        super().__init__(name, layer, cache, teacher, seed)

    def _inputs(self, text: Text) -> tuple[Tensor, Tensor]:
        """Embeddings of the tokens 1 ... and the states one place before them, each [n - 1, d]."""
        return self.E[text.tokens[1:]], text.hidden[self.last][:-1].float()

    def start(self) -> None:
        """The first map by ridge regression on the first texts."""
        layer, pairs, rows = self.network, [], 0
        assert isinstance(layer, EagleLayer)
        for text in self.cache.texts(self.layers, seed=self.seed):
            at = torch.tensor(text.rows(1), dtype=torch.long)
            x = layer.inputs(*self._inputs(text))
            pairs.append((x[at], text.hidden[self.last][at + 1].float()))
            rows += len(at)
            if rows >= RIDGE_ROWS:
                break
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
        hits, rows = torch.zeros(DEPTHS, RANKS), torch.zeros(DEPTHS, 1)
        self.network.eval()
        for text in self.cache.texts(self.layers, held_out=True):
            for j, F in enumerate(self.rolled(text)):
                at = torch.tensor(text.rows(j + 1), dtype=torch.long)
                guesses = self.teacher.ids[self.teacher.logits(F[at]).topk(RANKS).indices]
                hits[j] += (guesses == text.tokens[at + j + 2][:, None]).sum(0)
                rows[j] += len(at)
        return hits / rows.clamp(min=1), int(rows[0])

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


def train(
    model: Any, cache: TextCache, out: Path, *, epochs: int, minutes: float, seed: int, command: str, resume: bool
) -> Path:
    """Ridge start, training, accuracies, tokens per call; writes the part into `out`. Returns it."""
    ids = vocabulary_of(cache, model.vocab_size, model.eos_ids)
    teacher = Teacher(model.model.get_output_embeddings().weight, ids)
    E = model.model.get_input_embeddings().weight.detach().float()
    training = EagleTraining(out.name, E, cache, teacher, seed)
    training.command, file = command, checkpoint_file(out.name)
    training.start()
    began = training.accuracy()[0][:, 0].tolist()
    print("ridge alone", began, flush=True)
    if resume and file.is_file():
        restore(training, file)
    run(training, Until(epochs * training.per_epoch // training.texts_per_step, minutes), checkpoint=file)
    a, rows = training.accuracy()
    state = {name: one.detach().bfloat16() for name, one in training.network.named_parameters()}
    state |= {"s": training.network.get_buffer("s"), "accuracy": a} | ({} if ids is None else {"vocabulary": ids.int()})
    progress = training.progress
    card = {
        "name": out.name,
        "kind": "EAGLE's draft layer",
        "bases": {"target": model.record.sha256},
        "data": f"{training.per_epoch} answers of {model.record.name} (the text cache), {len(cache.files)} shards",
        "seed": seed,
        "parameters": sum(one.numel() for one in training.network.parameters()),
        "steps": progress.step,
        "tokens": progress.tokens,
        "minutes": round(progress.seconds / 60, 1),
        "cpu_minutes": round(progress.cpu_seconds / 60, 1),
        "machine": trained_on("cpu"),
        "draft_vocabulary": None if ids is None else {"tokens": len(ids), "covers": round(coverage(cache, ids), 4)},
        "held_out": {
            "rows": rows,
            "rank_1_ridge_alone": [round(one, 4) for one in began],
            "rank_1": [round(one, 4) for one in a[:, 0].tolist()],
            "top_4": [round(one, 4) for one in a[:, :4].sum(1).tolist()],
        },
        "licence": "Apache-2.0 (trained here, on what the model wrote)",
        "command": command,
    }
    install_part(out, state, card)
    if out == folder_of(NAME, model.record.name):
        card["held_out"]["tokens_per_target_call"] = calls(model, cache)
        install_part(out, state, card)
    print(card["held_out"], flush=True)
    file.unlink(missing_ok=True)
    return out


def calls(model: Any, cache: TextCache) -> dict[str, Any]:
    """Tokens per target call of tree and chain, and of Medusa's heads with as many nodes."""
    asked, own, control = prompts_of(cache), eagle.decode.info.slug, medusa.decode.info.slug
    return {
        "prompts": len(asked),
        "tree": tokens_per_call(own, model, asked),
        "chain_of_4": tokens_per_call(own, model, asked, {"top_k": 1}),
        "medusa_12_nodes": tokens_per_call(control, model, asked),
        "medusa_3_nodes": tokens_per_call(control, model, asked, {"nodes": 3}),
    } | {"asked": f"the first {PROMPTS} held-out prompts of the text cache, temperature 0"}


def _run(a: Namespace) -> None:
    if a.epochs < 1 or a.minutes <= 0:
        raise UserError(f"--epochs {a.epochs} --minutes {a.minutes:g} trains nothing; give numbers above 0.")
    model: Any = load_model(a.model, kind="layered", dtype="float32")
    given = {name: getattr(a, name) for name in DEFAULTS}
    command = f"{PROGRAM} {NAME} {model.record.name}" + flags((n, v, DEFAULTS[n]) for n, v in given.items())
    cache = cache_of(model, a.seed, a.cache)
    print(train(model, cache, a.out or folder_of(NAME, a.model), command=command, resume=a.resume, **given))


def _options(parser: ArgumentParser) -> None:
    options(parser, DEFAULTS)


def commands() -> dict[str, Command]:
    """EAGLE's draft layer of any layered model."""
    return {NAME: Command("MODEL's draft layer (EAGLE)", str(__doc__), _options, _run)}
