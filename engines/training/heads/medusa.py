"""Trains Medusa's heads for a model: python -m engines.training medusa-heads MODEL

Head i learns what the model itself says i + 1 places behind the next token, from the last state h (Medusa-1 of arXiv
2401.10774; FasterDecoding/Medusa, train_legacy.py). The model is frozen and never run: texts, states and teacher come
from the text cache. Each head starts as the ridge regression R from h to the state that lies i + 1 places ahead; then R
and W of R h + SiLU(W h + b) learn by soft cross-entropy, the sum over the heads.

We depart in three points: the linear path R (released: the identity), the teacher's whole distribution in place of the
text's token, and a draft vocabulary where the model's is large."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from engines.core.errors import UserError
from engines.core.machine import trained_on
from engines.models.loading.zoo import load_model
from engines.models.parts import folder_of
from engines.training.core.commands import PROGRAM, Command, flags, usual
from engines.training.core.head import HeadTraining
from engines.training.core.loop import Loss, Until, checkpoint_file, restore, run
from engines.training.core.parts import install_part
from engines.training.core.text_cache import Teacher, Text, TextCache, soft_cross_entropy
from engines.training.heads.own_text import cache_of

NAME, HEADS, RANKS = "medusa-heads", 3, 10
RIDGE_ROWS, LARGE, DRAFT_VOCABULARY = 50_000, 16_384, 8192
DEFAULTS = {"epochs": 3, "minutes": 8.0, "seed": 0}


class Heads(nn.Module):
    """K heads h -> R h + SiLU(W h + b); states h [n, d] to [K, n, d]."""

    def __init__(self, K: int, d: int) -> None:
        super().__init__()
        self.R, self.W = nn.Parameter(torch.eye(d).repeat(K, 1, 1)), nn.Parameter(torch.zeros(K, d, d))
        self.b = nn.Parameter(torch.zeros(K, d))

    def forward(self, h: Tensor) -> Tensor:
        """[K, n, d], on the scale of the last norm."""
        out: Tensor = h @ self.R.mT + nn.functional.silu(h @ self.W.mT + self.b[:, None])
        return out


def ridge(x: Tensor, y: Tensor, share: float = 0.01) -> Tensor:
    """The matrix R [d, d] that makes y ~ x R^T, rows x, y [n, d], with a penalty of `share` of the mean diagonal."""
    A = x.T @ x
    A += share * A.diagonal().mean() * torch.eye(len(A))
    return torch.linalg.solve(A, x.T @ y).T.contiguous()


class MedusaTraining(HeadTraining):
    """All heads on the same texts; the teacher's logits of a text are computed once."""

    learning_rate = 3e-4

    def __init__(self, name: str, heads: Heads, cache: TextCache, teacher: Teacher, seed: int) -> None:
        self.layers = (max(cache.layers),)
        super().__init__(name, heads, cache, teacher, seed)

    def start(self) -> None:
        """R of every head by ridge regression on the first texts."""
        texts, rows = [], 0
        for text in self.cache.texts(self.layers, seed=self.seed):
            texts.append(text)
            rows += len(text.rows())
            if rows >= RIDGE_ROWS:
                break
        assert isinstance(self.network, Heads)
        for i, R in enumerate(self.network.R):
            pairs = [self._states(text, i + 1) for text in texts]
            x, y = (torch.cat(side) for side in zip(*pairs, strict=True))
            R.data.copy_(ridge(x, y))

    def _states(self, text: Text, ahead: int) -> tuple[Tensor, Tensor]:
        h, rows = text.hidden[self.last].float(), torch.tensor(text.rows(ahead), dtype=torch.long)
        return h[rows], h[rows + ahead]

    def said(self, text: Text) -> list[tuple[Tensor, Tensor]]:
        """(head, teacher) logits [m, v] of each head, on the rows that take its loss."""
        h = text.hidden[self.last].float()
        first, wanted, out = text.prompt - 1, self.teacher.logits(h[text.prompt - 1 :]), self.network(h)
        found = []
        for i in range(len(out)):
            m = len(text.rows(i + 1))
            found.append((self.teacher.logits(out[i, first : first + m]), wanted[i + 1 : i + 1 + m]))
        return found

    def loss(self, batch: list[Text]) -> Loss:
        """The sum over the heads, each the mean over its rows."""
        found = [self.said(text) for text in batch]
        parts = [[torch.cat(side) for side in zip(*one, strict=True)] for one in zip(*found, strict=True)]
        value = torch.stack([soft_cross_entropy(*one) for one in parts if len(one[0])]).sum()
        return Loss(value, sum(len(text.tokens) for text in batch), len(parts[0][0]))

    @torch.inference_mode()
    def accuracy(self) -> tuple[Tensor, int]:
        """(a [K, RANKS], rows): on held-out prompts, how often guess r of head i is the token that the text has."""
        self.network.eval()
        K = len(self.network(torch.zeros(1, self._width)))
        hits, rows = torch.zeros(K, RANKS), torch.zeros(K, 1)
        for text in self.cache.texts(self.layers, held_out=True):
            for i, (said, _) in enumerate(self.said(text)):
                at = torch.tensor(text.rows(i + 1), dtype=torch.long)
                true = text.tokens[at + i + 2]
                guesses = self.teacher.ids[said.topk(RANKS).indices]
                hits[i] += (guesses == true[:, None]).sum(0)
                rows[i] += len(at)
        return hits / rows.clamp(min=1), int(rows[0])

    @property
    def _width(self) -> int:
        return int(self.teacher.weight.shape[1])


