"""Train the draft model of SmolLM2 (FastDraft, arXiv:2411.11055): python -m engines.training smollm2-draft data | train
| card.

data: SmolLM2 answers training prompts for some minutes (adds to what is there). train: the three stages, then the asset
and its card; with --more the last stage alone, from the draft that is there. card: measure the asset that is there
again.

Stages: PT plain text, CP code and text 2 : 1, FT the target's answers with the loss on answer tokens only. Ours: the
layers start as the target's first two, not at random; in FT most of the loss is the soft cross-entropy with the
target's sixteen most probable tokens, kept when it wrote them (the paper keeps plain cross-entropy)."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from engines.core.machine import trained_on
from engines.models.adapters.draft import own_weights
from engines.models.files.smollm2 import DRAFT, NAME, PARAMETERS, ensure
from engines.training.core.card import read_card, stages_of, write_card
from engines.training.core.commands import Command, flags, usual
from engines.training.core.loop import restore
from engines.training.core.weights import replaced, write_weights
from engines.training.smollm2.draft_card import measure
from engines.training.smollm2.draft_data import generate, load_target, read_answers
from engines.training.smollm2.draft_loop import COMMAND, Settings, Training, checkpoint_file
from engines.training.smollm2.draft_rows import usable
from engines.training.smollm2.draft_text import evaluation_prompts
from engines.training.table import write_table
from engines.training.tiny.tokenizer import FOLDER

MODELS = FOLDER.parent
TASKS = MODELS.parent / "tasks"
# What a card keeps of the training before, when a draft is trained on: how its weights came to be, without what they
# measured.
STAGE = (
    "data",
    "settings",
    "steps",
    "tokens",
    "answer_tokens",
    "minutes",
    "cpu_minutes",
    "machine",
    "command",
    "curve",
)


def train(
    minutes: float,
    *,
    steps: int | None = None,
    resume: bool = False,
    out: Path | None = None,
    settings: Settings | None = None,
    start: Path | None = None,
) -> Path:
    """Train on the answers that are there and leave weights, config and training facts in `out` (default:
    assets/models/smollm2-draft).

    start: the folder of a draft to go on from, with new answers and its last stage alone. Interrupted, it keeps the
    last checkpoint and leaves the asset as it was. Raises UserError where there are no or too few answers."""
    settings = settings or Settings()
    asked = [prompt["prompt"] for prompt in evaluation_prompts(TASKS)]
    target, tokenizer = load_target()
    if start:
        settings = replace(settings, stages=(("FT", 1.0),))
    command = f"{COMMAND} train{options(settings, minutes, steps, more=start is not None)}"
    training = Training(target, tokenizer, usable(read_answers(), asked), settings, start, command)
    if resume:
        restore(training, checkpoint_file())
    training.run(minutes, steps, checkpoint_file())
    stages = stages_of(start, STAGE) if start else []
    card = facts(training, f"{COMMAND} data, then {command}") | {"stages": stages}
    folder = install(training, target, out or MODELS / DRAFT, card)
    checkpoint_file().unlink(missing_ok=True)
    return folder


def options(settings: Settings, minutes: float, steps: int | None, *, more: bool) -> str:
    """The options of the command line that ask for this training, each with a blank before it; those at their defaults
    are left out."""
    ends = ("steps", steps, None) if steps else ("minutes", float(minutes), None)
    rate = ("rate", settings.learning_rate, Settings.learning_rate)
    return flags([ends, ("more", more, False), rate, ("seed", settings.seed, 0)])


def facts(training: Training, command: str) -> dict[str, Any]:
    """What is known when the training ends."""
    progress = training.progress
    return {
        "name": DRAFT,
        "kind": "causal",
        "draft_of": NAME,
        "target_weights": ensure()[1],
        "target_parameters": PARAMETERS,
        "data": training.data
        | {
            "from": "answers of SmolLM2-135M-Instruct to prompts of engines/training/smollm2/draft_prompts.py and to "
            "prompts that it wrote itself; "
            "PT and CP: documentation and sources of the running Python, and stories by the same model"
        },
        "settings": asdict(training.how),
        "steps": progress.step,
        "tokens": progress.tokens,
        "answer_tokens": progress.answer_tokens,
        "minutes": round(progress.seconds / 60, 1),
        "cpu_minutes": round(progress.cpu_seconds / 60, 1),
        "machine": trained_on(),
        "licence": "Apache-2.0 (trained here on answers of SmolLM2-135M-Instruct, from whose layers it starts; that "
        "model is Apache-2.0)",
        "command": command,
        "curve": training.curve,
    }


def install(training: Training, target: Any, folder: Path, card: dict[str, Any]) -> Path:
    """Save the draft's own weights in bfloat16 with config and card; the folder is put in place as a whole."""
    weights = {key: value.to(torch.bfloat16) for key, value in own_weights(training.network).items()}
    fields = target.config.to_dict() | {
        "num_hidden_layers": len(training.how.layers),
        "draft_of": NAME,
        "draft_vocabulary": len(training.draft_ids),
    }
    for key in ("_name_or_path", "layer_types", "transformers_version"):
        fields.pop(key, None)
    old = read_card(folder)
    if "ablations" in old:
        card |= {"ablations": old["ablations"]}  # of trainings of their own; their table says what they were made from
    with replaced(folder) as new:
        write_weights(new, weights | {"draft_ids": training.draft_ids.int()}, "lossless")
        (new / "config.json").write_text(json.dumps(fields, indent=1) + "\n")
        write_card(new, card)
    return folder


def _options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("what", choices=("data", "train", "card"))
    add("--minutes", type=float, default=20)
    usual(parser, "steps", "seed", "resume", "out")
    add("--more", action="store_true", help="train: go on from the draft that is there, with the answers of now")
    add("--rate", type=float, default=Settings.learning_rate, help="train: learning rate")
    add("--new-tokens", type=int, default=40, help="card: tokens decoded per prompt")


def _run(a: Namespace) -> None:
    folder = a.out or MODELS / DRAFT
    if a.what == "data":
        print(f"{generate(a.minutes, a.seed):,} tokens added")
        return
    if a.what == "train":
        how, start = Settings(seed=a.seed, learning_rate=a.rate), MODELS / DRAFT if a.more else None
        train(a.minutes, steps=a.steps, resume=a.resume, out=folder, settings=how, start=start)
    prompts = json.loads((TASKS / "spec_prompts.json").read_text())["prompts"]
    write_card(folder, read_card(folder) | measure(folder, prompts, a.new_tokens))
    if folder.parent == MODELS:
        write_table(MODELS)
    print(folder)


def commands() -> dict[str, Command]:
    """The draft: its data, its training, its card."""
    return {DRAFT: Command("the draft model of SmolLM2 (FastDraft): data, train, card", str(__doc__), _options, _run)}
