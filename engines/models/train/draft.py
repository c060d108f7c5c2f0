"""Train the draft model of SmolLM2 (FastDraft, arXiv:2411.11055): python -m engines.models.train.draft data | train | card.

data: SmolLM2 answers training prompts for some minutes (adds to what is there). train: the three stages, then the asset and its card; with --more
the last stage alone, from the draft that is there. card: measure the asset that is there again.

Stages: PT plain text, CP code and text 2 : 1, FT the target's answers with the loss on answer tokens only. Ours: the layers start as the
target's first two, not at random; in FT most of the loss is the soft cross-entropy with the target's sixteen most probable tokens, kept
when it wrote them (the paper keeps plain cross-entropy).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from engines.core.errors import UserError
from engines.core.machine import trained_on
from engines.models.draft import own_weights
from engines.models.smollm2 import DRAFT, NAME, PARAMETERS, ensure
from engines.models.train.card import write_table
from engines.models.train.draft_card import write_card
from engines.models.train.draft_data import generate, load_target, read_answers
from engines.models.train.draft_loop import COMMAND, Settings, Training, checkpoint_file, usable
from engines.models.train.draft_text import evaluation_prompts
from engines.models.train.loop import MODELS

TASKS = MODELS.parent / "tasks"
# What a card keeps of the training before, when a draft is trained on: how its weights came to be, without what they measured.
LEG = ("data", "settings", "steps", "tokens", "answer_tokens", "minutes", "cpu_minutes", "machine", "command", "curve")


def train(
    minutes: float,
    *,
    steps: int | None = None,
    resume: bool = False,
    out: Path | None = None,
    settings: Settings | None = None,
    start: Path | None = None,
) -> Path:
    """Train on the answers that are there and leave weights, config and training facts in `out` (default: assets/models/smollm2-draft).

    start: the folder of a draft to go on from, with new answers and its last stage alone. Interrupted, it keeps the last checkpoint and leaves the
    asset as it was. Raises UserError where there are no or too few answers.
    """
    settings = settings or Settings()
    asked = [prompt["prompt"] for prompt in evaluation_prompts(TASKS)]
    target, tokenizer = load_target()
    if start:
        settings = replace(settings, stages=(("FT", 1.0),))
    training = Training(target, tokenizer, usable(read_answers(), asked), settings, start)
    if resume:
        training.restore()
    command = f"{COMMAND} train{options(settings, minutes, steps, more=start is not None)}"
    try:
        training.run(minutes, steps)
    except KeyboardInterrupt:
        training.save()
        raise UserError(f"stopped at step {training.progress.step}; go on with: {command} --resume") from None
    before = json.loads((start / "card.json").read_text()) if start else {}
    legs = [*before.get("legs", []), {key: before[key] for key in LEG}] if start else []
    folder = install(training, target, out or MODELS / DRAFT, facts(training, f"{COMMAND} data, then {command}") | {"legs": legs})
    checkpoint_file().unlink(missing_ok=True)
    return folder


def options(settings: Settings, minutes: float, steps: int | None, *, more: bool) -> str:
    """The options of the command line that ask for this training, each with a blank before it; those at their defaults are left out."""
    given = [f"--steps {steps}" if steps else f"--minutes {minutes:g}", "--more" if more else ""]
    given += [f"--rate {settings.learning_rate:g}"] * (settings.learning_rate != Settings.learning_rate) + [f"--seed {settings.seed}"] * (settings.seed != 0)
    return "".join(f" {one}" for one in given if one)


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
            "from": "answers of SmolLM2-135M-Instruct to prompts of engines/models/train/draft_prompts.py and to prompts that it wrote itself; "
            "PT and CP: documentation and sources of the running Python, and stories by the same model",
        },
        "settings": asdict(training.settings),
        "steps": progress.step,
        "tokens": progress.tokens,
        "answer_tokens": progress.answer_tokens,
        "minutes": round(progress.seconds / 60, 1),
        "cpu_minutes": round(progress.cpu_seconds / 60, 1),
        "machine": trained_on(),
        "licence": "Apache-2.0 (trained here on answers of SmolLM2-135M-Instruct, from whose layers it starts; that model is Apache-2.0)",
        "command": command,
        "curve": training.curve,
    }


def install(training: Training, target: Any, folder: Path, card: dict[str, Any]) -> Path:
    """Save the draft's own weights in bfloat16 with config and card; the folder is put in place as a whole."""
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    weights = {key: value.to(torch.bfloat16).contiguous() for key, value in own_weights(training.network).items()}
    save_file(weights | {"draft_ids": training.draft_ids.int()}, partial / "model.safetensors", metadata={"format": "pt"})
    (partial / "model.safetensors").chmod(0o644)  # safetensors writes it for the owner alone
    fields = target.config.to_dict() | {"num_hidden_layers": len(training.settings.layers), "draft_of": NAME, "draft_vocabulary": len(training.draft_ids)}
    for key in ("_name_or_path", "layer_types", "transformers_version"):
        fields.pop(key, None)
    (partial / "config.json").write_text(json.dumps(fields, indent=1) + "\n")
    old = json.loads((folder / "card.json").read_text()) if (folder / "card.json").is_file() else {}
    card |= {"ablations": old["ablations"]} if "ablations" in old else {}  # of trainings of their own; their table says what they were made from
    (partial / "card.json").write_text(json.dumps(card, indent=1) + "\n")
    shutil.rmtree(folder, ignore_errors=True)
    os.replace(partial, folder)
    return folder


def main(argv: list[str] | None = None) -> None:
    """The three stages of the work, each by itself."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("data", "train", "card"))
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--steps", type=int, help="train: this many steps instead of minutes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--resume", action="store_true", help="train: go on from the last checkpoint")
    parser.add_argument("--more", action="store_true", help="train: go on from the draft that is there, with the answers that are there now")
    parser.add_argument("--rate", type=float, default=Settings.learning_rate, help="train: learning rate")
    parser.add_argument("--out", type=Path, help="instead of assets/models/smollm2-draft")
    parser.add_argument("--new-tokens", type=int, default=40, help="card: tokens decoded per prompt")
    a = parser.parse_args(argv)
    folder = a.out or MODELS / DRAFT
    try:
        if a.what == "data":
            print(f"{generate(a.minutes, a.seed):,} tokens added")
            return
        if a.what == "train":
            settings = Settings(seed=a.seed, learning_rate=a.rate)
            train(a.minutes, steps=a.steps, resume=a.resume, out=folder, settings=settings, start=MODELS / DRAFT if a.more else None)
        write_card(folder, json.loads((TASKS / "spec_prompts.json").read_text())["prompts"], a.new_tokens)
        if folder.parent == MODELS:
            write_table(MODELS)
        print(folder)
    except UserError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
