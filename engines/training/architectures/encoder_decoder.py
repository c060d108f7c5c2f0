"""An encoder-decoder of 8 + 3 layers against 12 decoder-only layers with exactly as many weights (Return of the
Encoder, arXiv 2501.16273): `tiny-encdec` and `tiny-deconly`, which list what a passage names, plainly trained or
distilled from one decoder-only teacher.

`--alpha 0.9` distils: the first part of the training is plain; then alpha KL(teacher || student) is taken on answers
that the student draws itself, and 1 - alpha cross-entropy on the right ones (`distillation.py`). The teacher is trained
first where it is not there yet. Neither it nor the distilled twins ship, since the teacher knows less of this task than
the encoder-decoder learns without it; the cards of what ships have their marks.

Departs from the paper: 1.4 M weights, a teacher of 2.4 M trained here instead of a fine-tuned Phi-3, norms without
gains, no biases, full attention heads; the mean of KL leaves padding out."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import torch

from engines.core.errors import UserError
from engines.training.architectures.answers import (
    SIZES,
    STUDENTS,
    TEACHER,
    Network,
    Size,
    answer_logits,
    build,
    marks,
    written,
)
from engines.training.architectures.distillation import ALPHA, cross_entropy, distillation_loss, forward_kl
from engines.training.architectures.passages import PAD, Asked, rows, tokenizer
from engines.training.core.card import read_card, spent, write_card
from engines.training.core.commands import PROGRAM, Command, flags, usual
from engines.training.core.loop import Loss, Training, Until, attention, checkpoint_file, restore, run, save
from engines.training.core.optimizer import Optimizer, straight
from engines.training.core.weights import read_weights, replaced, write_network
from engines.training.tiny.tokenizer import FOLDER

RISE, LEVEL = 20, 0.6  # steps of the rise; the share of the steps at whose end the rate falls
EMBEDDINGS = 0.3  # of the rate: with the whole one they wander, and looking up is not learnt


class Answering(Training):
    """The steps of one network; with a teacher, those behind the plain ones distil it."""

    def __init__(self, size: Size, seed: int, steps: int, alpha: float, teacher: Network | None) -> None:
        super().__init__()
        self.size, self.seed, self.steps, self.alpha, self.teacher = size, seed, steps, alpha, teacher
        self.plain = size.plain * steps // size.steps if teacher is not None else steps
        self.name, self.settings = size.name, repr((size, seed, steps, alpha))
        given = [("alpha", alpha, 0.0), ("seed", seed, 0), ("steps", steps, size.steps)]
        self.command = f"{PROGRAM} {size.name}{flags(given)}"
        self.network: Network = build(size, seed)
        self.optimizer = self.both = Optimizer(self.network, size.rate, stacked=True)

    def batch(self, share: float) -> Asked:
        """Made from the step's number, so that a training that goes on sees what it would have seen."""
        return rows(self.progress.step, self.seed)

    def loss(self, batch: Asked) -> Loss:
        """Cross-entropy on the right answers and, behind the plain steps, KL on the student's own."""
        ce = cross_entropy(answer_logits(self.network, batch, batch.answers), batch.targets)
        tokens, answered = int(batch.present.sum()), int((batch.answers != PAD).sum())
        if self.teacher is None or self.progress.step < self.plain:
            return Loss(ce, tokens + answered, answered, {"ce": ce.item()})
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + self.progress.step)
        own = written(self.network, batch, batch.answers.shape[1], generator)
        with torch.no_grad():
            taught = answer_logits(self.teacher, batch, own)
        kl = forward_kl(answer_logits(self.network, batch, own), taught, own != PAD)
        value = distillation_loss(kl, ce, self.alpha)
        return Loss(value, tokens + answered, answered, {"ce": ce.item(), "kl": kl.item()})

    def rate(self, share: float) -> None:
        """A rise, a level, and a straight fall over the last part, in which a student is distilled."""
        step, level = self.progress.step, LEVEL * self.steps
        rate = straight(self.size.rate, step, RISE, max(0.0, step - level) / (self.steps - level))
        for part, share_of_it in zip(self.both.parts, (1.0, EMBEDDINGS), strict=True):
            for group in part.param_groups:
                group["lr"] = rate * share_of_it

    def context(self) -> AbstractContextManager[None]:
        """float32, plain attention: networks this small gain nothing from less."""
        return attention("cpu")

    def after_step(self, loss: float, shown: float, facts: dict[str, float] | None) -> None:
        """Keeps the state where plain training ends, from which a twin with another alpha goes on."""
        if self.size.student and self.progress.step == self.size.plain * self.steps // self.size.steps:
            save(self, _common(self))


def _common(training: Answering) -> Path:
    return checkpoint_file(f"{training.name}-plain")


def train(
    size: Size,
    *,
    seed: int = 0,
    steps: int | None = None,
    alpha: float = 0.0,
    resume: bool = False,
    out: Path | None = None,
) -> Path:
    """Train a network and put weights, tokenizer, config and card into `out`: assets/models/NAME for what ships, a
    folder of the cache for the teacher and what was distilled where none is given. Raises UserError for a checkpoint of
    other settings."""
    teacher = _teacher() if size.student and alpha else None
    training = Answering(size, seed, steps or size.steps, alpha, teacher)
    if resume:
        restore(training, checkpoint_file(size.name))
    elif size.student and _common(training).is_file():
        _go_on_from_plain(training)
    progress = run(training, Until(training.steps), checkpoint=checkpoint_file(size.name))
    ships = size.student and not alpha
    folder = out or (FOLDER.parent / size.name if ships else _cached(size, alpha))
    held = marks(training.network)
    with replaced(folder) as partial_folder:
        write_network(partial_folder, training.network, "int8" if ships else "plain")
        _give_tokenizer(partial_folder, folder)
        stored = _measured_again(partial_folder, size, held) if ships else {}
        write_card(
            partial_folder,
            _facts(training, progress) | {"held_out": held} | stored | (_with_teacher(size) if ships else {}),
        )
    checkpoint_file(size.name).unlink(missing_ok=True)
    shipped = FOLDER.parent / size.name
    if folder == _cached(size, ALPHA) and (card := read_card(shipped)):
        write_card(shipped, card | _with_teacher(size))
    return folder


