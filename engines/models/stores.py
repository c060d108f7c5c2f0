"""Stores: token files of a model to copy drafts from, as REST does (arXiv 2311.08252). Found beside their model, checked; none is shipped.

The folder stands beside the model's, with `-store` behind the name: tokens.npy, one array of ids in a row, and card.json, which names the tokenizer
that made them (the `tokenizer` of the model's record) and says where the text came from.
"""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np

from engines.core.errors import UserError
from engines.core.events import ModelRecord
from engines.models.hub import read_json
from engines.models.zoo import assets

LARGEST = 64_000_000  # bytes


def folder_of(model: str) -> Path:
    """Where the store of a model stands."""
    return assets() / "models" / f"{model.replace(chr(92), '/').rpartition('/')[2]}-store"


def store_of(record: ModelRecord) -> np.ndarray:
    """The tokens [L] of a model's store. Raises UserError where there is none, or one that another tokenizer made."""
    folder = folder_of(record.name)
    file = folder / "tokens.npy"
    if not file.is_file():
        raise UserError(f"there is no store for {record.name}: put token ids into {file} and a card.json beside it, or choose retriever=prompt.")
    made_by = str(read_json(folder / "card.json").get("tokenizer", "unknown"))
    if made_by != record.tokenizer:
        raise UserError(f"{folder.name} holds tokens of another tokenizer ({made_by[:12]}) than {record.name} has ({record.tokenizer[:12]}); make it again.")
    changed = file.stat()
    return _read(str(file), changed.st_mtime_ns, changed.st_size)


@functools.lru_cache(maxsize=4)
def _read(path: str, changed: int, size: int) -> np.ndarray:
    try:
        if size > LARGEST:
            raise ValueError(f"{size:,} bytes, at most {LARGEST:,} are read")
        tokens = np.load(path, allow_pickle=False)
        if tokens.ndim != 1 or not np.issubdtype(tokens.dtype, np.integer):
            raise ValueError(f"an array of shape {tokens.shape} and type {tokens.dtype}")
    except (OSError, ValueError, EOFError) as error:
        raise UserError(f"{path} is no store, which is one row of whole numbers: {str(error).splitlines()[0][:120]}.") from None
    return tokens
