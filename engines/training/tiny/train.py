"""The training of the tiny models' recipes: steps on random masks or plain rows, on-policy states where a recipe asks
for them, marks on the way, then weights, tokenizer, config and card.

Nothing of an asset is replaced before the new one is whole: checkpoints lie in the user's cache, and the finished
folder is put in place by renaming."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from engines.core.errors import UserError
from engines.training.core.card import read_card, stages_of, write_card
from engines.training.core.commands import PROGRAM, Command, flags, usual
from engines.training.core.data import Batch, batches
from engines.training.core.loop import Loss, Training, Until, checkpoint_file, restore, run
from engines.training.core.optimizer import Optimizer, cosine
from engines.training.core.weights import replaced, write_network
from engines.training.table import write_table
from engines.training.tiny.card import training_facts, write_marks
from engines.training.tiny.finish import finish
from engines.training.tiny.marks import exact_match
from engines.training.tiny.networks import Network, build, loss_of
from engines.training.tiny.on_policy import OnPolicy
from engines.training.tiny.recipes import RECIPES, Recipe
from engines.training.tiny.tokenizer import FOLDER, give_tokenizer, load_tokenizer

MODELS = FOLDER.parent
WATCHED = ("sort", "add", "problem", "sudoku")  # marked while training
MARK_EVERY = 500  # steps
MADE_BEFORE = ("name", "init_from", "steps", "tokens", "minutes", "machine", "command", "note")  # of a stage, in a card


def folder_of(name: str) -> Path:
    """Where a recipe's weights are: in the repository, or in the user's cache for those that do not ship."""
    return MODELS / name if RECIPES[name].ships else checkpoint_file(name).with_suffix("")


class RecipeTraining(Training):
    """A recipe's steps on its batches and, for its share of the steps, on on-policy states."""

    backward_inside = True

    def __init__(self, recipe: Recipe, network: Network, tokenizer: Any, device: str, command: str) -> None:
        super().__init__()
        self.recipe, self.tokenizer, self.device = recipe, tokenizer, device
        self.name, self.settings, self.command = recipe.name, repr(recipe), command
        self.network: Network = network
        self.optimizer = Optimizer(network, recipe.learning_rate)
        self.states = OnPolicy(recipe, tokenizer, 0)
        self._go_to((0, 0))

    def _go_to(self, position: tuple[int, int]) -> None:
        self.position = self._next = position  # behind the last step, and behind the batch under way
        self._stream = batches(self.recipe, self.tokenizer, position)

    def batch(self, share: float) -> Batch | None:
        """The next batch; None is a step on on-policy states."""
        step, part = self.progress.step, self.recipe.on_policy
        if int((step + 1) * part) > int(step * part):
            return None
        self._next, batch = next(self._stream)
        return batch

    def loss(self, batch: Batch | None) -> Loss:
        """Cross-entropy, in nats per target."""
        if batch is None:
            return Loss(*self.states.loss(self.network))
        moved = {key: value.to(self.device) for key, value in batch.items()}
        return Loss(loss_of(self.network, moved), batch["input_ids"].numel())

    def rate(self, share: float) -> float:
        """Rise and half cosine."""
        return cosine(self.recipe.learning_rate, self.progress.step, self.recipe.warmup, share)

    def after_step(self, loss: float, shown: float, facts: dict[str, float] | None) -> None:
        """Marks on the validation split now and then."""
        progress, self.position = self.progress, self._next
        if progress.step % MARK_EVERY == 0:
            mark = partial(exact_match, self.network, self.tokenizer, self.recipe)
            marks = ", ".join(f"{task} {mark(task, 16, 'validation'):.0%}" for task in WATCHED)
            minutes = progress.seconds / 60
            tqdm.write(f"{self.name} step {progress.step}, {minutes:.1f} min, loss {shown:.4f}, {marks}")

    def state(self) -> dict[str, Any]:
        """The place in the pools, and the on-policy states under way."""
        return {"position": self.position, "states": self.states.state()}

    def load(self, state: dict[str, Any]) -> None:
        """Go on there."""
        self._go_to(tuple(state["position"]))
        self.states.load(state["states"])


