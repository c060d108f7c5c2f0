"""Text to ids and back, and how an id looks: over a transformers fast tokenizer, or over bare ids."""

import copy
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Self, TypeVar

from engines.core.errors import UserError
from engines.core.kinds import Tokenizer
from engines.core.trace import Piece
from engines.models.tokenizers.templates import rendered

T = TypeVar("T")
SHOWN = 6  # candidates that an error names
BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")


# byte-level BPE writes each byte as one printable character; this is the way back
PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
OTHERS = [b for b in range(256) if b not in PRINTABLE]
BYTES = {chr(b): b for b in PRINTABLE} | {chr(256 + i): b for i, b in enumerate(OTHERS)}


class WordTokenizer(ABC):
    """What the tokenizers of words share. chat: whether a prompt is put into the model's chat format."""

    chat: bool

    def __init__(self) -> None:
        self._plain: Self | None = None
        self._pieces: dict[int, Piece] = {}

    def plain(self) -> Self:
        """The same tokens; a prompt is encoded as it stands, without a chat format."""
        if self._plain is None:
            self._plain = copy.copy(self)
            self._plain.chat = False
        return self._plain

    def piece(self, token: int) -> Piece:
        """How one id looks: text with its leading space, "special", or "byte" (hex) where it is only a part of a
        character."""
        if token not in self._pieces:
            self._pieces[token] = self._look(token)
        return self._pieces[token]

    @abstractmethod
    def _look(self, token: int) -> Piece:
        """How it looks, found out."""


def piece_of(token: int, raw: bytes) -> Piece:
    """How a token of these bytes looks."""
    try:
        return Piece(token, raw.decode("utf-8"))
    except UnicodeDecodeError:
        return Piece(token, " ".join(f"0x{b:02X}" for b in raw), "byte")


class HFTokenizer(WordTokenizer):
    """A transformers fast tokenizer behind `Tokenizer`."""

    def __init__(self, tokenizer: Any, given: Mapping[str, Any] = MappingProxyType({})) -> None:
        """given: what its chat template is given beside the turn."""
        super().__init__()
        self.tokenizer, self._given = tokenizer, given
        tokenizer.deprecation_warnings["sequence-length-is-longer-than-the-specified-maximum"] = True  # we refuse it
        self.size = len(tokenizer)
        self.chat = bool(tokenizer.chat_template)
        self._vocabulary: dict[int, str] | None = None
        self._byte_level = "ByteLevel" in repr(tokenizer.backend_tokenizer.decoder)
        added = tokenizer.added_tokens_decoder
        self._special = set(tokenizer.all_special_ids) | {i for i, token in added.items() if token.special}
        self._verbatim = set(added)  # written as they are, not in the byte alphabet

    def encode_prompt(self, text: str) -> list[int]:
        """Ids of a user's turn in the model's chat format, ready for the answer; plain ids where the tokenizer has no
        chat template."""
        if self.chat:
            given = {**self.tokenizer.special_tokens_map, **self._given}
            return self.encode(rendered(self.tokenizer.get_chat_template(), text, given))
        return list(self.tokenizer(text)["input_ids"])

    def encode(self, text: str) -> list[int]:
        """Ids of the text as it stands, by the model's own merges."""
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids; special tokens and ids that stand for nothing are left out, broken bytes become U+FFFD."""
        known = [int(i) for i in ids if 0 <= i < self.size]
        return str(self.tokenizer.decode(known, skip_special_tokens=True, clean_up_tokenization_spaces=False))

    def _look(self, token: int) -> Piece:
        text = self.tokenizer.convert_ids_to_tokens(token)
        if text is None:
            return Piece(token, f"<unused {token}>", "special")
        if token in self._special:
            return Piece(token, text, "special")
        if token in self._verbatim:
            return Piece(token, text)
        return piece_of(token, self._bytes(text))

    def _bytes(self, text: str) -> bytes:
        if lone := BYTE_TOKEN.fullmatch(text):
            return bytes([int(lone[1], 16)])
        if self._byte_level and all(c in BYTES for c in text):
            return bytes(BYTES[c] for c in text)
        return text.replace("\u2581", " ").encode("utf-8")

    def vocabulary(self) -> dict[int, str]:
        """What each id stands for; read once, because every run with two models compares them."""
        if self._vocabulary is None:
            self._vocabulary = {i: text for text, i in self.tokenizer.get_vocab().items()}
        return self._vocabulary


class IdTokenizer:
    """For models without a tokenizer: the text of a prompt is its ids, "1 16 5". `special` names the ids that are no
    words."""

    def __init__(self, vocab_size: int, special: Mapping[int, str] | None = None) -> None:
        self.size, self.special = vocab_size, dict(special or {})

    def encode_prompt(self, text: str) -> list[int]:
        """The ids that are written in the text. Raises UserError for anything but ids of the vocabulary."""
        words = text.split()
        bad = next((w for w in words if not (w.isascii() and w.isdigit() and int(w) < self.size)), None)
        if bad is not None or not words:
            given = f"'{bad}'" if bad is not None else "an empty prompt"
            raise UserError(
                f"this model has no tokenizer and {given} was given; write token ids from 0 to {self.size - 1}, for "
                "example '1 16 5'."
            )
        return [int(w) for w in words]

    encode = encode_prompt  # there is no other text than ids

    def decode(self, ids: Sequence[int]) -> str:
        """The ids, separated by spaces; special ones are left out."""
        return " ".join(str(int(i)) for i in ids if i >= 0 and i not in self.special)

    def piece(self, token: int) -> Piece:
        """ "·16", or the name of a special id."""
        if token in self.special:
            return Piece(token, self.special[token], "special")
        return Piece(token, f"·{token}") if token < self.size else Piece(token, f"<unused {token}>", "special")

    def vocabulary(self) -> dict[int, str]:
        """What each id stands for."""
        return {i: self.piece(i).text for i in range(self.size)}


def same_vocabulary(a: Tokenizer, b: Tokenizer) -> bool:
    """Whether both number the same strings the same way, in a GGUF file or a transformers tokenizer; the sizes of the
    models' output layers (padding) do not matter."""
    return a is b or a.vocabulary() == b.vocabulary()  # type: ignore[attr-defined]


def candidates(vocabulary: Mapping[int, str], parts: Collection[str]) -> str:
    """The first tokens whose texts have one of these parts, with their ids; a dash where there is none."""
    matches = sorted((i, text) for i, text in vocabulary.items() if any(part in text.lower() for part in parts))
    return ", ".join(f"{text} {i}" for i, text in matches[:SHOWN]) or "–"


def mask_of(name: str, ids: Iterable[int | None], vocabulary: Mapping[int, str]) -> int:
    """The first id of a mask that one place says. Raises UserError where none does."""
    if (mask_id := next((token for token in ids if token is not None), None)) is not None:
        return int(mask_id)
    raise UserError(
        f"'{name}' does not say which token is its mask; give it as mask_id=... (candidates in its tokenizer: "
        f"{candidates(vocabulary, ('mask',))})."
    )


def check_end_ids(name: str, ends: Iterable[int], size: int) -> None:
    """Raises UserError for an id that ends an answer and is no token."""
    if wrong := next((token for token in sorted(ends) if not 0 <= token < size), None):
        raise UserError(f"eos_id={wrong} is not in the vocabulary of {name}; ids go from 0 to {size - 1}.")
