"""Who guesses what comes next, for nothing: the text so far, and a table of what the model ranked highest last time.

Each guess carries the key that its acceptance is counted by: how many tokens agreed before a copy, how likely the model
followers a table's token when it last saw the one before."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

Key = tuple[str, int]  # source, and the class of its guesses that are accepted alike
Guess = tuple[int, Key]  # a token that may come next

LONGEST = 12  # tokens of agreement that are told apart
GRAM = 3  # tokens that places are looked up by
MATCHES = 3  # different continuations of one match
SURE = (1, 2, 3, 4, 5, 6, 9)  # agreement from which a class of copies begins
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
                        agreed = bisect_right(SURE, self._agreed(context, end, n)) if not followers else OLDER
                        followers[token] = (self.name, agreed)
                    if len(followers) == MATCHES:
                        break
                return [*followers.items()]
        return []

    def _agreed(self, context: Sequence[int], end: int, n: int) -> int:
        """How many tokens before `end` equal the last ones of the context, n of them known to."""
        if n < GRAM:
            return n
        most = min(LONGEST, len(context), end)
        while n < most and self._ids[end - n - 1] == context[-n - 1]:
            n += 1
        return n


class SeenTable:
    """What the model ranked highest when it last read a token (Token Recycling), with its probability then."""

    name = "table"

    def __init__(self) -> None:
        self._after: dict[int, list[Guess]] = {}

    def learn(self, tokens: Sequence[int], best: Sequence[Sequence[int]], chances: Sequence[Sequence[float]]) -> None:
        """After each of tokens [n]: best [n, k] and their probabilities."""
        for token, ids, shares in zip(tokens, best, chances, strict=True):
            self._after[token] = [
                (x, (self.name, bisect_right(LIKELY, share))) for x, share in zip(ids, shares, strict=True)
            ]

    def guesses(self, context: Sequence[int]) -> list[Guess]:
        """Those that came behind the last token."""
        return self._after.get(context[-1], [])
