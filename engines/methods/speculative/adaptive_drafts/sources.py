"""Who guesses what comes next: for nothing the text so far, a store of texts, and a table of what the model ranked
highest last time; for a forward of its own a draft model.

Each guess carries the key that its acceptance is counted by: how many tokens agreed before a copy, which share of the
places in the store went on so, how likely the token was to the target when it last read the one before, or is to the
draft model."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence

from engines.kit import Tensor, top_ids
from engines.models.parts.stores import GRAM, StoreIndex

Key = tuple[str, int]  # source, and the class of its guesses that are accepted alike
Guess = tuple[int, Key]  # a token that may come next

LONGEST = 12  # tokens of agreement that are told apart
RANKS = 8  # ranks of a row that the table keeps
MATCHES = 3  # different continuations of one match
SURE = (1, 2, 3, 4, 5, 6, 9)  # agreement from which a class of copies begins
PLACES = 24  # of a store that are looked at
OLDER = 0  # the class of copies that are not the newest
LIKELY = (0.01, 0.03, 0.06, 0.1, 0.2, 0.4, 0.7, 0.9)  # probability from which a class of the table begins


class TextCopy:
    """Copies: what followed where the last tokens stood before, the newest such place first."""

    name = "text"

    def __init__(self, tokens: Iterable[int] = ()) -> None:
        self._ids: list[int] = []
        self._behind: dict[tuple[int, ...], list[int]] = {}  # tokens -> where something follows them, oldest first
        self.read(tokens)

    def read(self, tokens: Iterable[int]) -> None:
        """The text has grown."""
        for token in tokens:
            end = len(self._ids)
            for n in range(1, min(GRAM, end) + 1):
                self._behind.setdefault(tuple(self._ids[end - n :]), []).append(end)
            self._ids.append(token)

    def guesses(self, context: Sequence[int]) -> list[Guess]:
        """Different tokens that followed the longest match with the end of `context`; the newest place has the class of
        its agreement."""
        for n in range(min(GRAM, len(context)), 0, -1):
            if ends := self._behind.get(tuple(context[-n:])):
                followers: dict[int, Key] = {}
                for end in reversed(ends):
                    if (token := self._ids[end]) not in followers:
                        agreed = agreement(self._ids, end, context, n) if not followers else 0
                        followers[token] = (self.name, bisect_right(SURE, agreed) if agreed else OLDER)
                    if len(followers) == MATCHES:
                        break
                return [*followers.items()]
        return []


class StoreCopy:
    """What followed in a store of texts where the last tokens stand there, of all places with the longest agreement."""

    name = "store"

    def __init__(self, index: StoreIndex) -> None:
        self._index = index
        self._known: dict[tuple[int, ...], list[Guess]] = {}

    def guesses(self, context: Sequence[int]) -> list[Guess]:
        """Different tokens that followed, each with its share of the places."""
        end = tuple(context[-LONGEST:])
        if end not in self._known:
            self._known[end] = self._found(end)
        return self._known[end]

    def _found(self, context: tuple[int, ...]) -> list[Guess]:
        for n in range(min(GRAM, len(context)), 0, -1):
            if places := self._index.behind(context[-n:], PLACES):
                agreed = {place: agreement(self._index.tokens, place, context, n) for place in places}
                longest = max(agreed.values())
                came = Counter(self._index.tokens[place] for place, n in agreed.items() if n == longest)
                tokens, times = zip(*came.most_common(MATCHES), strict=True)
                return by_chance(self.name, tokens, (n / (came.total() + 1) for n in times))
        return []


class SeenTable:
    """What the model ranked highest when it last read a token (Token Recycling), with its probability then."""

    name = "table"

    def __init__(self) -> None:
        self._after: dict[int, list[Guess]] = {}

    def learn(self, tokens: Sequence[int], best: Sequence[Sequence[int]], chances: Sequence[Sequence[float]]) -> None:
        """After each of tokens [n]: best [n, k] and their probabilities."""
        for token, ids, shares in zip(tokens, best, chances, strict=True):
            self._after[token] = by_chance(self.name, ids, shares)

    def guesses(self, context: Sequence[int]) -> list[Guess]:
        """Those that came behind the last token."""
        return self._after.get(context[-1], [])


def agreement(ids: Sequence[int], end: int, context: Sequence[int], n: int) -> int:
    """How many tokens before `end` in ids equal the last ones of the context, n of them known to."""
    if n < GRAM:
        return n
    most = min(LONGEST, len(context), end)
    while n < most and ids[end - n - 1] == context[-n - 1]:
        n += 1
    return n


def by_chance(name: str, tokens: Iterable[int], chances: Iterable[float]) -> list[Guess]:
    """Guesses of a source, each in the class of its probability."""
    return [(x, (name, bisect_right(LIKELY, share))) for x, share in zip(tokens, chances, strict=True)]


def ranked(z: Tensor, ranks: int = RANKS) -> tuple[list[list[int]], list[list[float]]]:
    """The likeliest tokens behind each row of the logits z [n, V], and their probabilities."""
    best = top_ids(z, ranks)
    return best.tolist(), (z.gather(-1, best) - z.logsumexp(-1, keepdim=True)).exp().tolist()
