"""The corpus of the small architectures as tensors: rows of `engines/tasks/rows.py` with what is learnt of them.

All positions are read, answers alone are learnt. A training that goes on sees what it would have seen.

Shapes: R rows, L tokens of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cache

import torch
from torch import Tensor

from engines.tasks import Split
from engines.tasks import rows as texts
from engines.tasks.rows import LENGTH, ROWS, SHARES, Row
from engines.training.core.data import shifted
from engines.training.tiny.tokenizer import load_tokenizer

__all__ = ["LENGTH", "ROWS", "SHARES", "Packed", "held_out", "joined", "packed", "rows"]


@dataclass(frozen=True)
class Packed:
    """Rows of text: ids [R, L], targets [R, L] (IGNORED where nothing is learnt) and documents [R, L], the number of
    the document that a position belongs to in its row."""

    ids: Tensor
    targets: Tensor
    documents: Tensor


def rows(number: int, seed: int = 0, split: Split = "train", count: int = ROWS, length: int = LENGTH) -> Packed:
    """`count` rows, those of batch `number`."""
    return _tensors(texts.rows(encode, number, seed, split, count, length))


def held_out(count: int = 64, length: int = LENGTH) -> Packed:
    """Rows that no training saw: always the same ones."""
    return _tensors(texts.held_out(encode, count, length))


def packed(given: Sequence[Iterator[tuple[list[int], list[int]]]], length: int = LENGTH) -> Packed:
    """Rows of that length, each of documents, ids of prompts and answers, that never end."""
    return _tensors([texts.row(one, length) for one in given])


def joined(*parts: Packed) -> Packed:
    """The rows of several batches, in their order."""
    return Packed(*(torch.cat([getattr(one, field.name) for one in parts]) for field in fields(Packed)))


def encode(text: str) -> list[int]:
    """Ids by the family's tokenizer."""
    ids: list[int] = _tokenizer()(text)["input_ids"]
    return ids


def _tensors(found: Sequence[Row]) -> Packed:
    ids, answered, documents = (torch.tensor(list(part)) for part in zip(*found, strict=True))
    return Packed(ids, shifted(ids, answered), documents)


@cache
def _tokenizer():  # noqa: ANN202 - of a library that is imported late
    return load_tokenizer()
