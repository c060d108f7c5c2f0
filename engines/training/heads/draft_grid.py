"""Trains a grid of small drafts, four sizes at six lengths of training: python -m engines.training draft-grid

All sizes see the same batches in the same order, prompts of the training split with their answers, and learn by soft
cross-entropy what the target says at each token of an answer; its logits are computed once for all. Every size is one
run at a constant rate. A checkpoint is a branch of it: the last fifth of its steps, on the same batches, with a rate
that falls to nothing, since a checkpoint from the middle of a run would measure its schedule. No batch is seen twice.
All checkpoints lie in one part, in int8 by row."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from contextlib import AbstractContextManager
from copy import deepcopy
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from engines.core.errors import UserError
from engines.core.machine import trained_on
from engines.models.loading.zoo import load_model
from engines.models.networks.sized_draft import SIZES, SizedDraft, parameters
from engines.models.parts import folder_of
from engines.training.core.coding import convert
from engines.training.core.commands import PROGRAM, Command, flags, usual
from engines.training.core.data import batches
from engines.training.core.loop import Loss, Training, Until, attention, checkpoint_file, restore, run
from engines.training.core.parts import install_part
from engines.training.core.text_cache import soft_cross_entropy
from engines.training.tiny.recipes import RECIPES
from engines.training.tiny.tokenizer import load_tokenizer

NAME, TARGET = "draft-grid", "tiny-ar-l"
POINTS = (16, 32, 64, 128, 256, 512)  # steps of the checkpoints
BATCH, RATE, WARMUP, COOLING = 512, 3e-3, 8, 0.2
IGNORED = -100


class GridTraining(Training):
    """Four trunks, and while a checkpoint cools four branches beside them."""

    clip = None

    def __init__(self, target: Any, points: tuple[int, ...], seed: int) -> None:
        super().__init__()
        self.name, self.command, self.points, self.seed = NAME, f"{PROGRAM} {NAME}", points, seed
        self.settings = f"{NAME} {target.record.sha256} {points} {seed} {BATCH} {RATE} {COOLING}"
        self.target = target.model
        torch.manual_seed(seed)
        E = self.target.get_input_embeddings().weight
        positions = target.max_positions
        self.trunks = nn.ModuleDict({size.name: SizedDraft(size, E, positions) for size in SIZES})
        self.branches = nn.ModuleDict({size.name: SizedDraft(size, E, positions) for size in SIZES})
        self.network = nn.ModuleDict({"trunk": self.trunks, "branch": self.branches})
        groups = [{"params": list(part.parameters())} for part in (self.trunks, self.branches)]
        self.adam = torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.95), weight_decay=0.01)
        self.optimizer = self.adam
        self.made: dict[str, Tensor] = {}
        self.read: dict[str, int] = {}
        self._go_to((0, 0))

    def _go_to(self, position: tuple[int, int]) -> None:
        mixture = {task: share for task, share in RECIPES[TARGET].mixture.items() if task != "tell"}
        recipe = replace(RECIPES[TARGET], batch=BATCH, order=f"{NAME}-{self.seed}", mixture=mixture)
        self.position = position
        self._batches = batches(recipe, load_tokenizer(), position)

    def context(self) -> AbstractContextManager[Any]:
        """Plain float32: the networks are small."""
        return attention("cpu")

    def batch(self, share: float) -> dict[str, Tensor]:
        """The next batch; rates are set, and a branch begins where one is due."""
        step = self.progress.step
        point = next(at for at in self.points if at > step)
        first = point - round(COOLING * point)
        if step == first:
            self._branch()
        trunk, branch = self.adam.param_groups
        trunk["lr"] = RATE * min(1.0, (step + 1) / WARMUP)
        branch["lr"] = RATE * (point - step) / (point - first + 1)
        self.cooling = step >= first
        self.position, found = next(self._batches)
        return found

    def _branch(self) -> None:
        """The branches become what the trunks are, with the state of their optimizer."""
        with torch.no_grad():
            for ours, theirs in zip(self.branches.parameters(), self.trunks.parameters(), strict=True):
                ours.copy_(theirs)
                self.adam.state[ours] = deepcopy(self.adam.state[theirs])

    def loss(self, batch: dict[str, Tensor]) -> Loss:
        """The sum over all networks that learn now, each the mean over the tokens of answers."""
        ids, rows = batch["input_ids"], batch["targets"] != IGNORED
        with torch.no_grad():
            wanted = self.target(input_ids=ids, use_cache=False).logits[rows].float()
        learning = [*self.trunks.values(), *(self.branches.values() if self.cooling else ())]
        losses = [soft_cross_entropy(d.states(ids)[rows] @ d.E.T, wanted) for d in learning]  # type: ignore[operator]
        told = {size.name: float(loss.detach()) for size, loss in zip(SIZES, losses, strict=False)}
        return Loss(torch.stack(losses).sum(), int((ids != 0).sum()), int(rows.sum()), told)

    def after_step(self, loss: float, shown: float, facts: dict[str, float] | None) -> None:
        """Keep the branches that are done."""
        if (step := self.progress.step) in self.points:
            for name, draft in self.branches.items():
                kept = {f"{name}.{step}.{key}": t.detach().bfloat16().clone() for key, t in draft.state_dict().items()}
                self.made |= kept
            self.read[str(step)] = self.progress.tokens

    def state(self) -> dict[str, Any]:
        """Place in the data and the checkpoints that are done."""
        return {"position": self.position, "made": self.made, "read": self.read}

    def load(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        self.made, self.read = state["made"], state["read"]
        self._go_to(state["position"])


def make(given: Namespace) -> str:
    """Train, and write the part with its card. Returns its folder."""
    points = tuple(at for at in POINTS if at <= (given.steps or POINTS[-1]))
    if not points:
        raise UserError(f"--steps {given.steps} trains no checkpoint; the first one takes {POINTS[0]} steps.")
    target: Any = load_model(TARGET, dtype="float32")
    training = GridTraining(target, points, given.seed)
    file = checkpoint_file(NAME)
    if given.resume and file.is_file():
        restore(training, file)
    run(training, Until(points[-1]), checkpoint=file)
    out = given.out or folder_of(NAME, TARGET)
    done = training.progress
    card = {
        "name": out.name,
        "kind": "grid of drafts",
        "bases": {"target": target.record.sha256},
        "data": f"prompts and answers of the train split in the mixture of {TARGET} without its stories from "
        f"SmolLM2, each batch once; soft targets of {TARGET}",
        "seed": given.seed,
        "sizes": {size.name: {"d": size.d, "layers": size.layers, "body": size.body} for size in SIZES},
        "checkpoints": {str(at): training.read[str(at)] for at in points},
        "parameters": len(points) * sum(parameters(d) for d in training.trunks.values()),  # type: ignore[arg-type]
        "steps": done.step,
        "tokens": done.tokens,
        "answer_tokens": done.answer_tokens,
        "minutes": round(done.seconds / 60, 1),
        "processor_minutes": round(done.cpu_seconds / 60, 1),
        "machine": trained_on("cpu"),
        "licence": "Apache-2.0 (trained here, on synthetic data)",
        "command": f"{PROGRAM} {NAME}{flags([('seed', given.seed, 0), ('steps', given.steps, None)])}",
    }
    install_part(out, training.made, card)
    convert(out, "int8")
    file.unlink(missing_ok=True)
    return str(out)


def _options(parser: ArgumentParser) -> None:
    usual(parser, "out", "seed", "steps", "resume")


def commands() -> dict[str, Command]:
    """The grid for the scaling laws of drafts."""
    about = f"drafts of {TARGET} in four sizes and six lengths of training (3 minutes of processor time)"
    return {NAME: Command(about, str(__doc__), _options, lambda a: print(make(a)))}
