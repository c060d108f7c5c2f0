"""The one training of the small architectures: next tokens of the packed corpus, AdamW, a half cosine, float32; what a
network adds to the loss is its recipe's own. It ends with a folder that loads like any model."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedModel

from engines.tasks import TASKS, check
from engines.tasks.rows import prompt_text
from engines.training.architectures.corpus import LENGTH, ROWS, SHARES, Packed, held_out, rows
from engines.training.core.card import spent, write_card
from engines.training.core.commands import PROGRAM, Command, flags, usual
from engines.training.core.data import IGNORED
from engines.training.core.loop import Loss, Progress, Training, Until, attention, checkpoint_file, restore, run
from engines.training.core.optimizer import cosine
from engines.training.core.weights import read_weights, replaced, write_network
from engines.training.tiny.tokenizer import FOLDER, give_tokenizer, load_tokenizer

RATE, RISE = 2e-3, 40  # the highest learning rate, and the steps on which it rises
PROMPTS = 8  # held-out prompts of each task
POSITIONS = 512


class Architecture:
    """A network to train: a subclass says its name, the zoo's title and note and the number of steps, builds it, and
    may add to the loss, train tables at a rate of their own and measure more. `settings`: what a checkpoint must agree
    on, beside those. stored: how its weights are kept, see `coding`; what the card measures are the weights as they are
    kept. rate, rise, decay: the highest learning rate, the steps on which it rises, and the weight decay. plan: the
    steps at which the rate's cosine would end, where that is not the last one. kind: what the zoo loads it as. data:
    what the card says of the text. companions: role -> model beside it."""

    name: str
    title: str
    note: str
    steps: int
    settings: str = ""
    stored: str = "lossless"
    rate: float = RATE
    rise: int = RISE
    decay: float = 0.01
    plan: int | None = None
    kind: str = "causal"
    companions: Mapping[str, str] = {}
    data: str = f"train split of engines/tasks ({', '.join(SHARES)}), packed by engines/training/architectures"

    def build(self, vocabulary: int, eos_id: int, pad_id: int) -> PreTrainedModel:
        """The network without weights that were learnt."""
        raise NotImplementedError

    def batch(self, number: int, seed: int) -> Packed:
        """The rows of a step."""
        return rows(number, seed)

    def tables(self, network: PreTrainedModel) -> list[nn.Parameter]:
        """Weights that learn at `table_rate` times the rate of the others, and do not decay."""
        return []

    def table_rate(self, share: float) -> float:
        """When that share of the steps is done."""
        return 1.0

    def loss(self, network: PreTrainedModel, batch: Packed, share: float) -> tuple[Tensor, dict[str, float]]:
        """The loss of a batch, in nats per learnt token and whatever is added, and parts of it to show."""
        value = token_loss(network, batch)
        return value, {"loss": value.item()}

    def measured(self, network: PreTrainedModel, packed: Packed) -> dict[str, Any]:
        """What the card says of held-out rows beside their loss."""
        return {}

    def glimpse(self, network: PreTrainedModel, step: int) -> dict[str, float] | None:
        """A point of the card's curve, measured behind so many steps and before the first; None: not here."""
        return None


def token_loss(network: PreTrainedModel, batch: Packed) -> Tensor:
    """Mean cross-entropy, in nats, of the learnt tokens of a batch; the output layer runs on their rows only."""
    wanted = batch.targets != IGNORED
    h = network.base_model(input_ids=batch.ids, use_cache=False).last_hidden_state[wanted]
    return F.cross_entropy(network.get_output_embeddings()(h), batch.targets[wanted])


