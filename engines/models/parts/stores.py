"""Stores: what a model wrote before, as token ids, to copy drafts from (REST, arXiv 2311.08252) or to count n-grams in
(ADED, arXiv 2407.12021).

A store is a folder `assets/models/NAME-store` with tokens.npy, answers in a row with an end mark behind each, or with
tokens.npz, the same compressed and named `tokens`, and card.json, which names the tokenizer that made the ids (the
`tokenizer` of a model's record) and says where the text came from. It serves every model of that tokenizer. The ones
that ship are made by `python -m engines.training store`."""

import functools
import zipfile
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np

from engines.core.errors import UserError
from engines.core.places import assets
from engines.core.trace import ModelRecord
from engines.models.files.hub import read_json

LARGEST = 64_000_000  # bytes
FILES = ("tokens.npy", "tokens.npz")
GRAM = 3  # tokens that places are looked up by at most


def folders() -> list[Path]:
    """The folders that hold one."""
    return sorted({file.parent for file in (assets() / "models").glob("*-store/tokens.np[yz]")})


def store_of(record: ModelRecord) -> np.ndarray:
    """The tokens [L] of the store for a model's tokenizer. Raises UserError where there is none, or a damaged one."""
    if file := _file_of(record):
        return _read(str(file), file.stat().st_mtime_ns, file.stat().st_size)
    there = ", ".join(folder.name for folder in folders()) or "no store at all"
    raise UserError(
        f"there is no store in the tokens of {record.name} (there is {there}); choose another source, or copy one "
        "next to the models."
    )


class StoreIndex:
    """Where a few tokens stand in a store. tokens: those of the store [L]."""

    def __init__(self, tokens: np.ndarray) -> None:
        self.tokens: list[int] = tokens.tolist()
        self._base = int(tokens.max(initial=0)) + 1
        self._by_length = [self._sorted(tokens.astype(np.int64), n) for n in range(1, GRAM + 1)]

    def behind(self, gram: Sequence[int], most: int) -> list[int]:
        """The last `most` places that stand behind these tokens, oldest first. gram: 1 to GRAM of them."""
        keys, places = self._by_length[len(gram) - 1]
        key = np.int64(0)
        for token in gram:
            if token >= self._base:
                return []
            key = key * self._base + token
        first, end = keys.searchsorted(key), keys.searchsorted(key, "right")
        return places[max(first, end - most) : end].tolist()

    def _sorted(self, tokens: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
        """The numbers of all n tokens that something follows, rising, and the places behind them."""
        keys = np.zeros(max(0, len(tokens) - n), dtype=np.int64)
        for i in range(n):
            keys = keys * self._base + tokens[i : i + len(keys)]
        order = keys.argsort(kind="stable")
        return keys[order], order + n


def index_of(record: ModelRecord) -> StoreIndex | None:
    """The index of the store for a model's tokenizer, made once; None where there is no store. Raises UserError for a
    damaged one."""
    file = _file_of(record)
    return _index(str(file), file.stat().st_mtime_ns, file.stat().st_size) if file else None


def answers_of(record: ModelRecord, eos_ids: Collection[int]) -> list[list[int]]:
    """The store's answers one by one, without their end marks. Raises UserError as `store_of`."""
    tokens = store_of(record)
    ends = np.flatnonzero(np.isin(tokens, sorted(eos_ids)))
    parts = np.split(tokens, ends)
    return [part[int(i > 0) :].tolist() for i, part in enumerate(parts) if len(part) > int(i > 0)]


def _file_of(record: ModelRecord) -> Path | None:
    """The file of the store for a model's tokenizer."""
    for folder in folders():
        if record.tokenizer and read_json(folder / "card.json").get("tokenizer") == record.tokenizer:
            return next(file for name in FILES if (file := folder / name).is_file())
    return None


@functools.lru_cache(maxsize=4)
def _index(path: str, changed: int, size: int) -> StoreIndex:
    return StoreIndex(_read(path, changed, size))


@functools.lru_cache(maxsize=4)
def _read(path: str, changed: int, size: int) -> np.ndarray:
    try:
        packed = path.endswith(".npz")
        if packed:
            with zipfile.ZipFile(path) as parts:
                size = parts.getinfo("tokens.npy").file_size
        if size > LARGEST:
            raise ValueError(f"{size:,} bytes, at most {LARGEST:,} are read")
        tokens = np.load(path, allow_pickle=False)
        tokens = tokens["tokens"] if packed else tokens
        if tokens.ndim != 1 or not np.issubdtype(tokens.dtype, np.integer):
            raise ValueError(f"an array of shape {tokens.shape} and type {tokens.dtype}")
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise UserError(
            f"{path} is not a store, which is one row of whole numbers: {str(error).splitlines()[0][:120]}."
        ) from None
    return tokens
