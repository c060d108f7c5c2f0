"""Tasks that are text, packed into rows of equal length, as the small architectures are trained on them and measured
on rows that no training saw.

A document is a prompt with its answer, as the models see it. Every row begins with a document and the last one of a row
is cut, so that no place is padding. Rows are made from their number, so the same number gives the same row."""

import random
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from engines.tasks import TASKS, Split

SHARES = {"copy": 1.0, "sentence": 1.5, "spell": 2.0, "grammar": 1.5, "read": 2.5, "python": 2.0, "story": 2.5}
LENGTH, ROWS = 128, 8
Encode = Callable[[str], list[int]]


class Row(NamedTuple):
    """Tokens of a row, whether each is a part of an answer, and the number of its document, all [L]."""

    ids: list[int]
    answered: list[bool]
    documents: list[int]


def prompt_text(prompt: str) -> str:
    """A user's turn as the models see it."""
    return f"<user> {prompt}<turn>"


def answer_text(answer: str) -> str:
    """An answer as the models see it, with its end."""
    return f" {answer}<eos>"


def rows(
    encode: Encode, number: int, seed: int = 0, split: Split = "train", count: int = ROWS, length: int = LENGTH
) -> list[Row]:
    """`count` rows, those of batch `number`."""
    return [row(documents(encode, random.Random(f"{seed}/{split}/{number}/{i}"), split), length) for i in range(count)]


def held_out(encode: Encode, count: int = 64, length: int = LENGTH) -> list[Row]:
    """Rows that no training saw: always the same ones."""
    return rows(encode, 0, 1, "held-out", count, length)


def row(texts: Iterator[tuple[Sequence[int], Sequence[int]]], length: int) -> Row:
    """A row of documents, ids of prompts and answers, that never end."""
    ids, answered, numbers = list[int](), list[bool](), list[int]()
    for number, (prompt, answer) in enumerate(texts):
        ids += [*prompt, *answer]
        answered += [False] * len(prompt) + [True] * len(answer)
        numbers += [number] * (len(prompt) + len(answer))
        if len(ids) >= length:
            break
    return Row(ids[:length], answered[:length], numbers[:length])


def documents(encode: Encode, rng: random.Random, split: Split) -> Iterator[tuple[list[int], list[int]]]:
    """Endless ids of prompts and answers in the shares of the tasks."""
    while True:
        task = rng.choices(list(SHARES), list(SHARES.values()))[0]
        example = next(TASKS[task].generate(split, rng.getrandbits(48)))
        yield encode(prompt_text(example.prompt)), encode(answer_text(example.answer))
