"""Plain text and code for the first two stages of the draft's training, from the running Python itself: there on every
machine, with nothing to fetch."""

from __future__ import annotations

import json
import pydoc_data.topics
import random
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engines.training.smollm2.draft_data import story_texts

LENGTH, ROWS = 256, 8  # tokens per row, rows per step
CODE_SHARE = 2 / 3  # of the second stage's rows, as in the paper


def prose() -> list[str]:
    """Documentation of the Python language, a text per topic, and the short stories where they were written."""
    stories = story_texts()
    return [*pydoc_data.topics.topics.values(), *("\n\n".join(stories[i : i + 5]) for i in range(0, len(stories), 5))]


def code() -> list[str]:
    """Source files of the standard library, without tests."""
    files = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    return [file.read_text(encoding="utf-8", errors="ignore") for file in files]


def text_batches(tokenizer: Any, stage: str, seed: int) -> Iterator[Tensor]:
    """Endless rows of token ids [8, 256] cut out of random texts: prose ("PT") or code and prose 2 : 1 ("CP")."""
    rng = random.Random(f"{seed}:{stage}")
    kinds = [prose()] if stage == "PT" else [prose(), code()]
    known: dict[tuple[int, int], list[int]] = {}
    while True:
        rows = list[list[int]]()
        while len(rows) < ROWS:
            kind = 0 if stage == "PT" else int(rng.random() < CODE_SHARE)
            number = rng.randrange(len(kinds[kind]))
            if (kind, number) not in known:
                known[kind, number] = list(
                    tokenizer(kinds[kind][number][:20_000], add_special_tokens=False)["input_ids"]
                )
            ids = known[kind, number]
            if len(ids) >= LENGTH:
                begin = rng.randrange(len(ids) - LENGTH + 1)
                rows.append(ids[begin : begin + LENGTH])
        yield torch.tensor(rows)


def evaluation_prompts(folder: Path) -> list[dict[str, str]]:
    """The bundled prompts that nothing is trained on, with their classes, from all `*_prompts.json` in a folder."""
    return [
        prompt for file in sorted(folder.glob("*_prompts.json")) for prompt in json.loads(file.read_text())["prompts"]
    ]
