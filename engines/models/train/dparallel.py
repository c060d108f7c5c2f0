"""Distils a masked model on its own answers so that it is certain early: `python -m engines.models.train.dparallel MODEL [--steps N] [--minutes N]`.

Follows arXiv 2509.26488 (`LLaDA/llada_train.py` @ 2ca4d147, MIT). A row is a clean prompt and some clean blocks of the answer, an active block of which
each token is masked with probability 0.5, and masks behind it; a copy masks the other half. Certainty forcing: the loss is the cross-entropy of the active
block's masks plus lambda times the entropy, at temperature 0.5, of those whose argmax is right already.

We depart in these points. All weights are trained, with Muon and AdamW under a falling rate: at 5.6 M parameters LoRA saves nothing. The answers are the
model's own, decoded at confidence 0.99 instead of one token per forward (nearly the same marks in the models' cards, at a quarter of the forwards), and
only those that pass their task's check are learnt. The clean part ends before the answer does: the paper also draws blocks of nothing but end marks.
What ships is the mean of start and result (`start_share`, as in `finish.py`): on our small models the result alone is sure too early.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import count, islice
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from tqdm import tqdm

from engines.core.errors import UserError
from engines.models.hub import sha256
from engines.models.train.card import load_network, training_facts, write_card, write_table
from engines.models.train.certainty import TAU, figures, fill
from engines.models.train.data import IGNORED, Batch, Pair, cut_by_length, draw, encode, shifted
from engines.models.train.finish import average
from engines.models.train.loop import attention, checkpoint_file, folder_of, install
from engines.models.train.marks import ROWS, canvas_length
from engines.models.train.networks import Network
from engines.models.train.optimizer import Optimizer
from engines.models.train.recipes import RECIPES, Recipe
from engines.models.train.tokenizer import load_tokenizer
from engines.tasks import TASKS, Example, check

MODULE = "engines.models.train.dparallel"
COMMAND = f"python -m {MODULE}"
FROM_ZERO, SHARES = ("weight", "share"), ("ratio", "share")  # flags that may be 0, and that end at 1
MARKED = 12  # held-out prompts per task for the figures of the entropy rule
SURE = 0.99  # confidence at which the model's own answers are decoded
TEMPERATURE = 0.5  # of the law whose entropy is pressed down
STRETCHES = 20  # points of the curve in the card


@dataclass(frozen=True)
class Settings:
    """Of a distillation, beside the recipe. prompts: asked of the model first; what it answers rightly is learnt. weight: lambda. ratio: share of the active
    block that the first copy masks. minutes: an upper limit of the training alone; the learning rate falls to match."""

    prompts: int = 3000
    weight: float = 2.0
    ratio: float = 0.5
    minutes: float | None = None


def recipe_for(model: str) -> Recipe:
    """The recipe of what is distilled from `model`, without the stories, which nothing can check.

    Raises UserError for a name that is none, a model that is not masked or one without such a recipe.
    """
    found = {r.init_from: r for r in RECIPES.values() if r.script == MODULE}
    if model not in RECIPES:
        raise UserError(f"no recipe '{model}'; choose one of {', '.join(map(str, found))}.")
    if RECIPES[model].kind != "masked":
        raise UserError(f"only masked models are distilled and {model} is {RECIPES[model].kind}; choose one of {', '.join(map(str, found))}.")
    if model not in found:
        raise UserError(f"no recipe is distilled from '{model}'; choose one of {', '.join(map(str, found))}, or add one to recipes.py.")
    return replace(found[model], mixture={task: share for task, share in found[model].mixture.items() if task in TASKS})


def own_answers(network: Network, tokenizer: Any, recipe: Recipe, n: int) -> tuple[list[Pair], dict[str, list[int]]]:
    """The network's right answers, with their end mark, to n training prompts in the recipe's mixture, and per task (prompts, right ones)."""
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


def batches_of(recipe: Recipe, tokenizer: Any, pairs: list[Pair], ratio: float) -> Iterator[Batch]:
    """Endless batches of at most `recipe.batch` tokens, both copies counted, every pair once per epoch."""
    single = replace(recipe, batch=recipe.batch // 2)
    for epoch in count():
        rng = random.Random(f"{recipe.name}/{recipe.seed}/epoch {epoch}")
        for rows in cut_by_length(single, pairs, rng):
            length = max(len(prompt) + canvas for (prompt, _), canvas in rows)
            ids = torch.full((len(rows), length), tokenizer.eos_token_id)
            for i, ((prompt, answer), _) in enumerate(rows):
                ids[i, : len(prompt) + len(answer)] = torch.tensor(prompt + answer)
            x, active = masked_copies(ids, [pair for pair, _ in rows], recipe.block, ratio, tokenizer.mask_token_id, rng)
            yield {"input_ids": x, "targets": shifted(ids.repeat(2, 1), active)}


def masked_copies(ids: Tensor, pairs: Sequence[Pair], block: int, ratio: float, mask_id: int, rng: random.Random) -> tuple[Tensor, Tensor]:
    """Card, training steps 1 and 2. ids [R, L] end in end marks -> boards [2R, L], the complementary copies behind the first, and their active masks."""
    places, generator = torch.arange(ids.shape[1]), torch.Generator().manual_seed(rng.getrandbits(48))
    last = [(len(answer) - 1) // block for _, answer in pairs]  # the block that holds the answer's end
    j = [rng.randint(0, most) for most in last]
    first = torch.tensor([len(prompt) + block * n for (prompt, _), n in zip(pairs, j, strict=True)])[:, None]
    to_the_end = torch.tensor([n == most for n, most in zip(j, last, strict=True)])[:, None]
    active = (places >= first) & ((places < first + block) | to_the_end)  # [R, L]
    drawn = torch.rand(ids.shape, generator=generator) < (1 - 1e-3) * ratio + 1e-3
    hidden = torch.cat([active & drawn, active & ~drawn])
    behind = ((places >= first) & ~active).repeat(2, 1)
    return torch.where(hidden | behind, mask_id, ids.repeat(2, 1)), hidden


def certainty_loss(z: Tensor, y: Tensor, row: Tensor, rows: int, weight: float) -> tuple[Tensor, dict[str, float]]:
    """Card, training steps 3 and 4: CE + CE' + lambda (Ent + Ent'), a mean over sequences, in nats; and what is recorded of it.

    z [m, V] logits of the active masks, y [m] their tokens, row [m] the copy each is in, of `rows` copies (two per sequence), weight: lambda.
    """
    right = z.detach().argmax(-1) == y
    log_p = (z[right] / TEMPERATURE).log_softmax(-1)
    ce = _mean_per_row(F.cross_entropy(z, y, reduction="none"), row, rows)
    ent = _mean_per_row(-(log_p.exp() * log_p).sum(-1), row[right], rows)
    loss = 2 * (ce + weight * ent).mean()
    return loss, {"ce": ce.mean().item(), "ent": ent.mean().item(), "n_correct": int(right.sum()), "n_masked": len(y)}


def _mean_per_row(values: Tensor, row: Tensor, rows: int) -> Tensor:
    """Mean of the values [m] of each row -> [rows]; 0 for a row that has none."""
    zeros = torch.zeros(rows, dtype=values.dtype, device=values.device)
    return zeros.index_add(0, row, values) / zeros.index_add(0, row, torch.ones_like(values)).clamp_min(1)


def step_loss(network: Network, batch: Batch, weight: float) -> tuple[Tensor, dict[str, float]]:
    """The loss of a batch; the output layer runs on the active masks alone."""
    wanted = batch["targets"] != IGNORED
    states = network.model(input_ids=batch["input_ids"], use_cache=False).last_hidden_state[wanted]
    return certainty_loss(network.lm_head(states).float(), batch["targets"][wanted], wanted.nonzero()[:, 0], len(wanted), weight)


def learn(network: Network, recipe: Recipe, tokenizer: Any, pairs: list[Pair], how: Settings) -> tuple[list[dict[str, float]], int]:
    """Train `network` in place for the recipe's steps or the minutes. Returns what was recorded at every step, and the tokens fed."""
    optimizer, stream = Optimizer(network, recipe.learning_rate), batches_of(recipe, tokenizer, pairs, how.ratio)
    device, began, seen, tokens = network.device, time.monotonic(), list[dict[str, float]](), 0
    network.train()
    with tqdm(total=recipe.steps, desc=recipe.name, mininterval=5, dynamic_ncols=True) as bar:
        while len(seen) < recipe.steps:
            share = max(len(seen) / recipe.steps, 0.0 if how.minutes is None else (time.monotonic() - began) / 60 / how.minutes)
            if share >= 1:
                break
            batch = next(stream)
            with attention(device.type), torch.autocast(device.type, dtype=torch.bfloat16):
                loss, facts = step_loss(network, {key: value.to(device) for key, value in batch.items()}, how.weight)
                loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step(len(seen), recipe.warmup, share)
            seen.append(facts)
            tokens += batch["input_ids"].numel()
            bar.update()
            bar.set_postfix({key: f"{facts[key]:.3f}" for key in ("ce", "ent")}, refresh=False)
    return seen, tokens


