"""The tokenizer inside a GGUF file behind `Tokenizer`: llama.cpp's own pieces and merges, and the file's chat template,
rendered as those of other models are."""

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from engines.core.trace import Piece
from engines.models.gguf.llama_cpp import Weights, library
from engines.models.tokenizers.templates import rendered
from engines.models.tokenizers.tokens import WordTokenizer, piece_of

UNKNOWN, UNUSED, CONTROL = 1, 2, 8  # bits of a token's attributes in llama.cpp
ROOM = 64  # bytes that most pieces take


class GGUFTokenizer(WordTokenizer):
    """See `Tokenizer`. template: the file's chat template, None where it has none."""

    def __init__(self, weights: Weights, template: str | None) -> None:
        super().__init__()
        self._weights, self._llama, self._template = weights, library(), template
        self.size, self.chat = weights.size, bool(template)
        self._vocabulary: dict[int, str] | None = None

    def encode_prompt(self, text: str) -> list[int]:
        """Ids of a user's turn in the model's chat format, ready for the answer; where the file has no chat template,
        plain ids with the marks that the file puts around a text. Raises UserError where the template fails."""
        if not (self.chat and self._template):
            return self._ids(text, around=True)
        vocab, llama = self._weights.vocab, self._llama
        ends = {"bos_token": llama.llama_vocab_bos(vocab), "eos_token": llama.llama_vocab_eos(vocab)}
        marks = {name: self._written(i) if i >= 0 else "" for name, i in ends.items()}
        return self._ids(rendered(self._template, text, marks), around=False)

    def encode(self, text: str) -> list[int]:
        """Ids of the text as it stands, by the model's own merges."""
        return self._ids(text, around=False)

    def _ids(self, text: str, *, around: bool) -> list[int]:
        """around: with the file's marks of a beginning and an end."""
        raw = text.encode("utf-8", "replace")

        def fill(buffer: Any, room: int) -> int:
            return int(self._llama.llama_tokenize(self._weights.vocab, raw, len(raw), buffer, room, around, True))

        return list(filled(fill, ctypes.c_int32, len(raw) + 2))

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids; special tokens and ids that stand for nothing are left out, broken bytes become U+FFFD."""
        known = [int(i) for i in ids if 0 <= i < self.size]
        given = (ctypes.c_int32 * max(1, len(known)))(*known)

        def fill(buffer: Any, room: int) -> int:
            return int(self._llama.llama_detokenize(self._weights.vocab, given, len(known), buffer, room, False, False))

        return bytes(filled(fill, ctypes.c_char, ROOM + 8 * len(known))).decode("utf-8", "replace") if known else ""

    def _look(self, token: int) -> Piece:
        if not 0 <= token < self.size:
            return Piece(token, f"<unused {token}>", "special")
        kind = int(self._llama.llama_vocab_get_attr(self._weights.vocab, token))
        if kind & UNUSED:
            return Piece(token, f"<unused {token}>", "special")
        if kind & (CONTROL | UNKNOWN):
            return Piece(token, self._written(token), "special")
        return piece_of(token, self._bytes(token))

    def _bytes(self, token: int) -> bytes:
        def fill(buffer: Any, room: int) -> int:
            return int(self._llama.llama_token_to_piece(self._weights.vocab, token, buffer, room, 0, True))

        return bytes(filled(fill, ctypes.c_char, ROOM))

    def _written(self, token: int) -> str:
        return str((self._llama.llama_vocab_get_text(self._weights.vocab, token) or b"").decode("utf-8", "replace"))

    def vocabulary(self) -> dict[int, str]:
        """What each id that is in use stands for, as the vocabulary writes it."""
        if self._vocabulary is None:
            kinds = ((i, self._llama.llama_vocab_get_attr(self._weights.vocab, i)) for i in range(self.size))
            self._vocabulary = {i: self._written(i) for i, kind in kinds if not kind & UNUSED}
        return self._vocabulary


def filled(fill: Callable[[Any, int], int], kind: Any, room: int) -> Any:
    """What a function of llama.cpp writes into a buffer of `kind`; where that is too small it says minus the length
    that it needs."""
    buffer = (kind * room)()
    if (length := fill(buffer, room)) < 0:
        room = -length
        buffer = (kind * room)()
        length = fill(buffer, room)
    return buffer[:length]
