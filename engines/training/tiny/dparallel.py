"""Distils a masked model on its own answers so that it is certain early: `python -m engines.training
tiny-dlm-dparallel [--steps N] [--minutes N]`.

Follows arXiv 2509.26488 (`LLaDA/llada_train.py` @ 2ca4d147, MIT). A row is a clean prompt and some clean blocks of the
answer, an active block of which each token is masked with probability 0.5, and masks behind it; a copy masks the other
half. Certainty forcing: the loss is the cross-entropy of the active block's masks plus lambda times the entropy, at
temperature 0.5, of those whose argmax is right already.

We depart in these points. All weights are trained, with Muon and AdamW under a falling rate: at 5.6 M parameters LoRA
saves nothing. The answers are the model's own, decoded at confidence 0.99 instead of one token per forward (nearly the
same marks in the models' cards, at a quarter of the forwards), and only those that pass their task's check are learnt.
The clean part ends before the answer does: the paper also draws blocks of nothing but end marks. What ships is the mean
of start and result (`start_share`, as in `finish.py`): on our small models the result alone is sure too early."""

from __future__ import annotations

import random
import time
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from engines.core.errors import UserError
from engines.models.files.hub import identity
from engines.tasks import TASKS, Example, check
from engines.training.core.commands import PROGRAM, Command, flags, usual
from engines.training.core.data import Batch, Pair, draw, encode
from engines.training.core.loop import Loss, Training, Until, checkpoint_file, restore, run
from engines.training.core.optimizer import Optimizer, cosine
from engines.training.core.weights import replaced, write_network
from engines.training.table import write_table
from engines.training.tiny.card import training_facts, write_marks
from engines.training.tiny.certainty import TAU, figures, fill
from engines.training.tiny.finish import average
from engines.training.tiny.forcing import batches_of, step_loss
from engines.training.tiny.marks import ROWS, canvas_length
from engines.training.tiny.networks import Network, load_network
from engines.training.tiny.recipes import RECIPES, Recipe
from engines.training.tiny.tokenizer import give_tokenizer, load_tokenizer
from engines.training.tiny.train import folder_of, on_device

OWN = ("steps", "minutes", "prompts", "block", "weight", "ratio", "rate", "share", "batch")  # options with a number
FROM_ZERO, SHARES = ("weight", "share"), ("ratio", "share")  # options that may be 0, and that end at 1
MARKED = 12  # held-out prompts per task for the figures of the entropy rule
SURE = 0.99  # confidence at which the model's own answers are decoded
STRETCHES = 20  # points of the curve in the card


@dataclass(frozen=True)
class Settings:
    """Of a distillation, beside the recipe. prompts: asked of the model first; what it answers rightly is learnt.
    weight: lambda. ratio: share of the active block that the first copy masks. minutes: an upper limit of the training
    alone; the learning rate falls to match."""

    prompts: int = 3000
    weight: float = 2.0
    ratio: float = 0.5
    minutes: float | None = None


def recipe_for(name: str) -> Recipe:
    """The recipe of a distilled model, without the stories, which nothing can check.

    Raises UserError for a name that is none, or a recipe that is not distilled from a masked model."""
    names = ", ".join(n for n, r in RECIPES.items() if r.distilled)
    if name not in RECIPES or not RECIPES[name].distilled:
        raise UserError(f"'{name}' is not distilled from another model; choose one of {names}.")
    recipe = RECIPES[name]
    if recipe.init_from not in RECIPES or RECIPES[recipe.init_from].kind != "masked":
        raise UserError(f"only masked models are distilled and {recipe.init_from} is none; choose one of {names}.")
    return replace(recipe, mixture={task: share for task, share in recipe.mixture.items() if task in TASKS})


def own_answers(network: Network, tokenizer: Any, recipe: Recipe, n: int) -> tuple[list[Pair], dict[str, list[int]]]:
    """The network's right answers, with their end mark, to n training prompts in the recipe's mixture, and per task
    (prompts, right ones)."""
    examples = list(islice(_examples(recipe), n))
    pairs = encode(tokenizer, examples)
    tried, kept, end = Counter(e.task for e in examples), Counter[str](), tokenizer.eos_token_id
    order = sorted(range(n), key=lambda i: (examples[i].task, len(pairs[i][0])))
    found: list[Pair] = []
    for start in tqdm(range(0, n, ROWS), desc="own answers", unit="batch", mininterval=5):
        rows = order[start : start + ROWS]
        length = max(canvas_length(examples[i].task, tokenizer) for i in rows)
        with torch.autocast(network.device.type, dtype=torch.bfloat16):
            outputs, _ = fill(network, tokenizer, [pairs[i] for i in rows], length, recipe.block, 1 - SURE, "doubt")
        for i, output in zip(rows, outputs, strict=True):
            answer = output[: output.index(end) + 1] if end in output else []
            if answer and check(examples[i], tokenizer.decode(answer[:-1])).correct:
                found.append((pairs[i][0], answer))
                kept[examples[i].task] += 1
    return found, {task: [tried[task], kept[task]] for task in TASKS if tried[task]}


