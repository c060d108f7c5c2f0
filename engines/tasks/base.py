"""Small tasks with exact checks: what the tiny models are trained on and what every run on them can be marked against.

A task makes prompts from a seed, knows the right answer (or how to recognise one), and scores any output. The three splits never share
a prompt: membership is decided by a hash of the prompt text, so it cannot drift with the order of generation.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

Split = Literal["train", "validation", "held-out"]

NAMES = (
    "Ada Alan Amy Anna Ben Bob Cara Carl Cleo Dan Dora Eli Ella Emma Finn Fred Gina Hugo Ida Ivan Jack Jane Joe Kate Kim "
    "Leo Lily Lola Max Mia Nina Noah Olga Oscar Paul Pia Rita Rosa Sam Sara Ted Tina Tom Uma Vera Will Yara Zoe"
).split()


@dataclass(frozen=True)
class Example:
    """One prompt with its reference answer (for `shuffle`, one of many right answers)."""

    task: str
    prompt: str
    answer: str


@dataclass(frozen=True)
class Verdict:
    """The mark for one output: whether it is right, and where it first goes wrong (an index into the whitespace-separated words)."""

    correct: bool
    first_wrong: int | None
    expected: str


@dataclass(frozen=True)
class Task:
    """A generator and an exact checker. `make(rng, size)` returns (prompt, answer); sizes are inclusive."""

    slug: str
    title: str
    sizes: tuple[int, int]
    size_meaning: str
    make: Callable[[random.Random, int], tuple[str, str]]
    dependent: bool  # True where later answer tokens depend on earlier ones, so that committing in parallel can break the answer

    def generate(self, split: Split, seed: int = 0, size: int | None = None) -> Iterator[Example]:
        """Endless examples of one split. Equal arguments give equal examples; short lists may repeat. Raises ValueError where there are none."""
        low, high = self.sizes
        if size is not None and not low <= size <= high:
            raise ValueError(f"size={size} is outside {low}..{high} ({self.size_meaning}) of the task '{self.slug}'.")
        rng = random.Random(f"{self.slug}/{split}/{seed}")
        misses = 0
        while misses < 20_000:  # of a split that gets 2 % of the prompts: there is none
            prompt, answer = self.make(rng, size if size is not None else rng.randint(low, high))
            misses += 1
            if split_of(prompt) == split:
                misses = 0
                yield Example(self.slug, prompt, answer)
        raise ValueError(f"no prompt of the task '{self.slug}' with size={size} falls into the split '{split}'; choose another size.")


def split_of(prompt: str) -> Split:
    """The split a prompt belongs to, whoever generated it (2 % held-out, 2 % validation). Separators do not matter."""
    words = " ".join(re.findall(r"\w+", prompt.lower()))
    bucket = int.from_bytes(hashlib.sha256(words.encode()).digest()[:4], "big") % 50
    return "held-out" if bucket == 0 else "validation" if bucket == 1 else "train"


def _names(rng: random.Random, n: int) -> list[str]:
    return rng.sample(NAMES, n)


def _listed(rng: random.Random, verb: str, items: list[str]) -> str:
    """People type lists with and without commas; the models see both."""
    return f"{verb}: {(', ' if rng.random() < 0.5 else ' ').join(items)}"


def _copy(rng: random.Random, n: int) -> tuple[str, str]:
    items = _names(rng, n)
    return _listed(rng, "copy", items), " ".join(items)


def _reverse(rng: random.Random, n: int) -> tuple[str, str]:
    items = _names(rng, n)
    return _listed(rng, "reverse", items), " ".join(reversed(items))


def _sort(rng: random.Random, n: int) -> tuple[str, str]:
    items = _names(rng, n)
    return _listed(rng, "sort", items), " ".join(sorted(items))


def _shuffle(rng: random.Random, n: int) -> tuple[str, str]:
    items = _names(rng, n)
    return _listed(rng, "shuffle", items), " ".join(rng.sample(items, n))


def _add(rng: random.Random, digits: int) -> tuple[str, str]:
    a = rng.randint(10 ** (digits - 1), 10**digits - 1)
    b = rng.randint(10, 10**digits - 1)
    if rng.random() < 0.5:
        a, b = b, a
    return f"add: {a} + {b}", sum_with_steps(a, b)


def sum_with_steps(a: int, b: int) -> str:
    """Column addition, one line per column from the right: digit + digit + carry = column sum; then the result."""
    lines, carry = [], 0
    columns = max(len(str(a)), len(str(b)))
    for da, db in zip(reversed(str(a).zfill(columns)), reversed(str(b).zfill(columns)), strict=True):
        total = int(da) + int(db) + carry
        lines.append(f"{da}+{db}+{carry}={total}")
        carry = total // 10
    return "\n".join([*lines, f"answer {a + b}"])


TASKS: dict[str, Task] = {
    task.slug: task
    for task in (
        Task("copy", "Copy a list", (1, 8), "names", _copy, dependent=False),
        Task("reverse", "Reverse a list", (1, 8), "names", _reverse, dependent=False),
        Task("sort", "Sort a list", (1, 8), "names", _sort, dependent=True),
        Task("shuffle", "Shuffle a list (any other order is right too)", (2, 8), "names", _shuffle, dependent=True),
        Task("add", "Add two numbers with the steps", (2, 3), "digits", _add, dependent=True),
    )
}

_PROMPT = re.compile(r"\s*(?P<verb>[a-z]+)\s*:\s*(?P<rest>.+)", re.DOTALL | re.IGNORECASE)


def recognise(prompt: str) -> Example | None:
    """The task that a typed prompt asks for, with its answer; None if it is none of ours (then nothing is marked)."""
    found = _PROMPT.fullmatch(prompt.strip())
    if not found or found["verb"].lower() not in TASKS:
        return None
    verb, rest = found["verb"].lower(), found["rest"]
    if verb == "add":
        numbers = re.fullmatch(r"\s*(\d{1,6})\s*\+\s*(\d{1,6})\s*", rest)
        return Example(verb, prompt, sum_with_steps(int(numbers[1]), int(numbers[2]))) if numbers else None
    items = re.findall(r"[^\s,]+", rest)
    order = {"copy": items, "reverse": items[::-1], "sort": sorted(items), "shuffle": items}[verb]
    return Example(verb, prompt, " ".join(order)) if items else None


def check(example: Example, output: str) -> Verdict:
    """Mark an output exactly. White space at line ends is forgiven, nothing else."""
    expected, got = example.answer.split(), output.split()
    if example.task == "shuffle":
        left = Counter(expected)
        for i, word in enumerate(got):
            left[word] -= 1
            if left[word] < 0:
                return Verdict(False, i, example.answer)
        return Verdict(True, None, example.answer) if len(got) == len(expected) else Verdict(False, len(got), example.answer)
    for i, (want, have) in enumerate(zip(expected, got, strict=False)):
        if want != have:
            return Verdict(False, i, example.answer)
    if len(got) != len(expected):
        return Verdict(False, min(len(got), len(expected)), example.answer)
    return Verdict(True, None, example.answer)
