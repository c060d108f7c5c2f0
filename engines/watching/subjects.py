"""What is watched: torch modules, or models that were loaded here; their names, vocabularies and tokenizers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from engines.core.errors import UserError
from engines.core.kinds import Tokenizer
from engines.core.lazy import torch
from engines.core.trace import ModelRecord, Piece
from engines.watching.halves import has_halves

TABLES = ("d2t", "t2d")  # of a draft's own vocabulary


@dataclass
class Subject:
    """A watched module. loaded: the model of `load_model` whose network it is, or None."""

    module: Any
    loaded: Any = None

    @property
    def name(self) -> str:
        """What it is called: a name of this program, of the hub, or its class."""
        if self.loaded is not None:
            return str(self.loaded.record.name)
        path = str(getattr(self.config, "_name_or_path", "") or "").rstrip("/")
        inner = getattr(self.module, "_orig_mod", self.module)
        return "/".join(path.replace("\\", "/").split("/")[-2:]) or type(inner).__name__

    @property
    def config(self) -> Any:
        """Its config, or None."""
        config: Any = getattr(self.module, "config", None)
        return config.get_text_config() if hasattr(config, "get_text_config") else config

    @property
    def kind(self) -> Any:
        """masked, causal or canvas where it was loaded here, or has the two halves of a canvas model; else None."""
        if has_halves(self.module):
            return "canvas"
        kind = self.loaded.record.kind if self.loaded is not None else None
        return {"masked": "masked", "block": "masked", "causal": "causal"}.get(kind or "")

    @property
    def blocks(self) -> bool:
        """Whether it is known to see a board by blocks."""
        known = self.loaded.record.kind if self.loaded is not None else ""
        return known == "block" or str(getattr(self.config, "model_type", "")).startswith("llada2_moe")

    @property
    def shift(self) -> bool | None:
        """Whether row i predicts token i + 1, where that is known."""
        return getattr(self.loaded, "shift", None)

    @property
    def vocab_size(self) -> int:
        """Ids of its vocabulary; very many where it does not say."""
        return int(getattr(self.loaded, "vocab_size", 0) or getattr(self.config, "vocab_size", 0) or 2**31)

    @property
    def own_columns(self) -> int:
        """Columns that its logits need to be those of its vocabulary's tokens, in their order: as many as that has;
        more than there are where it holds a table from its columns to tokens, 0 where it does not say."""
        tables = (*dict(self.module.named_buffers()), *dict(self.module.named_parameters()))
        if any(name.rpartition(".")[2] in TABLES for name in tables):
            return 2**62
        return int(getattr(self.config, "vocab_size", 0) or 0)

    def mask_id(self, tokenizer: Any) -> int | None:
        """The id of its mask token where it or its tokenizer says one."""
        sources = (self.loaded, self.config, tokenizer)
        for source, field in zip(sources, ("mask_id", "mask_token_id", "mask_token_id"), strict=True):
            if isinstance(mask_id := getattr(source, field, None), int):
                return mask_id
        return None

    def record(self, kind: str) -> ModelRecord:
        """What the header says of it."""
        if self.loaded is not None:
            record: ModelRecord = self.loaded.record
            return msgspec.structs.replace(record, threads=torch.get_num_threads())
        first = next(self.module.parameters(), None)
        return ModelRecord(
            role="target",
            name=self.name,
            kind=kind,
            parameters=sum(parameter.numel() for parameter in self.module.parameters()),
            dtype="" if first is None else str(first.dtype).removeprefix("torch."),
            device="cpu" if first is None else str(first.device),
            threads=torch.get_num_threads(),
        )


def subjects_of(model: Any) -> dict[str, Subject]:
    """The watched modules by role, the one that decides first. Raises UserError for what is not a module."""
    given = dict(model) if isinstance(model, Mapping) else {"target": model}
    if not given:
        raise UserError("there is nothing to watch; give a torch module, or several by role.")
    subjects = {str(role): _subject(str(role), module) for role, module in given.items()}
    first = next((role for role in ("target", "model") if role in subjects), next(iter(subjects)))
    return {first: subjects.pop(first), **subjects}


def _subject(role: str, model: Any) -> Subject:
    if isinstance(model, torch.nn.Module):
        return Subject(model)
    inner = getattr(model, "model", None)
    if hasattr(model, "record") and isinstance(inner, torch.nn.Module):
        return Subject(inner, model)
    raise UserError(
        f"role '{role[:40]}' is a {type(model).__name__}, which has no forwards to watch; give the torch module that "
        "the loop calls."
    )


def tokenizer_of(given: Any, main: Subject) -> Tokenizer:
    """The tokenizer of the traces: one of ours, one of transformers, that of the model, or bare ids. Raises UserError
    for one that cannot decode."""
    from engines.models.tokenizers.tokens import HFTokenizer, IdTokenizer

    if given is None:
        return main.loaded.tokenizer if main.loaded is not None else IdTokenizer(main.vocab_size)
    if hasattr(given, "piece") and hasattr(given, "decode"):
        return given
    if hasattr(given, "backend_tokenizer"):
        return HFTokenizer(given)
    if not hasattr(given, "decode") or not hasattr(given, "encode"):
        raise UserError(f"tokenizer is a {type(given).__name__}; give one of transformers, with encode and decode.")
    return PlainTokenizer(given)


class PlainTokenizer:
    """Any tokenizer that encodes and decodes, a slow one of transformers included; a token is shown as it decodes
    alone."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self.size = len(tokenizer) if hasattr(tokenizer, "__len__") else 2**62
        self._special = set(getattr(tokenizer, "all_special_ids", ()))

    def encode(self, text: str) -> list[int]:
        """Ids of the text as it stands."""
        return [int(i) for i in self._tokenizer.encode(text)]

    encode_prompt = encode

    def decode(self, ids: Any) -> str:
        """Text of ids, special ones left out."""
        return str(self._tokenizer.decode([int(i) for i in ids if i < self.size and i not in self._special]))

    def piece(self, token: int) -> Piece:
        """How one id looks: as it decodes alone, or "byte" (hex) where it is only a part of a character."""
        if token in self._special:
            return Piece(token, str(self._tokenizer.decode([token])), "special")
        text = str(self._tokenizer.decode([token]))
        raw = self._bytes(token) if text in ("", "\ufffd") else b""
        return Piece(token, " ".join(f"0x{b:02X}" for b in raw), "byte") if raw else Piece(token, text)

    def _bytes(self, token: int) -> bytes:
        """The bytes that an id stands for, as tokenizers over bytes say them; none where they do not."""
        if hasattr(self._tokenizer, "decode_single_token_bytes"):  # tiktoken
            return bytes(self._tokenizer.decode_single_token_bytes(token))
        name = self._tokenizer.convert_ids_to_tokens(token) if hasattr(self._tokenizer, "convert_ids_to_tokens") else ""
        return bytes([ord(name)]) if isinstance(name, str) and len(name) == 1 and ord(name) < 256 else b""


def end_ids(main: Subject, tokenizer: Any) -> list[int]:
    """The ids that end an answer, by the model that was loaded here, its generation config, its config or the
    tokenizer."""
    if main.loaded is not None:
        return sorted(main.loaded.eos_ids)
    for source in (getattr(main.module, "generation_config", None), main.config, tokenizer):
        ids = getattr(source, "eos_token_id", None)
        if isinstance(ids, int):
            return [ids]
        if isinstance(ids, (list, tuple)) and ids:
            return sorted({int(token) for token in ids})
    return []
