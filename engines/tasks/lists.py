"""Operations on lists of names: those with one right answer fill in parallel, those with many break when written at
once (ParallelBench)."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator

from engines.tasks.base import Task, furthest
from engines.tasks.words import NAMES

Maker = Callable[[random.Random, int], tuple[str, str]]


def _typed(rng: random.Random, items: list[str]) -> str:
    """People type lists with and without commas; the models see both."""
    return (", " if rng.random() < 0.5 else " ").join(items)


def items_of(text: str) -> list[str]:
    """The items of a typed list, separated by blanks or commas."""
    return re.findall(r"[^\s,]+", text)


def _whole(operation: Callable[[list[str], random.Random], list[str]]) -> Maker:
    def make(rng: random.Random, n: int) -> tuple[str, str]:
        items = rng.sample(NAMES, n)
        return _typed(rng, items), " ".join(operation(items, rng))

    return make


def _read_whole(operation: Callable[[list[str]], list[str]]) -> Callable[[str], str | None]:
    return lambda text: " ".join(operation(items_of(text))) or None


def _insert(rng: random.Random, n: int) -> tuple[str, str]:
    new, *items = rng.sample(NAMES, n + 1)
    place = rng.randint(1, n + 1)
    return f"{new} at {place} in {_typed(rng, items)}", " ".join([*items[: place - 1], new, *items[place - 1 :]])


def _remove(rng: random.Random, n: int) -> tuple[str, str]:
    items, place = rng.sample(NAMES, n), rng.randint(1, n)
    return f"{place} from {_typed(rng, items)}", " ".join(items[: place - 1] + items[place:])


def _replace(rng: random.Random, n: int) -> tuple[str, str]:
    new, *items = rng.sample(NAMES, n + 1)
    place = rng.randint(1, n)
    return f"{place} by {new} in {_typed(rng, items)}", " ".join([*items[: place - 1], new, *items[place:]])


def _read_placed(
    pattern: str, size: Callable[[list[str]], int], edit: Callable[[list[str], int, str], list[str]]
) -> Callable[[str], str | None]:
    shape = re.compile(pattern, re.DOTALL)

    def read(text: str) -> str | None:
        if not (match := shape.fullmatch(text.strip())):
            return None
        items, place = items_of(match["items"]), int(match["place"])
        return " ".join(edit(items, place - 1, match.groupdict().get("new", ""))) if 1 <= place <= size(items) else None

    return read


def _anywhere(
    edits: Callable[[list[str], str], Iterator[list[str]]], takes_name: bool
) -> tuple[Maker, Callable[[str], str | None], Callable[[str, str, str], int | None]]:
    """make, read and wrong of an edit at any place: every place is right."""

    def answers(text: str) -> list[str]:
        new, _, rest = text.strip().partition(" in ") if takes_name else ("", "", text)
        items = items_of(rest)
        return [" ".join(edited) for edited in edits(items, new)] if items and " " not in new else []

    def make(rng: random.Random, n: int) -> tuple[str, str]:
        new, *items = rng.sample(NAMES, n + 1)
        text = f"{new} in {_typed(rng, items)}" if takes_name else _typed(rng, items)
        return text, rng.choice(answers(text))

    def read(text: str) -> str | None:
        return next(iter(answers(text)), None)

    return make, read, lambda text, answer, output: furthest(answers(text), output)


def _inserted(items: list[str], new: str) -> Iterator[list[str]]:
    return ([*items[:i], new, *items[i:]] for i in range(len(items) + 1))


def _removed(items: list[str], new: str) -> Iterator[list[str]]:
    return (items[:i] + items[i + 1 :] for i in range(len(items)))


def _replaced(items: list[str], new: str) -> Iterator[list[str]]:
    return ([*items[:i], new, *items[i + 1 :]] for i in range(len(items)))


def _wrong_shuffle(text: str, answer: str, output: str) -> int | None:
    left, got = Counter(items_of(text)), output.split()
    for i, word in enumerate(got):
        left[word] -= 1
        if left[word] < 0:
            return i
    return None if left.total() == 0 else len(got)


INSERT = r"(?P<new>[^\s,]+) at (?P<place>\d{1,3}) in (?P<items>.+)"
REMOVE = r"(?P<place>\d{1,3}) from (?P<items>.+)"
REPLACE = r"(?P<place>\d{1,3}) by (?P<new>[^\s,]+) in (?P<items>.+)"
LISTS = (
    Task("copy", "Copy a list", "list", (1, 8), "names", _whole(lambda items, rng: items), _read_whole(list)),
    Task(
        "reverse",
        "Reverse a list",
        "list",
        (1, 8),
        "names",
        _whole(lambda items, rng: items[::-1]),
        _read_whole(lambda items: items[::-1]),
    ),
    Task(
        "sort",
        "Sort a list",
        "list",
        (1, 8),
        "names",
        _whole(lambda items, rng: sorted(items)),
        _read_whole(sorted),
        dependent=True,
    ),
    Task(
        "shuffle",
        "Shuffle a list (any order is right)",
        "list",
        (2, 8),
        "names",
        _whole(lambda items, rng: rng.sample(items, len(items))),
        _read_whole(list),
        dependent=True,
        many=True,
        asked=(2, 5),
        wrong=_wrong_shuffle,
    ),
    Task(
        "insert",
        "Insert a name at a place",
        "list",
        (2, 7),
        "names",
        _insert,
        _read_placed(INSERT, lambda items: len(items) + 1, lambda items, i, new: [*items[:i], new, *items[i:]]),
    ),
    Task(
        "remove",
        "Remove the name at a place",
        "list",
        (2, 8),
        "names",
        _remove,
        _read_placed(REMOVE, len, lambda items, i, _: items[:i] + items[i + 1 :]),
    ),
    Task(
        "replace",
        "Replace the name at a place",
        "list",
        (2, 8),
        "names",
        _replace,
        _read_placed(REPLACE, len, lambda items, i, new: [*items[:i], new, *items[i + 1 :]]),
    ),
    *(
        Task(
            f"{verb} any",
            title,
            "list",
            (2, high),
            "names",
            make,
            read,
            dependent=True,
            many=True,
            asked=asked,
            wrong=wrong,
        )
        for verb, title, high, asked, (make, read, wrong) in (
            ("insert", "Insert a name anywhere", 7, None, _anywhere(_inserted, True)),
            ("remove", "Remove any one name", 8, None, _anywhere(_removed, False)),
            ("replace", "Replace any one name", 8, (2, 4), _anywhere(_replaced, True)),
        )
    ),
)
