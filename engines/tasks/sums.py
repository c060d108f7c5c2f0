"""Arithmetic in columns with the carry written out, and word problems with their working."""

import random
import re
from collections.abc import Iterator
from itertools import zip_longest

from engines.tasks.base import Task, first_difference
from engines.tasks.words import COUNTED, NAMES


def sum_with_steps(a: int, b: int) -> str:
    """Column addition, one line per column from the right: digit + digit + carry = column sum; then the result."""
    lines, carry = [], 0
    for da, db in zip_longest(reversed(str(a)), reversed(str(b)), fillvalue="0"):
        total = int(da) + int(db) + carry
        lines.append(f"{da}+{db}+{carry}={total}")
        carry = total // 10
    return "\n".join([*lines, f"answer {a + b}"])


def difference_with_steps(a: int, b: int) -> str:
    """Column subtraction of b <= a, one line per column from the right: digit - digit - borrowed = column, "borrow"
    where ten is taken; then the result."""
    lines, borrowed = [], 0
    for da, db in zip_longest(reversed(str(a)), reversed(str(b)), fillvalue="0"):
        column = int(da) - int(db) - borrowed
        lines.append(f"{da}-{db}-{borrowed}={column % 10}{' borrow' if column < 0 else ''}")
        borrowed = int(column < 0)
    return "\n".join([*lines, f"answer {a - b}"])


def _two_numbers(rng: random.Random, digits: int) -> tuple[int, int]:
    a, b = rng.randint(10 ** (digits - 1), 10**digits - 1), rng.randint(10, 10**digits - 1)
    return (a, b) if rng.random() < 0.5 else (b, a)


def _add(rng: random.Random, digits: int) -> tuple[str, str]:
    a, b = _two_numbers(rng, digits)
    return f"{a} + {b}", sum_with_steps(a, b)


def _subtract(rng: random.Random, digits: int) -> tuple[str, str]:
    a, b = sorted(_two_numbers(rng, digits), reverse=True)
    return f"{a} - {b}", difference_with_steps(a, b)


def _operands(text: str, sign: str) -> tuple[int, int] | None:
    match = re.fullmatch(rf"\s*(\d{{1,6}})\s*{re.escape(sign)}\s*(\d{{1,6}})\s*", text)
    return (int(match[1]), int(match[2])) if match else None


def _read_add(text: str) -> str | None:
    numbers = _operands(text, "+")
    return sum_with_steps(*numbers) if numbers else None


def _read_subtract(text: str) -> str | None:
    numbers = _operands(text, "-")
    return difference_with_steps(*numbers) if numbers and numbers[0] >= numbers[1] else None


# Word problems: a start and a chain of events, each one step. The reader takes the sentences apart again by these
# shapes.
EVENTS = (
    (r"(\w+) finds (\d+) more\.", "{name} finds {b} more.", "+"),
    (r"(\w+) gives \w+ (\d+) more\.", "{other} gives {name} {b} more.", "+"),
    (r"(\w+) gives (\d+) to \w+\.", "{name} gives {b} to {other}.", "-"),
    (r"(\w+) loses (\d+)\.", "{name} loses {b}.", "-"),
    (r"Then (\w+) has ()twice as many\.", "Then {name} has twice as many.", "*"),
)
TOP = 99


def _working(steps: list[tuple[int, str, int]]) -> str:
    """The lines of a chain of (left, sign, right), and the last result as the answer."""
    results = [{"+": a + b, "-": a - b, "*": a * b}[sign] for a, sign, b in steps]
    return "\n".join(
        [*(f"{a} {sign} {b} = {r}" for (a, sign, b), r in zip(steps, results, strict=True)), f"answer {results[-1]}"]
    )


def _problem(rng: random.Random, n: int) -> tuple[str, str]:
    (name, other), things = rng.sample(NAMES, 2), rng.choice(COUNTED) + "s"
    steps: list[tuple[int, str, int]] = []
    if rng.random() < 0.5:
        a, b = rng.randint(2, 9), rng.randint(2, 9)
        sentences, now = [f"{name} has {a} boxes with {b} {things} each."], a * b
        steps.append((a, "*", b))
    else:
        now = rng.randint(3, 40)
        sentences = [f"{name} has {now} {things}."]
    while len(steps) < n:
        _, sentence, sign = rng.choice(EVENTS)
        b = 2 if sign == "*" else rng.randint(2, 9)
        after = {"+": now + b, "-": now - b, "*": now * b}[sign]
        if 1 <= after <= TOP:
            sentences.append(sentence.format(name=name, other=other, b=b))
            steps.append((now, sign, b))
            now = after
    return " ".join([*sentences, f"How many {things} does {name} have now?"]), _working(steps)


def _sentences(text: str) -> Iterator[str]:
    return iter(re.findall(r"[^.?]+[.?]", text.strip()))


def _read_problem(text: str) -> str | None:
    sentences = [s.strip() for s in _sentences(text)]
    if len(sentences) < 2 or not re.fullmatch(r"How many \w+ does \w+ have( now)?\?", sentences[-1]):
        return None
    start = re.fullmatch(r"\w+ has (\d{1,4}) (?:\w+|boxes with (\d{1,4}) \w+ each)\.", sentences[0])
    if not start:
        return None
    steps, now = [], int(start[1])
    if start[2]:
        steps, now = [(now, "*", int(start[2]))], now * int(start[2])
    for sentence in sentences[1:-1]:
        kind = next(((match, sign) for shape, _, sign in EVENTS if (match := re.fullmatch(shape, sentence))), None)
        if kind is None:
            return None
        b = int(kind[0][2] or 2)
        steps.append((now, kind[1], b))
        now = {"+": now + b, "-": now - b, "*": now * b}[kind[1]]
    return _working(steps) if steps and now >= 0 else None


def wrong_unless_final_line(text: str, answer: str, output: str) -> int | None:
    """Right if the last line is the reference's last line, however it was reached; else the first word that differs
    from the reference working."""
    lines = output.strip().splitlines()
    if lines and lines[-1].split() == answer.splitlines()[-1].split():
        return None
    return first_difference(answer, output)


SUMS = (
    Task("add", "Add two numbers with the steps", "arithmetic", (2, 4), "digits", _add, _read_add, dependent=True),
    Task(
        "subtract", "Subtract with the steps", "arithmetic", (2, 4), "digits", _subtract, _read_subtract, dependent=True
    ),
    Task(
        "problem",
        "A word problem with its working",
        "arithmetic",
        (2, 3),
        "steps",
        _problem,
        _read_problem,
        dependent=True,
        wrong=wrong_unless_final_line,
    ),
)
