"""Makes the text cache of SmolLM2 that heads learn from: python -m engines.training text-cache --minutes 30

SmolLM2's own answers (those of `smollm2-draft data`, and new ones to prompts of `draft_prompts.py` where they run out)
are read once by the model, and its states at some layers are kept in bfloat16. A second start goes on; it stops by
minutes or by gigabytes, whichever comes first. One layer takes 1.15 kB a token, the eight usual ones 9.2 kB; nothing of
it is ever part of the repository."""

from __future__ import annotations

import json
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from safetensors import safe_open

from engines.core.errors import UserError
from engines.models.files.smollm2 import NAME as MODEL
from engines.models.loading.zoo import load_model
from engines.training.core.commands import Command, usual
from engines.training.core.text_cache import NAME, Answer, fill, folder_of, shards, size
from engines.training.smollm2.draft_data import Writer, answers_file, load_target
from engines.training.smollm2.draft_rows import is_held_out, usable
from engines.training.smollm2.draft_text import evaluation_prompts
from engines.training.tiny.tokenizer import FOLDER

LAYERS = (2, 6, 10, 15, 20, 26, 27, 30)  # of 30; 30 is behind the final norm, what the output head reads
PER_SHARD = 32


def cached(folder: Path) -> int:
    """How many lines of the answers' file are in the shards of a folder."""
    last = shards(folder)[-1:]
    if not last:
        return 0
    with safe_open(last[0], "pt") as shard:
        return int(json.loads(shard.metadata()["texts"])[-1]["line"])


def lines(start: int, seed: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Endless (number of the line, answer) behind line `start`: those in the file, then new ones, which are added to
    it."""
    file, number = answers_file(), 0
    if file.is_file():
        with file.open(encoding="utf-8") as opened:
            for number, line in enumerate(opened, 1):
                if number > start:
                    yield number, json.loads(line)
    file.parent.mkdir(parents=True, exist_ok=True)
    for batch in Writer(*load_target(), seed + number).batches():
        with file.open("a", encoding="utf-8") as opened:
            opened.write("".join(json.dumps(answer) + "\n" for answer in batch))
        for answer in batch:
            number += 1
            yield number, answer


def groups(start: int, seed: int, tokenizer: Any) -> Iterator[Sequence[Answer]]:
    """The answers behind line `start` in groups for one shard; none belongs to an evaluation prompt."""
    asked = [prompt["prompt"] for prompt in evaluation_prompts(FOLDER.parent.parent / "tasks")]
    stream = (
        Answer(
            list(tokenizer.encode_prompt(one["prompt"])),
            list(one["ids"]),
            is_held_out(one["prompt"]),
            {key: one[key] for key in ("class", "prompt", "temperature")} | {"line": number},
        )
        for number, one in lines(start, seed)
        if usable([one], asked)
    )
    while True:
        yield list(islice(stream, PER_SHARD))


def _options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("--minutes", type=float, default=30, help="at most (default 30)")
    add("--gigabytes", type=float, default=3, help="of the whole cache, at most (default 3: about 320,000 tokens)")
    add("--layers", type=int, nargs="+", default=list(LAYERS), help=f"default {' '.join(map(str, LAYERS))}")
    usual(parser, "seed", "device", "out")


def _run(a: Namespace) -> None:
    if a.minutes <= 0 or a.gigabytes <= 0:
        raise UserError(f"--minutes {a.minutes:g} --gigabytes {a.gigabytes:g} leaves no room; give numbers above 0.")
    began, cpu, room = time.monotonic(), time.process_time(), a.gigabytes * 1e9
    model: Any = load_model(MODEL, kind="causal", device=a.device)
    folder = a.out or folder_of(MODEL)

    def more() -> bool:
        there, minutes = size(folder), (time.monotonic() - began) / 60
        print(f"{there / 1e9:.2f} GB after {minutes:.1f} min", flush=True)
        return there < room and minutes < a.minutes

    if not more():
        raise UserError(f"{folder} has {size(folder) / 1e9:.2f} GB already; give more --gigabytes, or remove it.")
    made = fill(folder, model, a.layers, groups(cached(folder), a.seed, model.tokenizer), more)
    minutes = (time.monotonic() - began) / 60
    print(
        f"{folder}: {made.texts} answers, {made.tokens:,} tokens added in {minutes:.1f} min "
        f"({time.process_time() - cpu:.0f} s of processor time, {made.seconds:.0f} of them reading states), "
        f"{made.bytes_now / 1e6:.1f} MB now"
    )


def commands() -> dict[str, Command]:
    """The shared text cache."""
    return {NAME: Command("SmolLM2's answers and states, for heads", str(__doc__), _options, _run)}
