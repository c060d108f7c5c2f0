"""The training loop of every tiny model: bf16 autocast, checkpoint and resume, validation marks on the way, weights and a card at the end.

Nothing of an asset is replaced before the new one is whole: checkpoints lie in the user's cache, and the finished folder is put in place by renaming.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from tqdm import tqdm

from engines.core.errors import UserError
from engines.models.smollm2 import cache_folder
from engines.models.train.card import legs_of, training_facts, write_card, write_table
from engines.models.train.data import batches
from engines.models.train.finish import finish
from engines.models.train.marks import exact_match
from engines.models.train.networks import Network, build, loss_of
from engines.models.train.optimizer import Optimizer
from engines.models.train.recipes import RECIPES, Recipe
from engines.models.train.tokenizer import FOLDER, copy_tokenizer, load_tokenizer
from engines.models.train.walk import Walk

MODELS = FOLDER.parent
SAVE_SECONDS = 120.0
WATCHED = ("sort", "add", "problem", "sudoku")  # marked while training


def folder_of(name: str) -> Path:
    """Where a recipe's weights lie: in the repository, or in the user's cache for those that do not ship."""
    return MODELS / name if RECIPES[name].ships else checkpoint_file(name).with_suffix("")


def checkpoint_file(name: str) -> Path:
    """Where a training that is not finished keeps its state."""
    return cache_folder().parent / "train" / f"{name}.pt"


class Progress:
    """What a checkpoint holds beside weights and optimizer: how far the training is."""

    def __init__(self) -> None:
        self.step, self.seconds, self.position, self.tokens = 0, 0.0, (0, 0), 0


def train(name: str, *, device: str = "cpu", minutes: float | None = None, resume: bool = False, steps: int | None = None, out: Path | None = None) -> Path:
    """Train one recipe and put weights, tokenizer, config and card into `out` (default: assets/models/NAME). Returns the folder.

    minutes: an upper limit; the learning rate falls to match. steps: instead of the recipe's number. Interrupted (Ctrl-C, a full disk), it keeps the
    last checkpoint and leaves the asset as it was. Raises UserError for an unknown name, a device that is not there or a checkpoint of other settings.
    """
    if name not in RECIPES:
        raise UserError(f"no recipe '{name}'; choose one of {', '.join(RECIPES)}.")
    recipe, tokenizer = RECIPES[name], load_tokenizer()
    if recipe.script:
        raise UserError(f"'{name}' has a training of its own: python -m {recipe.script} {recipe.init_from}")
    start = _start(recipe, device)
    try:
        network = build(recipe, tokenizer, start).to(device)
    except (RuntimeError, AssertionError) as error:
        raise UserError(f"device '{device}' is not available here ({str(error).splitlines()[0]}); use cpu or cuda.") from None
    optimizer, progress = Optimizer(network, recipe.learning_rate), Progress()
    if resume:
        _restore(recipe, network, optimizer, progress)
    try:
        _steps(recipe, network, tokenizer, optimizer, progress, device, minutes, steps or recipe.steps)
    except KeyboardInterrupt:
        _save(recipe, network, optimizer, progress)
        raise UserError(f"stopped at step {progress.step}; go on with: python -m engines.models.train {name} --resume") from None
    if recipe.calibrated:
        _save(recipe, network, optimizer, progress)  # fitting takes a minute; what interrupts it shall not cost the last steps
    finished = finish(network, recipe, tokenizer, start)
    folder = install(recipe, network, out or folder_of(name))
    limit = (f" --steps {steps}" if steps else "") + (f" --minutes {minutes:g}" if minutes is not None else "")
    legs = legs_of(start) if start is not None and not RECIPES[str(recipe.init_from)].ships else ()
    facts = training_facts(recipe, progress.step, progress.tokens, progress.seconds / 60, device, limit, legs) | finished
    if recipe.ships:
        write_card(folder, facts)
        write_table(folder.parent)
    else:
        (folder / "card.json").write_text(json.dumps(facts, indent=1) + "\n")
    checkpoint_file(name).unlink(missing_ok=True)
    return folder


def _start(recipe: Recipe, device: str) -> Path | None:
    """The folder of the weights that a recipe starts from; those that do not ship are trained first where they are missing."""
    if recipe.init_from is None:
        return None
    start = folder_of(recipe.init_from)
    if not (start / "model.safetensors").is_file():
        if RECIPES[recipe.init_from].ships:
            first = f"train it first: python -m engines.models.train {recipe.init_from}"
            raise UserError(f"'{recipe.name}' starts from {recipe.init_from}, whose weights are not there; {first}")
        print(f"{recipe.name} starts from {recipe.init_from}, which does not ship and is trained first.")
        train(recipe.init_from, device=device)
    return start


def _steps(recipe: Recipe, network: Network, tokenizer: Any, optimizer: Optimizer, progress: Progress, device: str, minutes: float | None, total: int) -> None:
    began = saved = time.monotonic()
    before, stream, smooth = progress.seconds, batches(recipe, tokenizer, progress.position), 0.0
    walk = Walk(recipe, tokenizer, progress.step)  # a resumed training walks boards of its own
    with tqdm(total=total, initial=progress.step, desc=recipe.name, mininterval=5, dynamic_ncols=True) as bar:
        while progress.step < total:
            share = max(progress.step / total, 0.0 if minutes is None else progress.seconds / 60 / minutes)
            if share >= 1:
                break
            network.train()
            with attention(device), torch.autocast(torch.device(device).type, dtype=torch.bfloat16):
                if int((progress.step + 1) * recipe.walked) > int(progress.step * recipe.walked):
                    position, (loss, tokens) = progress.position, walk.loss(network)
                else:
                    position, batch = next(stream)
                    loss, tokens = loss_of(network, {key: value.to(device) for key, value in batch.items()}), batch["input_ids"].numel()
                loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step(progress.step, recipe.warmup, share)
            progress.step, progress.position, progress.tokens = progress.step + 1, position, progress.tokens + tokens
            progress.seconds = before + time.monotonic() - began
            smooth = loss.item() if smooth == 0 else 0.95 * smooth + 0.05 * loss.item()
            bar.update()
            bar.set_postfix(loss=f"{smooth:.4f}", refresh=False)
            if progress.step % 500 == 0:
                marks = {task: exact_match(network, tokenizer, recipe, task, 16, "validation") for task in WATCHED}
                bar.write(
                    f"{recipe.name} step {progress.step}, {progress.seconds / 60:.1f} min, loss {smooth:.4f}, "
                    + ", ".join(f"{t} {m:.0%}" for t, m in marks.items())
                )
            if time.monotonic() - saved > SAVE_SECONDS:
                _save(recipe, network, optimizer, progress)
                saved = time.monotonic()


def attention(device: str) -> AbstractContextManager[None]:
    """On a CPU the backward pass of torch's flash attention takes a quarter of a step on rows this short; with plain matrix products 1.8 s become 1.5."""
    return sdpa_kernel(SDPBackend.MATH) if torch.device(device).type == "cpu" else nullcontext()