def _examples(recipe: Recipe) -> Iterator[Example]:
    """Endless training examples in the recipe's mixture."""
    for pool in count():
        yield from draw(recipe, random.Random(f"{recipe.name}/{recipe.seed}/{pool}"))


@dataclass(frozen=True)
class Recorded:
    """What the model answered rightly: pairs of ids, per task (prompts, right ones), and the minutes that it took."""

    pairs: list[Pair]
    kept: dict[str, list[int]]
    minutes: float


class Distillation(Training):
    """Certainty forcing on recorded pairs. `seen`: the facts of every step."""

    backward_inside = True

    def __init__(
        self, network: Network, recipe: Recipe, tokenizer: Any, pairs: list[Pair], how: Settings, command: str = ""
    ) -> None:
        super().__init__()
        self.network: Network = network
        self.recipe, self.how, self.name, self.command = recipe, how, recipe.name, command
        self.settings, self.device = f"{recipe!r} {replace(how, minutes=None)!r}", str(network.device)
        self.optimizer = Optimizer(network, recipe.learning_rate)
        self.seen: list[dict[str, float]] = []
        self.tokenizer = tokenizer
        self.learn_from(Recorded(pairs, {}, 0.0))

    def learn_from(self, recorded: Recorded) -> None:
        """What is learnt, from the batch behind those of the steps so far."""
        self.recorded = recorded
        stream = batches_of(self.recipe, self.tokenizer, recorded.pairs, self.how.ratio)
        self._stream = islice(stream, self.progress.step, None)

    def batch(self, share: float) -> Batch:
        """The next rows and their complementary copies."""
        return next(self._stream)

    def loss(self, batch: Batch) -> Loss:
        """CE + CE' + lambda (Ent + Ent')."""
        moved = {key: value.to(self.device) for key, value in batch.items()}
        loss, facts = step_loss(self.network, moved, self.how.weight)
        return Loss(loss, batch["input_ids"].numel(), facts=facts)

    def rate(self, share: float) -> float:
        """Rise and half cosine."""
        return cosine(self.recipe.learning_rate, self.progress.step, self.recipe.warmup, share)

    def after_step(self, loss: float, shown: float, facts: dict[str, float] | None) -> None:
        """The facts are kept for the card's curve."""
        self.seen.append(facts or {})

    def state(self) -> dict[str, Any]:
        """The answers that are learnt, and the facts so far; as many batches were drawn as steps made."""
        return {"recorded": asdict(self.recorded), "seen": self.seen}

    def load(self, state: dict[str, Any]) -> None:
        """Go on there."""
        self.seen = state["seen"]
        self.learn_from(Recorded(**state["recorded"]))


def learn(
    network: Network, recipe: Recipe, tokenizer: Any, pairs: list[Pair], how: Settings
) -> tuple[list[dict[str, float]], int]:
    """Train `network` in place for the recipe's steps or the minutes. Returns what was recorded at every step, and the
    tokens fed."""
    training = Distillation(network, recipe, tokenizer, pairs, how)
    progress = run(training, Until(recipe.steps, how.minutes))
    return training.seen, progress.tokens


