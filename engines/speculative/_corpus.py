"""Token sequences that n-gram tables may start from: answers that a model wrote itself, shipped beside it in the folder `<model>-ngrams`.

`tokens.npz` holds `tokens` [n] (whole numbers) and `ends` [m], where each of the m answers ends in it; `card.json` says how they were made and gives
`tokenizer`, the fingerprint in a model's record.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from engines.core.errors import UserError
from engines.core.events import ModelRecord
from engines.core.params import Choice, Param
from engines.models.hub import read_json
from engines.models.zoo import assets


def corpora() -> list[Path]:
    """The folders that hold one."""
    return sorted(file.parent for file in (assets() / "models").glob("*-ngrams/tokens.npz"))


def corpus_choice() -> list[Param]:
    """The parameter that starts a table from a corpus; none where no corpus is shipped."""
    sees = "What the table holds before the prompt: nothing, or counts over answers that the model gave to other prompts."
    return [Choice("corpus", "none", ["none", "shipped"], sees=sees)] if corpora() else []


def read_corpus(record: ModelRecord) -> list[list[int]]:
    """The answers in the model's own token ids. Raises UserError where there are none for its tokenizer."""
    for folder in corpora():
        if record.tokenizer and read_json(folder / "card.json").get("tokenizer") == record.tokenizer:
            with np.load(folder / "tokens.npz", allow_pickle=False) as data:
                tokens, ends = data["tokens"].tolist(), data["ends"].tolist()
            return [tokens[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    there = ", ".join(folder.name.removesuffix("-ngrams") for folder in corpora()) or "no model"
    raise UserError(f"corpus=shipped: there is a corpus for {there}, none in the tokens of {record.name}; set corpus=none, or choose that model.")
