"""Short stories written by SmolLM2-135M-Instruct, for the open-ended part of the corpus: `python -m engines.training
stories`.

The stories are made once and kept in the user's cache, not in the repository; what ships are weights trained on them
and this recipe."""

from __future__ import annotations

import json
import random
import re
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engines.models.files.smollm2 import cache_folder, ensure
from engines.tasks import Split, split_of
from engines.tasks.words import NAMES, THINGS
from engines.training.core.commands import Command, usual

ASK = (
    "Write a very short story for small children, in five short and simple sentences. It is about {name}, a {first} "
    "and a {second}."
)
BATCH, NEW_TOKENS, TEMPERATURE, TOP_K = 96, 80, 0.6, 40


def stories_file() -> Path:
    """Where the written stories are kept: one JSON object a line with name, things and text."""
    return cache_folder().parent / "smollm2-stories.jsonl"


def read_stories(split: Split) -> list[dict[str, Any]]:
    """The written stories of one split. Raises FileNotFoundError, with what to do, where none were written."""
    if not stories_file().is_file():
        raise FileNotFoundError(
            f"{stories_file()} is not there; write the stories first: python -m engines.training stories --minutes 22"
        )
    stories = [json.loads(line) for line in stories_file().read_text().splitlines()]
    return [story for story in stories if split_of(prompt_of(story)) == split]


def prompt_of(story: dict[str, Any]) -> str:
    """What the models are asked for such a story."""
    return f"tell: {', '.join([story['name'], *story['things']])}"


def tidy(text: str, name: str) -> str | None:
    """The whole sentences of a story in plain ASCII on one line; None if it is too short or forgets its hero."""
    plain = re.sub(r"\s+", " ", text.replace("\u2019", "'").replace("\u201c", '"').replace("\u201d", '"')).strip()
    end = max(plain.rfind(mark) for mark in ".!?")
    plain = plain[: end + 1]
    return plain if plain.isascii() and name in plain and 15 <= len(plain.split()) <= 90 else None


def write(seed: int, device: str) -> Iterator[dict[str, object]]:
    """Endless stories, in batches; equal seeds ask for equal stories."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder, _ = ensure()
    tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).to(device).eval()
    rng = random.Random(seed)
    torch.manual_seed(seed)
    while True:
        heroes = [(rng.choice(NAMES), *rng.sample(THINGS, 2)) for _ in range(BATCH)]
        asked = [[{"role": "user", "content": ASK.format(name=n, first=a, second=b)}] for n, a, b in heroes]
        inputs = tokenizer.apply_chat_template(
            asked, add_generation_prompt=True, padding=True, return_tensors="pt", return_dict=True
        ).to(device)
        out = model.generate(**inputs, max_new_tokens=NEW_TOKENS, do_sample=True, temperature=TEMPERATURE, top_k=TOP_K)
        texts = tokenizer.batch_decode(out[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
        for (name, *things), text in zip(heroes, texts, strict=True):
            if (story := tidy(text, name)) is not None:
                yield {"name": name, "things": things, "text": story}


def _options(parser: ArgumentParser) -> None:
    parser.add_argument("--minutes", type=float, default=15)
    usual(parser, "seed", "device")


def _run(a: Namespace) -> None:
    end, written = time.monotonic() + 60 * a.minutes, 0
    with stories_file().open("a") as file:
        for story in write(a.seed, a.device):
            file.write(json.dumps(story) + "\n")
            file.flush()
            written += 1
            if time.monotonic() > end:
                break
    print(f"{written} stories added to {stories_file()}")


def commands() -> dict[str, Command]:
    """Write stories until the minutes are over; adds to what is there."""
    return {"stories": Command("stories by SmolLM2 for the tiny models", str(__doc__), _options, _run)}