def curve(seen: Sequence[dict[str, float]]) -> list[dict[str, float]]:
    """The recorded steps as means over about 20 stretches of equal length, each named by its last step."""
    width = max(1, len(seen) // STRETCHES)
    points = []
    for start in range(0, len(seen), width):
        part = seen[start : start + width]
        points.append({"step": start + len(part), **{key: round(sum(s[key] for s in part) / len(part), 4) for key in part[0]}})
    return points


def distil(model: str, recipe: Recipe, how: Settings, *, device: str = "cpu", out: Path | None = None, limit: str = "") -> Path:
    """Record, train, measure and put weights and card into `out` (default: assets/models/NAME). Returns the folder. limit: the command's flags.

    The asset is replaced at the very end, when the card is written too. Raises UserError where the model's weights are missing or none of its answers is right.
    """
    parent, tokenizer, began = folder_of(model), load_tokenizer(), time.monotonic()
    if not (parent / "model.safetensors").is_file():
        raise UserError(f"'{recipe.name}' is distilled from {model}, whose weights are not there; train it first: python -m engines.models.train {model}")
    try:
        base, network = (load_network(parent, "masked").to(device) for _ in range(2))
    except (RuntimeError, AssertionError) as error:
        raise UserError(f"device '{device}' is not available here ({str(error).splitlines()[0]}); use cpu or cuda.") from None
    pairs, kept = own_answers(base, tokenizer, recipe, how.prompts)
    if not pairs:
        raise UserError(f"{model} answered none of {how.prompts} training prompts rightly; give more with --prompts, or train it further.")
    recorded = time.monotonic()
    seen, tokens = learn(network, recipe, tokenizer, pairs, how)
    trained = time.monotonic()
    average(network, base, recipe.start_share)
    network.to(torch.bfloat16).float()  # what is measured is what ships
    measured = figures(base, network, tokenizer, recipe.block, MARKED)
    facts = training_facts(recipe, len(seen), tokens, (trained - began) / 60, device) | {
        "data": f"the right ones among {model}'s own answers to {how.prompts} prompts of the train split of engines/tasks (confidence {SURE})",
        "command": f"{COMMAND} {model}{limit}",
        "parent_sha256": sha256(parent / "model.safetensors"),
        "distillation": {
            "prompts_and_right_answers": kept,
            "right_answers": len(pairs),
            "minutes_recording": round((recorded - began) / 60, 1),
            "block_length": recipe.block,
            "lambda": how.weight,
            "mask_ratio": how.ratio,
            "learning_rate": recipe.learning_rate,
            "start_share": recipe.start_share,
            "threshold": TAU,
            "curve": curve(seen),
        },
        "entropy_rule": measured,
    }
    stage = install(recipe, network, checkpoint_file(recipe.name).with_suffix(""))  # the marks take minutes: weights and card are put in place together
    write_card(stage, facts)
    folder = install(recipe, network, out or folder_of(recipe.name))
    shutil.copyfile(stage / "card.json", folder / "card.json")
    shutil.rmtree(stage)
    write_table(folder.parent)
    return folder


def main(argv: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a masked model that has such a recipe, as tiny-dlm")
    parser.add_argument("--steps", type=int, help="instead of the recipe's number")
    parser.add_argument("--minutes", type=float, help="stop training after this many minutes; the learning rate falls to match")
    parser.add_argument("--prompts", type=int, default=Settings.prompts, help=f"training prompts that the model answers first (default {Settings.prompts})")
    parser.add_argument("--block", type=int, help="positions of the active block (16 in the recipe, 32 in the paper)")
    parser.add_argument("--weight", type=float, default=Settings.weight, help="lambda, the weight of the entropy (default 2, the paper's)")
    parser.add_argument("--ratio", type=float, default=Settings.ratio, help="share of the active block that the first copy masks (default 0.5, the paper's)")
    parser.add_argument("--rate", type=float, help="learning rate, instead of the recipe's")
    parser.add_argument("--share", type=float, help="share of the start in the mean of start and result that ships, instead of the recipe's (0: none)")
    parser.add_argument("--batch", type=int, help="tokens per step, both copies counted, instead of the recipe's")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, help="instead of assets/models/NAME")
    a = parser.parse_args(argv)
    try:
        given = {name: getattr(a, name) for name in ("steps", "minutes", "prompts", "block", "weight", "ratio", "rate", "share", "batch")}
        recipe, how = recipe_for(a.model), Settings(a.prompts, a.weight, a.ratio, a.minutes)
        for name, value in given.items():
            if value is not None and (value < 0 or (value == 0 and name not in FROM_ZERO) or (name in SHARES and value > 1)):
                least, most = "from 0 on" if name in FROM_ZERO else "above 0", ", at most 1" if name in SHARES else ""
                raise UserError(f"--{name} {value:g} is out of range; give a number {least}{most}.")
        flags = "".join(f" --{name} {value}" for name, value in given.items() if value not in (None, asdict(Settings()).get(name)))
        own = {"steps": a.steps, "block": a.block, "learning_rate": a.rate, "start_share": a.share, "batch": a.batch}
        recipe = replace(recipe, **{name: value for name, value in own.items() if value is not None})
        print(distil(a.model, recipe, how, device=a.device, out=a.out, limit=flags))
    except UserError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
