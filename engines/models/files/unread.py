"""What lies in a model's folder and is not read: weights under other names, and tokenizers in other formats. It is
named, with what to do."""

import fnmatch
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from engines.core.errors import UserError

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
TOKENIZER_FILES = ("tokenizer.json", "vocab.json")
OTHER_TOKENIZERS = (  # names of formats that are not read
    "tokenizer.model",
    "tekken.json",
    "spiece.model",
    "tiktoken.model",
    "sentencepiece.bpe.model",
    "*.tiktoken",
)
MISSING = 3  # names of files that an error lists
SHARD = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.safetensors")


def unread(folder: Path) -> tuple[str, str]:
    """(what a folder without weights that are read has in their place, what to do)."""
    convert = "convert it with save_pretrained or choose another revision"
    pickles = sorted(p.name for pattern in ("*.bin", "*.pt", "*.pth", "*.pkl") for p in folder.glob(pattern))
    if others := sorted(file.name for file in folder.glob("*.safetensors")):
        contents = f"only {some([*others, *pickles])}"
        if parts := [part for name in others if (part := SHARD.fullmatch(name))]:
            count, there = int(parts[0]["count"]), {int(part["number"]) for part in parts}
            lost = [f"part {i}" for i in range(1, count + 1) if i not in there][:MISSING]
            convert = f"of {count} shards {', '.join([*lost, INDEX])} is missing, so copy that, too"
        elif others[0].startswith("adapter_"):
            convert = "this is an adapter without its model, so merge it into that and save the whole"
        elif others[0].startswith("consolidated"):
            convert = "this is Mistral's own format, so choose a copy in that of transformers"
        else:
            convert = f"if this is the whole model, name it {WEIGHTS}"
    elif pickles:
        contents = f"only {pickles[0]}, which could run code when read"
    else:
        contents = "none"
    return contents, convert


def some(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    return ", ".join(names[:MISSING]) + (f" and {len(names) - MISSING} more" if len(names) > MISSING else "")


def check_tokenizer(names: Iterable[str], name: str) -> None:
    """Raises UserError where the tokenizer of a model is among these files in formats that are not read alone: a
    prompt's numbers would be taken for ids."""
    there = set(names)
    others = sorted(file for pattern in OTHER_TOKENIZERS for file in fnmatch.filter(there, pattern))
    if others and not there & set(TOKENIZER_FILES):
        raise UserError(
            f"the tokenizer of '{name}' is there as {others[0]}, and {' or '.join(TOKENIZER_FILES)} is read; convert "
            "it once with transformers (AutoTokenizer.from_pretrained(...).save_pretrained(...)), or choose a copy of "
            "the model that has it."
        )
