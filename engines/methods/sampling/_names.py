"""Which tokens of a vocabulary can go on with one of some names: the mask of a monitor (Agrawal et al.,
arXiv:2306.10763, section 3).

A name is a text; what is left of it behind the part that stands is its rest, "" for one that is complete. A token may
follow if it is a beginning of a rest, or a rest and then a character that ends a name. The strings of the vocabulary
are kept sorted, so that a trie's question, what begins with this text, is a range."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from functools import lru_cache

from engines.kit import Tokenizer

DOTTED = re.compile(r"\.(\w*)\Z")


class Trie:
    """The strings of a vocabulary, each with all ids that have it."""

    def __init__(self, strings: Mapping[int, str]) -> None:
        """strings: id -> text, for the ids that stand for a text of their own."""
        self.ids: dict[str, list[int]] = {}
        for token, text in strings.items():
            if text:
                self.ids.setdefault(text, []).append(token)
        self.order = sorted(self.ids)
        self.breaks = [token for text in self.order if ends_name(text[0]) for token in self.ids[text]]

    def allowed(self, rests: Iterable[str]) -> list[int]:
        """The ids that can follow, in rising order."""
        found: set[int] = set()
        for rest in set(rests):
            for end in range(1, len(rest) + 1):
                found.update(self.ids.get(rest[:end], ()))
            found.update(self._complete(rest) if rest else self.breaks)
        return sorted(found)

    def _complete(self, rest: str) -> Iterable[int]:
        """Ids of the strings that are this rest and then a character that ends a name."""
        for at in range(bisect_left(self.order, rest), len(self.order)):
            text = self.order[at]
            if not text.startswith(rest):
                return
            if len(text) > len(rest) and ends_name(text[len(rest)]):
                yield from self.ids[text]


def ends_name(character: str) -> bool:
    """Whether a character cannot stand in a name."""
    return not (character.isalnum() or character == "_")


def begun(text: str) -> tuple[str, str] | None:
    """(text with the last dot, what stands of the name behind it), or None where the text does not end so."""
    found = DOTTED.search(text)
    return (text[: found.start(1)], found[1]) if found else None


def rests(names: Iterable[str], written: str) -> dict[str, str]:
    """Name -> what is left of it, for the names that begin with what stands."""
    return {name: name[len(written) :] for name in names if name.startswith(written)}


def trie_of(tokenizer: Tokenizer, vocab_size: int) -> Trie:
    """The trie of a model's vocabulary. Special tokens and pieces of characters stand for no text, so they never
    follow inside a name."""
    return _trie(tokenizer, vocab_size)


@lru_cache(maxsize=4)
def _trie(tokenizer: Tokenizer, vocab_size: int) -> Trie:
    pieces = (tokenizer.piece(token) for token in range(vocab_size))
    return Trie({piece.id: piece.text for piece in pieces if piece.kind == "text"})