class Language(Training):
    """The steps of one architecture."""

    def __init__(self, what: Architecture, seed: int, steps: int) -> None:
        super().__init__()
        self.what, self.seed, self.steps, self.name = what, seed, steps, what.name
        self.plan = what.plan if what.plan and steps == what.steps else steps
        self.settings = repr((what.name, what.settings, seed, self.plan, LENGTH, ROWS, SHARES))
        self.command = f"{PROGRAM} {what.name}{flags([('seed', seed, 0), ('steps', steps, what.steps)])}"
        torch.manual_seed(seed)
        tokenizer = load_tokenizer()
        self.network = what.build(len(tokenizer), tokenizer.eos_token_id, tokenizer.pad_token_id)
        tables = what.tables(self.network)
        apart = {id(table) for table in tables}
        groups: list[dict[str, Any]] = [{"params": [p for p in self.network.parameters() if id(p) not in apart]}]
        groups += [{"params": tables, "weight_decay": 0.0}] if tables else []
        self.optimizer = torch.optim.AdamW(groups, lr=what.rate, betas=(0.9, 0.95), weight_decay=what.decay, fused=True)
        self.curve: list[dict[str, float]] = []
        self._look()

    def batch(self, share: float) -> Packed:
        """Made from the step's number."""
        return self.what.batch(self.progress.step, self.seed)

    def loss(self, batch: Packed) -> Loss:
        """See `Architecture.loss`; the share done goes by the steps."""
        value, facts = self.what.loss(self.network, batch, self.progress.step / self.steps)
        return Loss(value, batch.ids.numel(), int((batch.targets != IGNORED).sum()), facts)

    def rate(self, share: float) -> float:
        """A rise, then half a cosine; it goes by the steps, wherever a training was interrupted."""
        for group in self.optimizer.param_groups[1:]:
            group["factor"] = self.what.table_rate(self.progress.step / self.plan)
        return cosine(self.what.rate, self.progress.step, self.what.rise, self.progress.step / self.plan)

    def after_step(self, loss: float, shown: float, facts: dict[str, float] | None) -> None:
        """Another point of the curve, where one is due."""
        self._look()

    def _look(self) -> None:
        self.network.eval()
        with torch.no_grad():
            point = self.what.glimpse(self.network, self.progress.step)
        if point is not None:
            self.curve.append({"step": self.progress.step, **point})

    def state(self) -> dict[str, Any]:
        """The curve so far."""
        return {"curve": self.curve}

    def load(self, state: dict[str, Any]) -> None:
        """Go on with the curve of a checkpoint."""
        self.curve = state["curve"]

    def context(self) -> AbstractContextManager[None]:
        """float32, plain attention."""
        return attention("cpu")


def train(
    what: Architecture, *, seed: int = 0, steps: int | None = None, resume: bool = False, out: Path | None = None
) -> Path:
    """Train it and put weights, tokenizer, config and card into `out` (assets/models/NAME). Raises UserError for a
    checkpoint of other settings."""
    training = Language(what, seed, steps or what.steps)
    if resume:
        restore(training, checkpoint_file(what.name))
    progress = run(training, Until(steps or what.steps), checkpoint=checkpoint_file(what.name))
    folder = out or FOLDER.parent / what.name
    network = training.network.to(torch.bfloat16)
    with replaced(folder) as partial_folder:
        write_network(partial_folder, network, what.stored)
        network.float().load_state_dict(read_weights(partial_folder), strict=False)  # a tied head is not written
        give_tokenizer(partial_folder)
        write_card(partial_folder, _facts(what, seed, training, progress))
    checkpoint_file(what.name).unlink(missing_ok=True)
    return folder


def _facts(what: Architecture, seed: int, training: Language, progress: Progress) -> dict[str, Any]:
    network, packed = training.network.float().eval(), held_out()
    with torch.no_grad():
        loss = float(token_loss(network, packed))
    return {
        "name": what.name,
        "title": what.title,
        "kind": what.kind,
        "note": what.note,
        "data": what.data,
        "seed": seed,
        **spent(progress),
        "licence": "Apache-2.0 (trained here, on synthetic data)",
        "command": training.command,
        "parameters": sum(p.numel() for p in network.parameters()),
        "tasks": list(SHARES),
        **({"companions": dict(what.companions)} if what.companions else {}),
        "held_out": {
            "rows": len(packed.ids),
            "loss": round(loss, 4),
            **what.measured(network, packed),
            "prompts_per_task": PROMPTS,
            "exact_match": exact_match(network),
        },
        **({"curve": training.curve} if training.curve else {}),
    }


@torch.no_grad()
def exact_match(network: PreTrainedModel, prompts: int = PROMPTS) -> dict[str, float]:
    """The share of held-out prompts of each task whose greedy answer passes its check."""
    tokenizer, right = load_tokenizer(), dict[str, float]()
    for task in SHARES:
        asked = list(islice(TASKS[task].generate("held-out", seed=1), prompts))
        found = [check(one, _answer(network, tokenizer, one.prompt)).correct for one in asked]
        right[task] = sum(found) / len(asked)
    return right


def _answer(network: PreTrainedModel, tokenizer: Any, prompt: str) -> str:
    ids = torch.tensor([tokenizer(prompt_text(prompt))["input_ids"]])
    out = network.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=96,
        do_sample=False,
        eos_token_id=tokenizer.eos_token_id,
    )
    return str(tokenizer.decode(out[0, ids.shape[1] :], skip_special_tokens=True)).strip()


def command_of(what: Architecture) -> Command:
    """The command that trains it."""
    return Command(what.title, str(__doc__), _options, partial(_run, what))


def _options(parser: ArgumentParser) -> None:
    usual(parser, "seed", "steps", "resume", "out")


def _run(what: Architecture, a: Namespace) -> None:
    print(train(what, seed=a.seed, steps=a.steps, resume=a.resume, out=a.out))
