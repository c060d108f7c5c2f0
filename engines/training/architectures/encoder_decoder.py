"""An encoder-decoder of 8 + 3 layers against 12 decoder-only layers with exactly as many weights (Return of the
Encoder, arXiv 2501.16273), both distilled from one decoder-only teacher: `tiny-encdec` and `tiny-deconly`, which list
what a passage names.

The first part of a student's training is plain; then alpha KL(teacher || student) is taken on answers that the student
draws itself, and 1 - alpha cross-entropy on the right ones (`distillation.py`). `--alpha 0` trains the twin without a
teacher, of which the card of the shipped one tells. The teacher is trained first where it is not there yet; it does not
ship.

Departs from the paper: 1.4 M weights, a teacher of 1.9 M trained here instead of a fine-tuned Phi-3, norms without
gains, no biases, full attention heads; the mean of KL leaves padding out."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from engines.core.errors import UserError
from engines.core.machine import trained_on
from engines.models.networks.mu import MuConfig, MuForSeq2Seq
from engines.models.networks.plain_decoder import PlainDecoderConfig, PlainDecoderForCausalLM
from engines.tasks.asking import ASKED
from engines.training.architectures.distillation import (
    ALPHA,
    cross_entropy,
    distillation_loss,
    drawn,
    forward_kl,
    teacher_slice,
)
from engines.training.architectures.passages import END, PAD, TURN, Asked, rows, shifted, tokenizer
from engines.training.core.card import write_card
from engines.training.core.commands import PROGRAM, Command, flags, usual
from engines.training.core.loop import Loss, Training, Until, attention, checkpoint_file, restore, run, save
from engines.training.core.optimizer import Optimizer, straight
from engines.training.core.weights import replaced, write_network
from engines.training.tiny.tokenizer import FOLDER

RISE, LEVEL, POSITIONS = 20, 0.6, 512  # steps of the rise; the share of the steps at whose end the rate falls
EMBEDDINGS = 0.3  # with the whole rate they wander, and looking up is not learnt
Network = MuForSeq2Seq | PlainDecoderForCausalLM


@dataclass(frozen=True)
class Size:
    """A network to train. plain: steps before the distillation, all of them where there is none."""

    name: str
    title: str
    encoder: int
    decoder: int
    hidden: int
    heads: int
    steps: int
    plain: int
    rate: float = 1e-2  # of the matrices; embeddings take EMBEDDINGS of it
    spread: float = 0.1  # of the first weights
    note: str = ""

    @property
    def student(self) -> bool:
        """Whether it is distilled."""
        return self.plain < self.steps


TEACHER = Size("ask-teacher", "The teacher of the pair", 0, 4, 192, 4, 300, 300)
STUDENTS = (
    Size(
        "tiny-encdec",
        "Tiny encoder-decoder (8 layers read, 3 write)",
        8,
        3,
        96,
        4,
        450,
        270,
        note="lists the cities, things, colours, ages or people of a short passage, such as ask: Which cities? Mia "
        "lives in Rome. Ben has a kite. Ada lives in Bonn. Its twin tiny-deconly has as many weights",
    ),
    Size(
        "tiny-deconly",
        "Tiny decoder-only twin of the encoder-decoder (12 layers)",
        0,
        12,
        96,
        4,
        450,
        270,
        note="lists what a short passage names, with as many weights as tiny-encdec, from the same teacher",
    ),
)
SIZES = {size.name: size for size in (TEACHER, *STUDENTS)}


def build(size: Size, seed: int = 0) -> Network:
    """A network without weights that were learnt."""
    torch.manual_seed(seed)
    usual_ones: dict[str, Any] = {
        "vocab_size": len(tokenizer()),
        "hidden_size": size.hidden,
        "num_attention_heads": size.heads,
        "num_key_value_heads": size.heads,
        "max_position_embeddings": POSITIONS,
        "initializer_range": size.spread,
        "tie_word_embeddings": True,
        "bos_token_id": None,
        "eos_token_id": END,
        "pad_token_id": PAD,
    }
    if not size.encoder:
        return looking_for_its_like(
            PlainDecoderForCausalLM(PlainDecoderConfig(num_hidden_layers=size.decoder, **usual_ones))
        )
    layers = {"encoder_layers": size.encoder, "decoder_layers": size.decoder, "decoder_start_token_id": TURN}
    return looking_for_its_like(MuForSeq2Seq(MuConfig(**layers, **usual_ones)))


@torch.no_grad()
def looking_for_its_like(network: Any) -> Any:
    """Attention that begins by looking for rows like its own and copying them: keys as queries, the output the inverse
    of the values, halved (after Trockman and Kolter 2023, mimetic initialisation). Looking a name up is learnt in a
    fraction of the steps then; the published network begins with normal weights."""
    for part in network.modules():
        if hasattr(part, "q_proj"):
            for matrix in (part.q_proj, part.v_proj):
                torch.nn.init.orthogonal_(matrix.weight)
            part.k_proj.weight.copy_(part.q_proj.weight)
            part.o_proj.weight.copy_(part.v_proj.weight.T / 2)
    return network


def answer_logits(network: Network, batch: Asked, answers: Tensor) -> Tensor:
    """Logits [B, D, V] that predict answers [B, D], each from the tokens before it."""
    if isinstance(network, MuForSeq2Seq):
        logits: Tensor = network(batch.inputs, shifted(answers), batch.present).logits
        return logits
    both = torch.cat([batch.inputs, answers], 1)
    present = torch.cat([batch.present, torch.ones_like(answers, dtype=torch.bool)], 1)
    h = network.model(input_ids=both, attention_mask=present, use_cache=False).last_hidden_state
    out: Tensor = network.lm_head(h[:, teacher_slice(batch.inputs.shape[1], answers.shape[1])])
    return out


@torch.no_grad()
def written(network: Network, batch: Asked, D: int, generator: torch.Generator | None = None) -> Tensor:
    """Answers [B, D] that a network writes: drawn with a generator, greedily without; padded behind the end mark."""
    if isinstance(network, MuForSeq2Seq):
        memory = network.memory(network.encode(batch.inputs, batch.present))
    cache, fed, answers = DynamicCache(), batch.inputs, batch.inputs[:, :0]
    over = torch.zeros(len(fed), dtype=torch.bool)
    for step in range(D):
        if isinstance(network, MuForSeq2Seq):
            fed = torch.full_like(fed[:, :1], TURN) if step == 0 else answers[:, -1:]
            h = network.decode(fed, memory, past=step, present=batch.present, cache=cache)
        else:
            present = torch.cat([batch.present, torch.ones_like(answers, dtype=torch.bool)], 1)
            h = network.model(fed, attention_mask=present, past_key_values=cache, use_cache=True).last_hidden_state
        z = network.lm_head(h[:, -1])
        token = (z.argmax(-1) if generator is None else drawn(z, generator)).masked_fill(over, PAD)
        over |= (token == END) | (token == PAD)
        answers = fed = torch.cat([answers, token[:, None]], 1)
        fed = fed[:, -1:]
        if over.all():
            break
    return answers


class Answering(Training):
    """The steps of one network; with a teacher, those behind the plain ones distil it."""

    def __init__(self, size: Size, seed: int, steps: int, alpha: float, teacher: Network | None) -> None:
        super().__init__()
        self.size, self.seed, self.steps, self.alpha, self.teacher = size, seed, steps, alpha, teacher
        self.plain = size.plain * steps // size.steps if teacher is not None else steps
        self.name, self.settings = size.name, repr((size, seed, steps, alpha))
        given = [("alpha", alpha, ALPHA if size.student else 0.0), ("seed", seed, 0), ("steps", steps, size.steps)]
        self.command = f"{PROGRAM} {size.name}{flags(given)}"
        self.network: Network = build(size, seed)
        self.optimizer = Optimizer(self.network, size.rate, stacked=True)

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
        for part, share_of_it in zip(self.optimizer.parts, (1.0, EMBEDDINGS), strict=True):
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


@torch.no_grad()
def marks(network: Network, batches: int = 5, count: int = 40) -> dict[str, Any]:
    """On held-out prompts of the sizes that are asked: the share answered exactly, and nats per answer token; by the
    number of people too."""
    network.eval()
    right, nats, tokens, by = 0, 0.0, 0, dict[str, float]()
    for people in range(ASKED[0], ASKED[1] + 1):
        hits = 0
        for number in range(batches):
            batch = rows(number, 1, "held-out", count, people)
            z = answer_logits(network, batch, batch.answers)
            n = int((batch.answers != PAD).sum())
            nats, tokens = nats + n * float(cross_entropy(z, batch.targets)), tokens + n
            own = written(network, batch, batch.answers.shape[1])
            own = torch.nn.functional.pad(own, (0, batch.answers.shape[1] - own.shape[1]), value=PAD)
            hits += int((own == batch.answers).all(1).sum())
        by[str(people)] = round(hits / (batches * count), 4)
        right += hits
    prompts = len(by) * batches * count
    return {
        "prompts": prompts,
        "exact_match": round(right / prompts, 4),
        "nats_per_token": round(nats / tokens, 4),
        "by_people": by,
    }


def train(
    size: Size,
    *,
    seed: int = 0,
    steps: int | None = None,
    alpha: float | None = None,
    resume: bool = False,
    out: Path | None = None,
) -> Path:
    """Train a network and put weights, tokenizer, config and card into `out`: assets/models/NAME for what ships, a
    folder of the cache for the teacher and for other alphas. Raises UserError for a checkpoint of other settings."""
    alpha = (ALPHA if size.student else 0.0) if alpha is None else alpha
    teacher = _teacher() if size.student and alpha else None
    training = Answering(size, seed, steps or size.steps, alpha, teacher)
    if resume:
        restore(training, checkpoint_file(size.name))
    elif size.student and _common(training).is_file():
        _go_on_from_plain(training)
    progress = run(training, Until(training.steps), checkpoint=checkpoint_file(size.name))
    ships = size.student and alpha == ALPHA
    folder = out or (FOLDER.parent / size.name if ships else _cached(size, alpha))
    held = marks(training.network)
    with replaced(folder) as partial_folder:
        write_network(partial_folder, training.network, "int8" if ships else "plain")
        _give_tokenizer(partial_folder, folder)
        stored = _measured_again(partial_folder, size, held) if ships else {}
        write_card(partial_folder, _facts(training, progress) | {"held_out": held} | stored)
    checkpoint_file(size.name).unlink(missing_ok=True)
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


def load_network(folder: Path) -> Network:
    """The weights of a folder, in float32."""
    from engines.models.weights import pretrained

    kind = MuForSeq2Seq if (folder / "config.json").read_text().count("encoder_layers") else PlainDecoderForCausalLM
    config = kind.config_class.from_pretrained(folder)
    network: Network = pretrained(kind.__name__, folder, config, dtype=torch.float32).eval()
    return network


def _teacher() -> Network:
    """The teacher, trained first where it is not there."""
    folder = _cached(TEACHER, 0.0)
    if not (folder / "config.json").is_file():
        train(TEACHER)
    network = build(TEACHER)
    from engines.training.core.weights import read_weights

    missing = network.load_state_dict(read_weights(folder), strict=False).missing_keys
    if set(missing) - {"lm_head.weight"}:
        raise UserError(f"the teacher in {folder} is of another size; delete that folder, and it is trained again.")
    return network.eval().requires_grad_(False)


def _measured_again(folder: Path, size: Size, held: dict[str, Any]) -> dict[str, Any]:
    """What the weights as they are stored reach, for the card."""
    network = build(size)
    from engines.training.core.weights import read_weights

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
        "steps": progress.step,
        "plain_steps": training.plain,
        "alpha": training.alpha if taught else 0.0,
        "tokens": progress.tokens,
        "minutes": round(progress.seconds / 60, 1),
        "cpu_seconds": round(progress.cpu_seconds),
        "machine": trained_on("cpu"),
        "licence": "Apache-2.0 (trained here, on synthetic data)",
        "command": training.command,
        "parameters": sum(p.numel() for p in training.network.parameters()),
        "tasks": ["ask"],
    }


def _options(parser: ArgumentParser) -> None:
    usual(parser, "seed", "steps", "resume", "out")
    parser.add_argument("--alpha", type=float, help=f"share of the teacher in the loss, {ALPHA} for a student")


def _run(size: Size, a: Namespace) -> None:
    print(train(size, seed=a.seed, steps=a.steps, alpha=a.alpha, resume=a.resume, out=a.out))


def commands() -> dict[str, Command]:
    """One for each network."""
    return {name: Command(size.title, str(__doc__), _options, partial(_run, size)) for name, size in SIZES.items()}
