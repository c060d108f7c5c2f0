"""Trains the acceptance head of a pair: will the target keep this drafted token? `python -m engines.training
accept-head TARGET [--draft NAME]`.

Follows arXiv 2405.19715 (and data/*.py, train.py of Kaffaljidhmah2/SpecDec_pp). The target answers a prompt by
sampling: X. The drafter reads prompt and X and draws a token Y_i of its own at every place; its label is the chance
that the target keeps it, min(1, p(Y_i) / q(Y_i)), both given X before i. Then the drafter reads a mixture Z, X_i with
chance r = 0.15 and else Y_i, and the head learns the label of each Y_i that stayed from the hidden state at that very
token. The drafter is frozen. The loss weighs refusals by w = 6, so the head is pessimistic on purpose; the card says
what its figures mean without that weight.

We depart in three points: the mixture is drawn several times from each answer, the weights kept are those with the
least validation loss, and blocks of our own training have weights of their own (`--shared` repeats one, as released).
"""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor, nn
from tqdm import tqdm

from engines.core.errors import UserError
from engines.core.kinds import CausalLM
from engines.core.machine import trained_on
from engines.core.sampling import draw
from engines.models.files import smollm2
from engines.models.loading.zoo import companion, load_model
from engines.models.parts import folder_of
from engines.models.parts.accept_head import COMMAND, AcceptHead, from_state
from engines.training.core.commands import Command, flags, usual
from engines.training.core.loop import Loss, Training, Until, checkpoint_file, restore, run
from engines.training.core.parts import cleared, install_part, prompts_of, recorded, split
from engines.training.heads.accept_marks import Records, loss_of, marks

LEARNING_RATE, BATCH = 1e-3, 256
CHAT_SEED, TOGETHER = 70_000, 32  # a seed that no answers for the draft are written with; prompts answered at once
TASK_PROMPTS = "of the train split of engines/tasks, the tasks in turn"
DEFAULTS = {
    "prompts": 300,
    "length": 64,
    "copies": 4,
    "layers": 2,
    "epochs": 12,
    "weight": 6.0,
    "mixing": 0.15,
    "seed": 0,
}


def labels(logp_target: Tensor, logp_draft: Tensor) -> Tensor:
    """min(1, p/q) from log-probabilities, same shape."""
    return (logp_target - logp_draft).clamp(max=0).exp()


@torch.inference_mode()
def answer(target: CausalLM, prompt: Sequence[int], length: int, rng: Generator) -> list[int]:
    """X: up to `length` tokens drawn from the target, its end mark included."""
    cache, ids = target.new_cache(len(prompt) + length), list(prompt)
    while len(ids) < len(prompt) + length and not (len(ids) > len(prompt) and ids[-1] in target.eos_ids):
        z = target.extend(ids[cache.length :], cache, last_only=True).logits[0]
        ids.append(draw(z.double().softmax(-1), rng))
    return ids[len(prompt) :]


@torch.inference_mode()
def record(
    target: CausalLM,
    drafter: CausalLM,
    prompt: Sequence[int],
    X: Sequence[int],
    copies: int,
    mixing: float,
    rng: Generator,
) -> Records:
    """Labels and hidden states of the tokens that the drafter draws along X, of `copies` mixtures."""
    n, m = len(X), len(prompt)
    fed = [*prompt, *X]
    p, q = (
        model.extend(fed[:-1], model.new_cache(m + n)).logits[m - 1 :].double().log_softmax(-1).cpu()
        for model in (target, drafter)
    )  # [n, V]
    v = min(p.shape[-1], q.shape[-1])  # families pad their vocabularies differently
    rows: list[tuple[Tensor, Tensor, Tensor]] = []
    for _ in range(copies):
        Y = torch.multinomial(q[:, :v].exp(), 1, generator=rng)  # [n, 1]
        kept = torch.rand(n, generator=rng) >= mixing
        Z = torch.where(kept, Y[:, 0], torch.tensor(X))
        h = drafter.extend([*prompt, *Z.tolist()], drafter.new_cache(m + n), hidden=(drafter.num_layers,)).hidden[
            drafter.num_layers
        ][m:]
        own = q.gather(-1, Y)[:, 0]
        rows.append((h.float().cpu()[kept], labels(p.gather(-1, Y)[:, 0], own).float()[kept], own.exp().float()[kept]))
    return Records(*(torch.cat(column) for column in zip(*rows, strict=True)))


def joined(parts: Sequence[Records]) -> Records:
    """All records in one."""
    return Records(*(torch.cat([getattr(part, name) for part in parts]) for name in ("h", "y", "q")))


