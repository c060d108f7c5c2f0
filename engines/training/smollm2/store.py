"""Makes the stores that ship: `python -m engines.training store tiny | smollm2`.

tiny: reference answers of the training split of all tasks, in the tiny family's tokens. smollm2: what SmolLM2 wrote to
other prompts than the bundled ones, from the answers that `python -m engines.training smollm2-draft data` left in the
user's cache. An end mark stands behind each answer."""

from __future__ import annotations

import json
import random
from argparse import ArgumentParser, Namespace
from itertools import islice
from typing import Any

import numpy as np

import engines
from engines.core.errors import UserError
from engines.tasks import TASKS
from engines.training.core.card import write_card
from engines.training.core.commands import PROGRAM, Command
from engines.training.smollm2.draft_data import answers_file
from engines.training.smollm2.draft_rows import usable
from engines.training.smollm2.draft_text import evaluation_prompts
from engines.training.tiny.tokenizer import FOLDER

PER_TASK, SEED = 60, 11
TOKENS = 400_000  # of SmolLM2's answers, at most


def tiny(tokenizer: Any) -> list[list[int]]:
    """Ids of 60 answers per task."""
    examples = [e for task in TASKS.values() for e in islice(task.generate("train", SEED), PER_TASK)]
    random.Random(SEED).shuffle(examples)
    return [list(tokenizer.encode(f" {e.answer}")) for e in examples]


def smollm2() -> list[list[int]]:
    """Ids of answers in a random order, none to an evaluation prompt. Raises UserError where none were written yet."""
    if not answers_file().is_file():
        raise UserError(
            f"there are no answers at {answers_file()}; write them first: python -m engines.training smollm2-draft "
            "data --minutes 20"
        )
    asked = [prompt["prompt"] for prompt in evaluation_prompts(FOLDER.parent.parent / "tasks")]
    answers = [
        answer["ids"]
        for answer in usable([json.loads(line) for line in answers_file().read_text().splitlines()], asked)
    ]
    random.Random(SEED).shuffle(answers)
    chosen, total = [], 0
    for answer in answers:
        if total < TOKENS:
            chosen.append(answer)
            total += len(answer)
    return chosen


def make(name: str) -> None:
    """Write one store and its card."""
    model = engines.load_model({"tiny": "tiny-ar-l"}.get(name, name))
    answers = tiny(model.tokenizer) if name == "tiny" else smollm2()
    end = min(model.eos_ids)
    tokens = np.array(
        [t for answer in answers for t in (*(t for t in answer if t not in model.eos_ids), end)], dtype=np.uint16
    )
    folder = FOLDER.parent / f"{name}-store"
    folder.mkdir(exist_ok=True)
    np.savez_compressed(folder / "tokens.npz", tokens=tokens)
    text = (
        "reference answers of the training split of engines/tasks"
        if name == "tiny"
        else "answers that SmolLM2-135M-Instruct wrote to templated prompts and to prompts of its own"
    )
    card = {
        "name": f"{name}-store",
        "data": f"{text}; none belongs to a bundled or held-out prompt",
        "answers": len(answers),
        "tokens": len(tokens),
        "seed": SEED,
        "tokenizer": model.record.tokenizer,
        "licence": "Apache-2.0 (synthetic)"
        if name == "tiny"
        else "Apache-2.0 (written by SmolLM2-135M-Instruct, which is Apache-2.0)",
        "command": f"{PROGRAM} store {name}",
    }
    write_card(folder, card)
    print(f"{folder}: {len(answers)} answers, {len(tokens):,} tokens")


def _options(parser: ArgumentParser) -> None:
    parser.add_argument("which", choices=("tiny", "smollm2"), help="whose tokens it is in")


def _run(a: Namespace) -> None:
    make(a.which)


def commands() -> dict[str, Command]:
    """The stores of REST and ADED."""
    return {"store": Command("the stores of text that ship: tiny or smollm2", str(__doc__), _options, _run)}
