"""The corpus of the small architectures: tasks of `engines/tasks` that are text, packed into rows of equal length.

A document is a prompt with its answer, as the models see it. Every row begins with a document and the last one of a row
is cut, so that no place is padding and chunks of neighbours are text. All positions are read, answers alone are
learnt. Rows are made from their number, so a training that goes on sees what it would have seen.

Shapes: R rows, L tokens of each."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

import torch
from torch import Tensor

from engines.tasks import TASKS, Split
from engines.training.core.data import shifted
from engines.training.tiny.tokenizer import answer_text, load_tokenizer, prompt_text

SHARES = {"copy": 1.0, "sentence": 1.5, "spell": 2.0, "grammar": 1.5, "read": 2.5, "python": 2.0, "story": 2.5}
LENGTH, ROWS = 128, 8


@dataclass(frozen=True)
class Packed:
    """Rows of text: ids [R, L], targets [R, L] (IGNORED where nothing is learnt) and documents [R, L], the number of
    the document that a position belongs to in its row."""

    ids: Tensor
    targets: Tensor
    documents: Tensor


def rows(number: int, seed: int = 0, split: Split = "train", count: int = ROWS, length: int = LENGTH) -> Packed:
    """`count` rows, those of batch `number`."""
    return packed([_documents(random.Random(f"{seed}/{split}/{number}/{i}"), split) for i in range(count)], length)


def packed(rows: Sequence[Iterator[tuple[list[int], list[int]]]], length: int = LENGTH) -> Packed:
    """Rows of that length, each of documents, ids of prompts and answers, that never end."""
    ids, answered, documents = (torch.stack(part) for part in zip(*(_row(row, length) for row in rows), strict=True))
    return Packed(ids, shifted(ids, answered), documents)


def joined(*parts: Packed) -> Packed:
    """The rows of several batches, in their order."""
    return Packed(*(torch.cat([getattr(one, field.name) for one in parts]) for field in fields(Packed)))


def held_out(count: int = 64, length: int = LENGTH) -> Packed:
    """Rows that no training saw: always the same ones."""
    return rows(0, 1, "held-out", count, length)


def _row(texts: Iterator[tuple[list[int], list[int]]], length: int) -> tuple[Tensor, Tensor, Tensor]:
    ids, answered, documents = list[int](), list[bool](), list[int]()
    for number, (prompt, answer) in enumerate(texts):
        ids += prompt + answer
        answered += [False] * len(prompt) + [True] * len(answer)
        documents += [number] * (len(prompt) + len(answer))
        if len(ids) >= length:
            break
    return torch.tensor(ids[:length]), torch.tensor(answered[:length]), torch.tensor(documents[:length])


def _documents(rng: random.Random, split: Split) -> Iterator[tuple[list[int], list[int]]]:
    """Endless ids of prompts and answers in the shares of the tasks."""
    tokenizer = _tokenizer()
    while True:
        task = rng.choices(list(SHARES), list(SHARES.values()))[0]
        example = next(TASKS[task].generate(split, rng.getrandbits(48)))
        texts = prompt_text(example.prompt), answer_text(example.answer)
        prompt, answer = tokenizer(list(texts))["input_ids"]
        yield prompt, answer


@cache
def _tokenizer() -> Any:
    return load_tokenizer()