def vocabulary_of(cache: TextCache, size: int, ends: frozenset[int]) -> Tensor | None:
    """The draft vocabulary of a model with `size` tokens; None where it needs none."""
    return cache.frequent(DRAFT_VOCABULARY, size, ends) if size > LARGE else None


def coverage(cache: TextCache, ids: Tensor | None) -> float:
    """Which share of the held-out answers' tokens a draft vocabulary has."""
    if ids is None:
        return 1.0
    answers = torch.cat([text.tokens[text.prompt :] for text in cache.texts((), held_out=True)])
    return float(torch.isin(answers, ids).double().mean())


def train(
    model: Any, cache: TextCache, out: Path, *, epochs: int, minutes: float, seed: int, command: str, resume: bool
) -> Path:
    """Ridge start, training, accuracies; writes the part into `out`. Returns it."""
    ids = vocabulary_of(cache, model.vocab_size, model.eos_ids)
    head = model.model.get_output_embeddings().weight
    teacher = Teacher(head, ids)
    training = MedusaTraining(out.name, Heads(HEADS, head.shape[1]), cache, teacher, seed)
    training.command, file = command, checkpoint_file(out.name)
    training.start()
    began = {"rank_1": training.accuracy()[0][:, 0].tolist()}
    print("ridge alone", began, flush=True)
    if resume and file.is_file():
        restore(training, file)
    run(training, Until(epochs * training.per_epoch // training.texts_per_step, minutes), checkpoint=file)
    a, rows = training.accuracy()
    state = {name: one.detach().bfloat16() for name, one in training.network.named_parameters()}
    state |= {"accuracy": a} | ({} if ids is None else {"vocabulary": ids.int()})
    progress = training.progress
    card = {
        "name": out.name,
        "kind": "Medusa heads",
        "bases": {"target": model.record.sha256},
        "data": f"{training.per_epoch} answers of {model.record.name} (the text cache), {len(cache.files)} shards",
        "seed": seed,
        "heads": HEADS,
        "parameters": sum(one.numel() for one in training.network.parameters()),
        "steps": progress.step,
        "tokens": progress.tokens,
        "minutes": round(progress.seconds / 60, 1),
        "cpu_minutes": round(progress.cpu_seconds / 60, 1),
        "machine": trained_on("cpu"),
        "draft_vocabulary": None if ids is None else {"tokens": len(ids), "covers": round(coverage(cache, ids), 4)},
        "held_out": {
            "rows": rows,
            "rank_1_ridge_alone": [round(one, 4) for one in began["rank_1"]],
            "rank_1": [round(one, 4) for one in a[:, 0].tolist()],
            "top_4": [round(one, 4) for one in a[:, :4].sum(1).tolist()],
        },
        "licence": "Apache-2.0 (trained here, on what the model wrote)",
        "command": command,
    }
    print(card["held_out"], flush=True)
    install_part(out, state, card)
    file.unlink(missing_ok=True)
    return out


def options(parser: ArgumentParser, defaults: dict[str, Any]) -> None:
    """What the trainings of parts on the text cache take."""
    parser.add_argument("model", help="a causal model by name, as tiny-ar-l or smollm2")
    parser.add_argument("--cache", type=Path, help="the folder of the text cache, instead of the usual one")
    for name, value in defaults.items():
        parser.add_argument(f"--{name}", type=type(value), default=value, help=f"default {value:g}")
    usual(parser, "out", "resume")


def _run(a: Namespace) -> None:
    if a.epochs < 1 or a.minutes <= 0:
        raise UserError(f"--epochs {a.epochs} --minutes {a.minutes:g} trains nothing; give numbers above 0.")
    model: Any = load_model(a.model, kind="causal", dtype="float32")
    given = {name: getattr(a, name) for name in DEFAULTS}
    command = f"{PROGRAM} {NAME} {model.record.name}" + flags((n, v, DEFAULTS[n]) for n, v in given.items())
    cache = cache_of(model, a.seed, a.cache)
    print(train(model, cache, a.out or folder_of(NAME, a.model), command=command, resume=a.resume, **given))


def commands() -> dict[str, Command]:
    """Medusa's heads of any causal model."""
    return {NAME: Command("MODEL's Medusa heads", str(__doc__), lambda p: options(p, DEFAULTS), _run)}
