"""Copying as a draft: where the end of the text occurred before, what followed there, and the trie of several such
continuations.

Letters: n the length of a match, c(prefix) the number of continuations that begin with the prefix. A prefix is a tuple
of tokens below the root."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from engines.kit import GuessSource, Span
from engines.methods.speculative._verify import Draft

Prefix = tuple[int, ...]
EVERY = slice(None)
IDLE = 3  # places noted of those that nothing was drafted from


class Match(NamedTuple):
    """An earlier place that ends as the text does: the n tokens before `start` equal the text's last n, `tokens` stand
    from `start` on."""

    start: int
    n: int
    tokens: Prefix


def find(
    corpus: np.ndarray,
    ids: Sequence[int],
    longest: int,
    shortest: int,
    length: int,
    eos_ids: frozenset[int],
    chosen: slice = EVERY,
) -> list[Match]:
    """The places in corpus [L] that end as `ids` does, oldest first: those of the longest n <= longest that occurs at
    all, none below n = shortest.

    Each continues for at most `length` tokens and before its first end mark, so it may be empty. Where corpus is the
    text itself, its end does not count.
    wanted: which of the places are returned.
    """
    if min(longest, len(ids)) < 1:
        return []
    ends = np.flatnonzero(corpus[:-1] == ids[-1]) + 1  # behind each match; a token has to follow
    n = int(len(ends) > 0)
    while 0 < n < min(longest, len(ids)):
        longer = ends[ends > n]
        longer = longer[corpus[longer - n - 1] == ids[-n - 1]]
        if len(longer) == 0:
            break
        ends, n = longer, n + 1
    return (
        [Match(end, n, _continuation(corpus, end, length, eos_ids)) for end in ends[chosen].tolist()]
        if n >= max(shortest, 1)
        else []
    )


def _continuation(corpus: np.ndarray, start: int, length: int, eos_ids: frozenset[int]) -> Prefix:
    tokens = corpus[start : start + length].tolist()
    return tuple(tokens[: next((i for i, token in enumerate(tokens) if token in eos_ids), len(tokens))])


def trie(continuations: Iterable[Prefix]) -> dict[Prefix, int]:
    """c(prefix) of every prefix, parents before children, earlier continuations first."""
    counts: dict[Prefix, int] = {}
    for tokens in continuations:
        for depth in range(1, len(tokens) + 1):
            counts[tokens[:depth]] = counts.get(tokens[:depth], 0) + 1
    return counts


def fuse(draft: Draft, prefixes: Iterable[Prefix]) -> None:
    """Lay prefixes (parents before children) over a draft tree: what it has already becomes a row of "both", the rest a
    new row of "retrieval"."""
    rows = {tuple(draft.path(row)): row for row in range(len(draft))}
    for prefix in prefixes:
        if prefix in rows:
            draft.sources[rows[prefix]] = "both"
        else:
            rows[prefix] = draft.add(rows[prefix[:-1]], prefix[-1], source="retrieval")


def copied(draft: Draft, kind: str, ids: Sequence[int], matches: Iterable[Match]) -> list[GuessSource]:
    """Which rows of a draft below the text `ids` are tokens that these matches are followed by, and all that they
    are followed by; kind: "text" or "store". Of several that begin alike the first one has the rows, and one that has
    nothing of its own is left out, as are all but the first few of those that nothing was drafted from."""
    rows = {tuple(draft.path(row)): row for row in range(1, len(draft)) if draft.sources[row] != "draft"}
    sources, known, idle = list[GuessSource](), set[Prefix](), 0
    for match in matches:
        beginnings = [match.tokens[: n + 1] for n in range(len(match.tokens))]
        if beginnings and beginnings[-1] not in known:
            new = [(rows[at], n) for n, at in enumerate(beginnings) if at in rows and at not in known]
            idle += not new
            if new or idle <= IDLE:
                sources.append(GuessSource(kind, key=[*ids[-match.n :]], tokens=[*match.tokens], links=new))
        known.update(beginnings)
    return sources


def spans(matches: Sequence[Match], length: int) -> list[Span]:
    """Where in the text the matches lie: what was looked for, at its end, and what was copied. length: of the text."""
    if not matches:
        return []
    return [Span("query", length - matches[0].n, length, "looked up")] + [
        Span("match", m.start, m.start + len(m.tokens), "copied from here") for m in matches
    ]