def _give_tokenizer(partial_folder: Path, folder: Path) -> None:
    """The pair's tokenizer: in the first one's folder, by name for the other beside it."""
    first = FOLDER.parent / STUDENTS[0].name
    if folder.parent == first.parent and folder != first and (first / "tokenizer.json").is_file():
        config = json.loads((partial_folder / "config.json").read_text()) | {"tokenizer_from": first.name}
        (partial_folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    else:
        tokenizer().save_pretrained(partial_folder)


def _go_on_from_plain(training: Answering) -> None:
    """The plain steps are the same for every alpha: take them from an earlier training of this size, seed and length,
    where there is one."""
    settings, training.settings = training.settings, ""
    kept = torch.load(_common(training), weights_only=True)["settings"]
    training.settings = kept
    if kept.rpartition(",")[0] == settings.rpartition(",")[0]:
        restore(training, _common(training))
    training.settings = settings


def _cached(size: Size, alpha: float) -> Path:
    name = size.name if not size.student else f"{size.name}-alpha-{alpha:g}"
    return checkpoint_file(name).parent / name


def _teacher() -> Network:
    """The teacher, trained first where it is not there."""
    folder = _cached(TEACHER, 0.0)
    if not (folder / "config.json").is_file():
        train(TEACHER)
    network = build(TEACHER)
    missing = network.load_state_dict(read_weights(folder), strict=False).missing_keys
    if set(missing) - {"lm_head.weight"}:
        raise UserError(f"the teacher in {folder} is of another size; delete that folder, and it is trained again.")
    return network.eval().requires_grad_(False)


def _measured_again(folder: Path, size: Size, held: dict[str, Any]) -> dict[str, Any]:
    """What the weights as they are stored reach, for the card."""
    network = build(size)
    network.load_state_dict(read_weights(folder), strict=False)
    again = marks(network)
    return {"held_out_before_coding": held, "held_out": again}


def _facts(training: Answering, progress: Any) -> dict[str, Any]:
    size = training.size
    taught = training.teacher is not None
    return {
        "name": size.name,
        "title": size.title,
        "kind": "seq2seq" if size.encoder else "causal",
        **({"note": size.note} if size.note else {}),
        "data": "train split of engines/tasks/asking.py",
        "seed": training.seed,
        **spent(progress),
        "plain_steps": training.plain,
        "alpha": training.alpha if taught else 0.0,
        "licence": "Apache-2.0 (trained here, on synthetic data)",
        "command": training.command,
        "parameters": sum(p.numel() for p in training.network.parameters()),
        "tasks": ["ask"],
    }


def _with_teacher(size: Size) -> dict[str, Any]:
    """What the twin that a teacher taught in as many steps reached, and the teacher, where they were trained here."""
    card, teacher = (read_card(_cached(*one)) for one in ((size, ALPHA), (TEACHER, 0.0)))
    if (card.get("seed"), card.get("steps")) != (0, size.steps):
        return {}
    told = {key: card[key] for key in ("steps", "plain_steps", "alpha")}
    return {"with_teacher": card["held_out"] | told | {"teacher": teacher["held_out"]}} if teacher else {}


def compared(cards: Mapping[str, Mapping[str, Any]]) -> tuple[list[str], list[list[Any]]] | None:
    """(head, rows) of a table of the pair among these cards by folder name; None where there is none."""
    head = ["model", "parameters", "steps", "of them plain", "exact match", "nats a token", "with a teacher"]
    rows: list[list[Any]] = []
    for name in (size.name for size in STUDENTS if size.name in cards):
        card, held, other = cards[name], cards[name]["held_out"], cards[name].get("with_teacher")
        told = f"{other['exact_match']:.1%}, {other['nats_per_token']}" if other else "not trained"
        row = [name, f"{card['parameters']:,}", card["steps"], card["plain_steps"], f"{held['exact_match']:.1%}"]
        by = ", ".join(f"{people}: {share:.0%}" for people, share in held["by_people"].items())
        rows.append([*row, held["nats_per_token"], told, by, f"`{card['command']}`"])
    return ([*head, "by people of the passage", "made again by"], rows) if rows else None


def _options(parser: ArgumentParser) -> None:
    usual(parser, "seed", "steps", "resume", "out")
    parser.add_argument(
        "--alpha",
        type=float,
        default=0.0,
        help=f"share of the teacher in the loss: {ALPHA} in the paper, 0 trains without it",
    )


def _run(size: Size, a: Namespace) -> None:
    print(train(size, seed=a.seed, steps=a.steps, alpha=a.alpha, resume=a.resume, out=a.out))


def commands() -> dict[str, Command]:
    """One for each network."""
    return {name: Command(size.title, str(__doc__), _options, partial(_run, size)) for name, size in SIZES.items()}
