"""A prompt that holds a document and a question, cut into passages, and the short context that retrieval leaves of it.

Positions are those of the prompt's tokens. The question is the last line of what a person wrote, or its last sentence
where that is one line only; what is before it is the document. The chat format around both is kept as it is."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from engines.core.errors import UserError
from engines.kit import Span, Tokenizer
from engines.tools.retrieval import bm25

ENDS = (".", "!", "?", "。", "！", "？")
KEPT, LEFT = "retrieved", "passage"


@dataclass(frozen=True)
class Passage:
    """A stretch [start, end) of the prompt with its score against the question and whether the drafter reads it."""

    start: int
    end: int
    score: float
    kept: bool


@dataclass(frozen=True)
class Context:
    """What the drafter reads of a prompt of `length` tokens: `ids`, with the passages it was chosen from."""

    ids: list[int]
    length: int
    passages: list[Passage]
    query: str

    @property
    def offset(self) -> int:
        """By how much a place of the text is earlier in the drafter's."""
        return self.length - len(self.ids)

    def text(self, ids: Sequence[int]) -> list[int]:
        """The drafter's view of the prompt with what was written since."""
        return [*self.ids, *ids[self.length :]]

    def spans(self) -> list[Span]:
        """For the record: every passage with its score, and which were retrieved."""
        return [
            Span(
                KEPT if passage.kept else LEFT,
                passage.start,
                passage.end,
                f"{passage.score:.3f}",
                {"score": round(passage.score, 3)},
            )
            for passage in self.passages
        ]


def frame(tokenizer: Tokenizer) -> tuple[list[int], list[int]]:
    """What the chat format puts before and behind a prompt; nothing where text is token ids."""
    try:
        a, b = (tokenizer.encode_prompt(text) for text in ("a", "b"))
    except UserError:
        return [], []
    head = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), 0)
    tail = next((i for i, (x, y) in enumerate(zip(reversed(a), reversed(b), strict=False)) if x != y), 0)
    return a[:head], a[len(a) - tail :]


def bounds(ids: Sequence[int], tokenizer: Tokenizer, texts: Sequence[str]) -> tuple[int, int, int]:
    """(start, question, end): the document is [start, question), the question [question, end)."""
    head, tail = frame(tokenizer)
    start = len(head) if list(ids[: len(head)]) == head else 0
    places = [i for i in range(start, len(ids) - len(tail) + 1) if list(ids[i : i + len(tail)]) == tail]
    end = places[-1] if tail and places else len(ids)
    nonblank = [i for i in range(start, end) if texts[i].strip()]
    last = nonblank[-1] if nonblank else end - 1
    cuts = [i + 1 for i in range(start, last) if "\n" in texts[i]]
    cuts = cuts or [i + 1 for i in range(start, last) if texts[i].rstrip().endswith(ENDS)]
    return start, cuts[-1] if cuts else start, end


def chunks(texts: Sequence[str], start: int, end: int, c: int) -> list[tuple[int, int]]:
    """[start, end) in stretches of at most c tokens, without overlap: each ends behind the last line that fits, else
    behind the last sentence, else the last word."""
    passages = []
    while start < end:
        stop = min(start + c, end)
        if stop < end:
            for ends in (
                lambda i: "\n" in texts[i - 1],
                lambda i: texts[i - 1].rstrip().endswith(ENDS),
                lambda i: texts[i][:1].isspace(),
            ):
                if places := [i for i in range(start + 1, stop + 1) if ends(i)]:
                    stop = places[-1]
                    break
        passages.append((start, stop))
        start = stop
    return passages


def retrieve(ids: Sequence[int], tokenizer: Tokenizer, c: int, keep: int, rho: float) -> Context:
    """The short context: the k = ceil(min(keep, document) / c) best passages of at most c tokens whose score is at
    least rho times the best one, in the document's order. Nothing is cut where there is no document."""
    texts = [tokenizer.piece(token).text for token in ids]
    start, question, end = bounds(ids, tokenizer, texts)
    c = min(c, keep)
    places = chunks(texts, start, question, c)
    if not places:
        return Context(list(ids), len(ids), [], tokenizer.decode(ids[question:end]))
    query = tokenizer.decode(ids[question:end])
    scores = bm25(query, [tokenizer.decode(ids[a:b]) for a, b in places])
    k = math.ceil(min(keep, question - start) / c)
    line = rho * max(scores)
    best = sorted(range(len(places)), key=lambda i: (-scores[i], i))[:k]
    kept = {i for i in best if scores[i] >= line}
    passages = [Passage(a, b, scores[i], i in kept) for i, (a, b) in enumerate(places)]
    body = [token for passage in passages if passage.kept for token in ids[passage.start : passage.end]]
    return Context([*ids[:start], *body, *ids[question:]], len(ids), passages, query)
