"""Which tokens of a vocabulary can go on with one of some names: the mask of a monitor (Agrawal et al.,
arXiv:2306.10763, section 3).

A name is a text; what is left of it behind the part that stands is its rest, "" for one that is complete. A token may
follow if it is a beginning of a rest, or a rest and then a character that ends a name. The strings of the vocabulary
are kept sorted, so that a trie's question, what begins with this text, is a range."""

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from engines.kit import Tokenizer

RULED = re.compile(r"[)\]},=]")
DOTTED = re.compile(r"\.(\w*)\Z")
IMPORT = re.compile(
    r"(?:^|[\n;])[ \t]*(?:from[ \t]+[\w.]+[ \t]+import(?:[ \t]*\()?|import|from)"
    r"(?:(?<!from)[^()\n#;]*,)?([ \t]*)(\w*)\Z"
)


@dataclass(frozen=True)
class Importing:
    """A name that is imported, where a text ends. before: the text up to it, as it is asked about; prefix: what stands
    of it; spaces: what may stand before it; soft: the keyword itself may still become another word."""

    before: str
    prefix: str
    spaces: tuple[str, ...] = ("",)
    soft: bool = False


class Trie:
    """The strings of a vocabulary, each with all ids that have it."""

    def __init__(self, strings: Mapping[int, str], fragments: Sequence[int] = ()) -> None:
        """strings: id -> text, for the ids that stand for a text of their own; fragments: of parts of characters."""
        self.fragments = list(fragments)
        self.ids: dict[str, list[int]] = {}
        for token, text in strings.items():
            if text:
                self.ids.setdefault(text, []).append(token)
        self.order = sorted(self.ids)
        self.breaks = [token for text in self.order if ends_name(text[0]) for token in self.ids[text]]

    @cached_property
    def unspaced(self) -> list[int]:
        """The ids whose text does not begin with whitespace."""
        return [token for text, ids in self.ids.items() if not text[0].isspace() for token in ids]

    @cached_property
    def texts(self) -> dict[int, str]:
        """id -> text."""
        return {token: text for text, ids in self.ids.items() for token in ids}

    @cached_property
    def ruled(self) -> frozenset[int]:
        """The ids whose text has a character that ends an argument, or may."""
        return frozenset(token for token, text in self.texts.items() if RULED.search(text))

    def allowed(self, rests: Iterable[str]) -> list[int]:
        """The ids that can follow, in rising order."""
        tokens: set[int] = set()
        for rest in set(rests):
            for end in range(1, len(rest) + 1):
                tokens.update(self.ids.get(rest[:end], ()))
            tokens.update(self._complete(rest) if rest else self.breaks)
        return sorted(tokens)

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
    match = DOTTED.search(text)
    return (text[: match.start(1)], match[1]) if match else None


def importing(text: str) -> Importing | None:
    """The name behind `import`, `from` or a comma there that the text ends in, or None."""
    match = IMPORT.search(text)
    if match is None:
        return None
    spaces, prefix = match.groups()
    before, bare = text[: match.start(1)], text[: match.start(1)][-1:].isalpha()
    if spaces:
        return Importing(before + spaces, prefix)
    if not bare:
        return Importing(before + ("" if prefix else " "), prefix, ("",) if prefix else ("", " "))
    return None if prefix else Importing(before + " ", "", (" ",), soft=True)


def rests(names: Iterable[str], prefix: str) -> dict[str, str]:
    """Name -> what is left of it, for the names that begin with what stands."""
    return {name: name[len(prefix) :] for name in names if name.startswith(prefix)}


@lru_cache(maxsize=4)
def trie_of(tokenizer: Tokenizer, vocab_size: int) -> Trie:
    """The trie of a model's vocabulary. Special tokens and pieces of characters stand for no text, so they never
    follow inside a name."""
    pieces = [tokenizer.piece(token) for token in range(vocab_size)]
    strings = {piece.id: piece.text for piece in pieces if piece.kind == "text"}
    return Trie(strings, [piece.id for piece in pieces if piece.kind == "byte"])