class HeadTraining(Training):
    """AdamW over shuffled batches; the tensors with the least validation loss of an epoch are kept."""

    clip = None

    def __init__(
        self, train: Records, validation: Records, layers: int, shared: bool, weight: float, seed: int, name: str
    ) -> None:
        super().__init__()
        d, n = train.h.shape[1], min(layers, 1) if shared else layers
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            out = nn.Linear(d, 2)
        W, b = ([nn.Parameter(torch.zeros(*shape)) for _ in range(n)] for shape in ((d, d), (d,)))  # the identity
        self.head = AcceptHead("", "", tuple(W), tuple(b), out.weight, out.bias, layers)
        names = [f"blocks.{i}.{part}" for part in ("weight", "bias") for i in range(n)] + ["out.weight", "out.bias"]
        self.tensors: dict[str, nn.Parameter] = dict(zip(names, [*W, *b, out.weight, out.bias], strict=True))
        self.network = nn.ParameterList(self.tensors.values())
        self.optimizer = torch.optim.AdamW(self.network.parameters(), lr=LEARNING_RATE)
        self.train, self.validation, self.weight, self.name = train, validation, weight, name
        self.rng, self.order = Generator().manual_seed(seed), torch.empty(0, dtype=torch.long)
        self.epoch, self.seen = -1, 0.0  # of the order
        self.best: dict[str, Tensor] = {}
        self.facts = {"epoch": 0.0, "validation_loss": float("inf")}

    @property
    def per_epoch(self) -> int:
        """Steps of one pass over the records."""
        return -(-len(self.train) // BATCH)

    def context(self) -> AbstractContextManager[Any]:
        """Plain float32."""
        return nullcontext()

    def batch(self, share: float) -> Tensor:
        """Numbers of the next records; every epoch has an order of its own."""
        epoch, number = divmod(self.progress.step, self.per_epoch)
        if epoch != self.epoch:
            self.order, self.epoch, self.seen = torch.randperm(len(self.train), generator=self.rng), epoch, 0.0
        return self.order[number * BATCH : (number + 1) * BATCH]

    def loss(self, batch: Tensor) -> Loss:
        """The weighted loss of the paper."""
        return Loss(loss_of(self.head.logits(self.train.h[batch]), self.train.y[batch], self.weight), len(batch))

    @torch.no_grad()
    def after_step(self, loss: float, shown: float, facts: dict[str, float] | None) -> None:
        """A look at the validation records at the end of an epoch."""
        epoch, number = divmod(self.progress.step - 1, self.per_epoch)
        self.seen += loss * min(BATCH, len(self.train) - number * BATCH)
        if number + 1 < self.per_epoch:
            return
        unseen = float(loss_of(self.head.logits(self.validation.h), self.validation.y, self.weight))
        if unseen < self.facts["validation_loss"]:
            train_loss = self.seen / len(self.train)
            self.facts = {"epoch": epoch + 1, "train_loss": train_loss, "validation_loss": unseen}
            self.best = {key: value.detach().clone() for key, value in self.tensors.items()}

    def state(self) -> dict[str, Any]:
        """The order of the epoch under way, and the best so far."""
        own = {"order": self.order, "epoch": self.epoch, "seen": self.seen, "best": self.best, "facts": self.facts}
        return own | {"random": self.rng.get_state()}

    def load(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        self.rng.set_state(state["random"])
        self.order, self.epoch, self.seen = state["order"], state["epoch"], state["seen"]
        self.best, self.facts = state["best"], state["facts"]


def fit(
    train: Records,
    validation: Records,
    *,
    layers: int,
    shared: bool,
    epochs: int,
    weight: float,
    seed: int,
    name: str = "accept-head",
    command: str = "",
    resume: bool = False,
) -> tuple[dict[str, Tensor], dict[str, float]]:
    """The tensors with the least validation loss, and how they came. With a command the training is checkpointed."""
    training = HeadTraining(train, validation, layers, shared, weight, seed, name)
    training.command, training.settings = command, f"{name} {layers} {shared} {epochs} {weight} {seed} {len(train)}"
    file = checkpoint_file(name) if command else None
    if resume and file is not None and file.is_file():
        restore(training, file)
    run(training, Until(epochs * training.per_epoch), checkpoint=file)
    return training.best, {key: round(value, 5) for key, value in training.facts.items()}


def chats(n: int, length: int, seed: int) -> tuple[list[str], list[list[int]]]:
    """n prompts as SmolLM2's draft was trained on, but others, and what SmolLM2 answers at temperature 1 in up to
    `length` tokens; many at once."""
    from engines.training.smollm2.draft_data import Writer, load_target

    writer = Writer(*load_target(), seed=CHAT_SEED + seed)
    asked = list(islice(writer.prompts(), n))
    answers = [
        a["ids"]
        for part in (asked[i : i + TOGETHER] for i in range(0, n, TOGETHER))
        for a in writer.write([ids for _, ids in part], torch.ones(len(part)), length, keep_top=False)
    ]
    return [prompt for prompt, _ in asked], answers


def train_head(
    target: CausalLM,
    drafter: CausalLM,
    prompts: Sequence[str],
    settings: Mapping[str, Any],
    *,
    shared: bool,
    out: Path,
    command: str,
    answers: Sequence[Sequence[int]] = (),
    resume: bool = False,
) -> Path:
    """Record, train, mark and write model.safetensors and card.json into the folder `out`, replaced when all is there.
    Returns it. Interrupted, it keeps what was recorded and learnt for `resume`.

    settings: as in DEFAULTS, without the number of prompts. answers: X of every prompt where they were written already.
    """
    pair = f"{target.record.sha256} {drafter.record.sha256} {len(prompts)}"
    drawn = [settings[name] for name in ("length", "copies", "mixing", "seed")]
    records, minutes = recorded(
        out.name,
        f"{pair} {drawn}",
        Records,
        lambda: record_all(target, drafter, prompts, settings, answers),
        resume,
    )
    began = time.monotonic()
    train, validation, test = (joined(part) for part in split(records, settings["seed"]))
    fixed = {name: settings[name] for name in ("layers", "epochs", "weight", "seed")}
    state, facts = fit(train, validation, shared=shared, name=out.name, command=command, resume=resume, **fixed)
    head = from_state(state, out.name, settings["layers"])
    card = {
        "name": out.name,
        "kind": "acceptance head",
        "target": target.record.name,
        "target_sha256": target.record.sha256,
        "draft": drafter.record.name,
        "draft_sha256": drafter.record.sha256,
        "data": f"{len(prompts)} prompts {'drawn as for the draft, but others' if answers else TASK_PROMPTS}, "
        "answered by the target at temperature 1",
        **{name: settings[name] for name in ("seed", "layers", "copies", "mixing", "epochs")},
        "weight_of_refusals": settings["weight"],
        "shared": shared,
        "parameters": sum(t.numel() for t in state.values()),
        "tokens": {"train": len(train), "validation": len(validation), "held_out": len(test)},
        "split": "80/10/10 of the prompts",
        "kept": facts,
        "minutes": round(minutes + (time.monotonic() - began) / 60, 1),
        "minutes_of_them_recording": round(minutes, 1),
        "machine": trained_on(target.record.device),
        "held_out": marks(head, test, settings["weight"]),
        "licence": "Apache-2.0 (trained here, on what the models wrote for synthetic prompts)",
        "command": command,
    }
    install_part(out, state, card)
    cleared(out.name)
    return out


def record_all(
    target: CausalLM,
    drafter: CausalLM,
    prompts: Sequence[str],
    settings: Mapping[str, Any],
    answers: Sequence[Sequence[int]],
) -> list[Records]:
    """The records of every prompt."""
    rng, records = Generator().manual_seed(settings["seed"]), []
    for i, prompt in enumerate(tqdm(prompts, desc="answers", unit="prompt")):
        ids = target.tokenizer.encode_prompt(prompt)
        length = min(settings["length"], min(target.max_positions, drafter.max_positions) - len(ids))
        X = answers[i] if answers else answer(target, ids, length, rng)
        records.append(record(target, drafter, ids, X, settings["copies"], settings["mixing"], rng))
    return records


def _options(parser: ArgumentParser) -> None:
    parser.add_argument("target", help="a causal model by name, folder or hub id, as tiny-ar-l")
    parser.add_argument("--draft", help="the drafter (default: the target's companion)")
    parser.add_argument("--shared", action="store_true", help="one block for all layers, as released")
    for name, value in DEFAULTS.items():
        parser.add_argument(f"--{name}", type=type(value), default=value, help=f"default {value:g}")
    usual(parser, "device", "out", "resume")


def _run(a: Namespace) -> None:
    target: Any = load_model(a.target, kind="causal", device=a.device)
    drafter_name = a.draft or companion(target.record.name, "draft")
    if drafter_name is None:
        raise UserError(f"no drafter is known for {target.record.name}; name one with --draft.")
    drafter: Any = load_model(drafter_name, kind="causal", device=a.device)
    given: list[tuple[str, object, object]] = [("draft", a.draft, None), ("shared", a.shared, False)]
    given += [(name, getattr(a, name), value) for name, value in DEFAULTS.items()]
    command = f"{COMMAND} {target.record.name}{flags(given)}"
    if target.record.name == smollm2.NAME:
        prompts, answers = chats(a.prompts, a.length, a.seed)
    else:
        prompts, answers = list(islice(prompts_of(a.seed), a.prompts)), []
    settings = {name: getattr(a, name) for name in DEFAULTS if name != "prompts"}
    out, more = a.out or folder_of("accept-head", target.record.name), {"answers": answers, "resume": a.resume}
    print(train_head(target, drafter, prompts, settings, shared=a.shared, out=out, command=command, **more))


def commands() -> dict[str, Command]:
    """The acceptance head of any pair."""
    return {"accept-head": Command("TARGET's head that foresees refusals (SpecDec++)", str(__doc__), _options, _run)}
