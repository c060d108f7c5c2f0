"""Which passages of a text speak of a question: BM25 (Robertson and Walker 1994; k1 = 1.5, b = 0.75, with the
logarithm that is never negative, as Lucene has it), over words in lower case.

A word counts more the fewer passages have it, and less with every time it is repeated; longer passages pay for their
length."""

import math
import re
from collections import Counter
from collections.abc import Sequence

K1, B = 1.5, 0.75


def words(text: str) -> list[str]:
    """The words and numbers of a text, in lower case."""
    return re.findall(r"\w+", text.lower())


def bm25(query: str, passages: Sequence[str]) -> list[float]:
    """The score of each passage, none below 0; 0 where it shares no word with the query."""
    counts = [Counter(words(passage)) for passage in passages]
    lengths = [sum(count.values()) for count in counts]
    usual = sum(lengths) / len(lengths) if any(lengths) else 1.0
    n = len(passages)
    weights = {}
    for word in set(words(query)):
        having = sum(word in count for count in counts)
        weights[word] = math.log(1 + (n - having + 0.5) / (having + 0.5))
    return [
        sum(
            weight * count[word] * (K1 + 1) / (count[word] + K1 * (1 - B + B * length / usual))
            for word, weight in weights.items()
            if word in count
        )
        for count, length in zip(counts, lengths, strict=True)
    ]