def curve(seen: Sequence[dict[str, float]]) -> list[dict[str, float]]:
    """The recorded steps as means over about 20 stretches of equal length, each named by its last step."""
    width = max(1, len(seen) // STRETCHES)
    points = []
    for start in range(0, len(seen), width):
        part = seen[start : start + width]
        points.append(
            {"step": start + len(part), **{key: round(sum(s[key] for s in part) / len(part), 4) for key in part[0]}}
        )
    return points


def distil(
    recipe: Recipe,
    how: Settings,
    *,
    device: str = "cpu",
    out: Path | None = None,
    command: str = "",
    resume: bool = False,
) -> Path:
    """Record, train, measure and put weights and card into `out` (default: assets/models/NAME). Returns the folder.

    Interrupted while it trains, it keeps a checkpoint with the answers. The asset is replaced at the very end, when the
    card is written too. Raises UserError where the start's weights are missing or none of its answers is right."""
    parent, tokenizer = folder_of(str(recipe.init_from)), load_tokenizer()
    if not (parent / "model.safetensors").is_file():
        raise UserError(
            f"'{recipe.name}' is distilled from {recipe.init_from}, whose weights are not there; train it first: "
            f"{PROGRAM} {recipe.init_from}"
        )
    base, network = (on_device(load_network(parent), device) for _ in range(2))
    training = Distillation(network, recipe, tokenizer, [], how, command)
    if resume:
        restore(training, checkpoint_file(recipe.name))
    else:
        training.learn_from(record(base, tokenizer, recipe, how.prompts))
    run(training, Until(recipe.steps, how.minutes), checkpoint=checkpoint_file(recipe.name))
    average(network, base, recipe.start_share)
    network.to(torch.bfloat16).float()  # what is measured is what ships
    facts = card_facts(training, parent, command)
    facts |= {"entropy_rule": figures(base, network, tokenizer, recipe.block, MARKED)}
    folder = out or folder_of(recipe.name)
    with replaced(folder) as partial_folder:
        write_network(partial_folder, network.cpu().to(torch.bfloat16), "lossless")
        give_tokenizer(partial_folder)
        write_marks(partial_folder, facts)  # takes minutes: weights and card are put in place together
    write_table(folder.parent)
    checkpoint_file(recipe.name).unlink(missing_ok=True)
    return folder


def record(base: Network, tokenizer: Any, recipe: Recipe, prompts: int) -> Recorded:
    """What the model answers rightly. Raises UserError where that is nothing."""
    began = time.monotonic()
    pairs, kept = own_answers(base, tokenizer, recipe, prompts)
    if not pairs:
        raise UserError(
            f"{recipe.init_from} answered none of {prompts} training prompts rightly; give more with --prompts, or "
            "train it further."
        )
    return Recorded(pairs, kept, (time.monotonic() - began) / 60)


def card_facts(training: Distillation, parent: Path, command: str) -> dict[str, Any]:
    """What is known when the training ends. minutes: recording and training."""
    recipe, recorded, how = training.recipe, training.recorded, training.how
    facts = training_facts(recipe, training.progress, training.device, command)
    return facts | {
        "data": f"the right ones among {recipe.init_from}'s own answers to {how.prompts} prompts of the train split of "
        f"engines/tasks (confidence {SURE})",
        "minutes": round(training.progress.seconds / 60 + recorded.minutes, 1),
        "parent_sha256": identity(parent / "model.safetensors"),
        "distillation": {
            "prompts_and_right_answers": recorded.kept,
            "right_answers": len(recorded.pairs),
            "minutes_recording": round(recorded.minutes, 1),
            "block_length": recipe.block,
            "lambda": how.weight,
            "mask_ratio": how.ratio,
            "learning_rate": recipe.learning_rate,
            "start_share": recipe.start_share,
            "threshold": TAU,
            "curve": curve(training.seen),
        },
    }


def _options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    usual(parser, "steps", "minutes", "device", "out", "resume")
    n = Settings.prompts
    add("--prompts", type=int, default=n, help=f"training prompts that the model answers first (default {n})")
    add("--block", type=int, help="positions of the active block (16 in the recipe, 32 in the paper)")
    add("--weight", type=float, default=Settings.weight, help="lambda, the entropy's weight (default 2, the paper's)")
    add(
        "--ratio",
        type=float,
        default=Settings.ratio,
        help="share of the active block that the first copy masks (default 0.5, the paper's)",
    )
    add("--rate", type=float, help="learning rate, instead of the recipe's")
    add("--share", type=float, help="of the start in the mean of start and result that ships, instead of the recipe's")
    add("--batch", type=int, help="tokens per step, both copies counted, instead of the recipe's")


def _run(name: str, a: Namespace) -> None:
    given = {option: getattr(a, option) for option in OWN}
    for option, value in given.items():
        if value is not None and (
            value < 0 or (value == 0 and option not in FROM_ZERO) or (option in SHARES and value > 1)
        ):
            least, most = "from 0 on" if option in FROM_ZERO else "above 0", ", at most 1" if option in SHARES else ""
            raise UserError(f"--{option} {value:g} is out of range; give a number {least}{most}.")
    recipe, how = recipe_for(name), Settings(a.prompts, a.weight, a.ratio, a.minutes)
    own = {"steps": a.steps, "block": a.block, "learning_rate": a.rate, "start_share": a.share, "batch": a.batch}
    recipe = replace(recipe, **{key: value for key, value in own.items() if value is not None})
    said = flags((option, value, asdict(Settings()).get(option)) for option, value in given.items())
    command = f"{PROGRAM} {name}{said}"
    print(distil(recipe, how, device=a.device, out=a.out, command=command, resume=a.resume))


def commands() -> dict[str, Command]:
    """One per distilled recipe."""
    return {
        name: Command(f"{recipe.init_from} distilled to be certain early", str(__doc__), _options, partial(_run, name))
        for name, recipe in RECIPES.items()
        if recipe.distilled
    }