def train(
    name: str,
    *,
    device: str = "cpu",
    minutes: float | None = None,
    resume: bool = False,
    steps: int | None = None,
    out: Path | None = None,
) -> Path:
    """Train one recipe and put weights, tokenizer, config and card into `out` (default: assets/models/NAME). Returns
    the folder.

    minutes: an upper limit; the learning rate falls to match. steps: instead of the recipe's number. Interrupted
    (Ctrl-C, a full disk), it keeps the last checkpoint and leaves the asset as it was. Raises UserError for an unknown
    name, a device that is not there or a checkpoint of other settings."""
    if name not in RECIPES:
        raise UserError(f"no recipe '{name}'; choose one of {', '.join(RECIPES)}.")
    recipe, tokenizer = RECIPES[name], load_tokenizer()
    if recipe.distilled:
        raise UserError(f"'{name}' is distilled from {recipe.init_from}; use the command: {PROGRAM} {name}")
    start = _start(recipe, device)
    network = on_device(build(recipe, tokenizer, start), device)
    command = f"{PROGRAM} {name}{flags([('steps', steps, None), ('minutes', minutes, None)])}"
    training = RecipeTraining(recipe, network, tokenizer, device, command)
    if resume:
        restore(training, checkpoint_file(name))
    progress = run(training, Until(steps or recipe.steps, minutes), checkpoint=checkpoint_file(name))
    finished = finish(network, recipe, tokenizer, start)
    folder = install(recipe, network, out or folder_of(name))
    hidden_start = start is not None and not RECIPES[str(recipe.init_from)].ships
    stages = stages_of(start, MADE_BEFORE) if start is not None and hidden_start else ()
    facts = training_facts(recipe, progress, device, command, stages) | finished
    if recipe.ships:
        write_marks(folder, facts)
        write_table(folder.parent)
    else:
        write_card(folder, facts)
    checkpoint_file(name).unlink(missing_ok=True)
    return folder


def on_device(network: Any, device: str) -> Any:
    """The network, moved. Raises UserError for a device that is not there."""
    try:
        return network.to(device)
    except (RuntimeError, AssertionError) as error:
        raise UserError(
            f"device '{device}' is not available here ({str(error).splitlines()[0]}); use cpu or cuda."
        ) from None


def _start(recipe: Recipe, device: str) -> Path | None:
    """The folder of the weights that a recipe starts from; those that do not ship are trained first where they are
    missing."""
    if recipe.init_from is None:
        return None
    start = folder_of(recipe.init_from)
    if not (start / "model.safetensors").is_file():
        if RECIPES[recipe.init_from].ships:
            first = f"train it first: {PROGRAM} {recipe.init_from}"
            raise UserError(f"'{recipe.name}' starts from {recipe.init_from}, whose weights are not there; {first}")
        print(f"{recipe.name} starts from {recipe.init_from}, which does not ship and is trained first.")
        train(recipe.init_from, device=device)
    return start


def install(recipe: Recipe, network: Network, folder: Path) -> Path:
    """Save the weights rounded to bfloat16, with config and tokenizer, and put the whole folder in place at once."""
    try:
        with replaced(folder) as partial_folder:
            write_network(partial_folder, network.cpu().to(torch.bfloat16), "lossless")
            give_tokenizer(partial_folder)
    except OSError as error:
        raise UserError(
            f"{folder} could not be written ({error}); make room and go on with: {PROGRAM} {recipe.name} --resume"
        ) from error
    return folder


def _options(parser: ArgumentParser) -> None:
    usual(parser, "device", "minutes", "steps", "resume", "out")
    parser.add_argument(
        "--mark", action="store_true", help="train nothing: mark the weights that are there again, rewrite their card"
    )


def _run(name: str, a: Namespace) -> None:
    if a.mark:
        folder = a.out or folder_of(name)
        if not (folder / "card.json").is_file():
            raise UserError(f"there is no card in {folder} to write again; train it first: {PROGRAM} {name}")
        write_marks(folder, read_card(folder))
        write_table(MODELS)
    else:
        print(train(name, device=a.device, minutes=a.minutes, resume=a.resume, steps=a.steps, out=a.out))


def _named() -> Iterator[tuple[str, Command]]:
    for name, recipe in RECIPES.items():
        if not recipe.distilled:
            kept = "" if recipe.ships else ", a stage that does not ship"
            about = f"a {recipe.kind} model of {recipe.layers} layers{kept}"
            yield name, Command(about, str(__doc__), _options, partial(_run, name))


def commands() -> dict[str, Command]:
    """One per recipe of the common loop."""
    return dict(_named())
