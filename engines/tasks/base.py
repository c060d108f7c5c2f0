"""What a task is: a generator with a seed, a reader that knows the answer to a typed prompt, and an exact check of any
output.

The three splits never share a prompt: membership is decided by a hash of the prompt's words, so it cannot drift with
the order of generation."""

import hashlib
import random
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

Split = Literal["train", "validation", "held-out"]
Group = Literal["list", "arithmetic", "puzzle", "text", "code", "story"]


@dataclass(frozen=True)
class Example:
    """One prompt with its reference answer (where a task has many right answers, one of them)."""

    task: str
    prompt: str
    answer: str


@dataclass(frozen=True)
class Verdict:
    """The mark for one output: whether it is right, and where it first goes wrong (an index into the
    whitespace-separated words)."""

    correct: bool
    first_wrong: int | None
    expected: str


def first_difference(expected: str, output: str) -> int | None:
    """The first whitespace-separated word in which two texts differ; None if they do not. A missing or extra word
    counts at its place."""
    want, have = expected.split(), output.split()
    for i, (a, b) in enumerate(zip(want, have, strict=False)):
        if a != b:
            return i
    return None if len(want) == len(have) else min(len(want), len(have))


def furthest(answers: Iterable[str], output: str) -> int | None:
    """The first difference from whichever of several right answers the output follows longest; None if it is one of
    them."""
    places = [first_difference(answer, output) for answer in answers]
    return None if None in places else max(place for place in places if place is not None)


@dataclass(frozen=True)
class Task:
    """A kind of prompt, "slug: text". Sizes are inclusive; `text` is the prompt without its first word.

    make(rng, size) -> (text, answer). read(text) -> the answer by another way than `make`, or None if the text asks
    nothing of this kind. wrong(text, answer, output) -> None if the output is right, else the index of its first wrong
    word.
    dependent: later answer words depend on earlier ones, so that writing several at once can break the answer. many:
    more than one answer is right. aloud: the answer stands behind a trace of thought, so that an output is right or
    wrong as a whole and has no first wrong word.
    asked: sizes of held-out prompts where no size is asked for, if not all: what is beyond them the shipped models were
    trained on and do not master; their cards say how they fare at every size."""

    slug: str
    title: str
    group: Group
    sizes: tuple[int, int]
    size_meaning: str
    make: Callable[[random.Random, int], tuple[str, str]]
    read: Callable[[str], str | None]
    dependent: bool = False
    many: bool = False
    aloud: bool = False
    asked: tuple[int, int] | None = None
    wrong: Callable[[str, str, str], int | None] = lambda text, answer, output: first_difference(answer, output)

    def generate(self, split: Split, seed: int = 0, size: int | None = None) -> Iterator[Example]:
        """Endless examples of one split. Equal arguments give equal examples; short lists may repeat. Raises ValueError
        where there are none."""
        low, high = self.sizes
        if size is not None and not low <= size <= high:
            raise ValueError(f"size={size} is outside {low}..{high} ({self.size_meaning}) of the task '{self.slug}'.")
        if split == "held-out" and self.asked and size is None:
            low, high = self.asked
        rng = random.Random(f"{self.slug}/{split}/{seed}")
        misses = 0
        while misses < 20_000:  # of a split that gets 2 % of the prompts: there is none
            text, answer = self.make(rng, size if size is not None else rng.randint(low, high))
            prompt = f"{self.slug}: {text}"
            misses += 1
            if split_of(prompt) == split:
                misses = 0
                yield Example(self.slug, prompt, answer)
        raise ValueError(
            f"no prompt of the task '{self.slug}' with size={size} falls into the split '{split}'; choose another size."
        )


def split_of(prompt: str) -> Split:
    """The split a prompt belongs to, whoever generated it (2 % held-out, 2 % validation). Separators do not matter."""
    words = " ".join(re.findall(r"\w+", prompt.lower()))
    bucket = int.from_bytes(hashlib.sha256(words.encode()).digest()[:4], "big") % 50
    return "held-out" if bucket == 0 else "validation" if bucket == 1 else "train"