def _save(recipe: Recipe, network: Network, optimizer: Optimizer, progress: Progress) -> None:
    path = checkpoint_file(recipe.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    state = {"recipe": repr(recipe), "network": network.state_dict(), "optimizer": optimizer.state_dict(), **vars(progress)}
    partial = path.with_suffix(".partial")
    try:
        torch.save(state, partial)
        os.replace(partial, path)
    except (OSError, RuntimeError) as error:  # torch reports a full disk as a RuntimeError
        partial.unlink(missing_ok=True)
        print(f"the checkpoint {path} could not be written ({error}); training goes on, the last whole one is kept.")


def _restore(recipe: Recipe, network: Network, optimizer: Optimizer, progress: Progress) -> None:
    path = checkpoint_file(recipe.name)
    if not path.is_file():
        raise UserError(f"there is no checkpoint of '{recipe.name}' to go on from ({path}); leave --resume out.")
    state = torch.load(path, weights_only=True, map_location="cpu")
    if state["recipe"] != repr(recipe):
        raise UserError(f"the checkpoint {path} was made with other settings of '{recipe.name}'; leave --resume out to start again.")
    network.load_state_dict(state["network"])
    optimizer.load_state_dict(state["optimizer"])
    for key in vars(progress):
        setattr(progress, key, state[key])


def install(recipe: Recipe, network: Network, folder: Path) -> Path:
    """Save the weights rounded to bfloat16, with config and tokenizer, and put the whole folder in place at once."""
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir(parents=True)
        network.cpu().to(torch.bfloat16).save_pretrained(partial)
        copy_tokenizer(partial)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise UserError(f"{folder} could not be written ({error}); make room and go on with: python -m engines.models.train {recipe.name} --resume") from error
    shutil.rmtree(folder, ignore_errors=True)
    os.replace(partial, folder)
    return folder
