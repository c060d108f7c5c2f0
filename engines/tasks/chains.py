"""Chains of three to five operations on digits, modulo 10: what the tiny reasoners are asked. "4+8-9*7" is worked out
from left to right, ((4+8)-9)*7, and only the last digit of each value counts.

A prompt has no first word, unlike those of the other tasks: it is read by its form, and the models of the other tasks
are not trained on it."""

import random
import re

from engines.tasks.base import Task

CHAIN = re.compile(r"\d(?:[+*-]\d){3,5}")
OPERATIONS = "+-*"


def steps_of(chain: str) -> list[tuple[int, str, int, int]]:
    """(value before, operation, digit, value after) of each operation, values modulo 10."""
    value, steps = int(chain[0]), []
    for sign, digit in zip(chain[1::2], chain[2::2], strict=True):
        after = applied(value, sign, int(digit))
        steps.append((value, sign, int(digit), after))
        value = after
    return steps


def applied(value: int, sign: str, digit: int) -> int:
    """The last digit of `value sign digit`."""
    return {"+": value + digit, "-": value - digit, "*": value * digit}[sign] % 10


def answer_of(output: str) -> str:
    """The digit behind the last "#" of a trace of thought; "" where none stands."""
    answers = re.findall(r"#(\d)", output)
    return answers[-1] if answers else ""


def sound(chain: str, thought: str, ended: bool = False) -> bool:
    """Whether a partial trace of thought is right so far: the latest value of each operation that it has worked out,
    the operations in their order, and the answer where it says one. ended: it is over, so it must say it."""
    right, latest, at = steps_of(chain), dict[int, int](), -1
    for mood, before, sign, digit, value in re.findall(r"([cuw])(\d)([+*-])(\d)=(\d)", thought):
        at += mood != "w"
        if not 0 <= at < len(right) or (sign, int(digit)) != right[at][1:3] or int(before) != right[at][0]:
            return False
        latest[at] = int(value)
    answer = answer_of(thought)
    if answer and (len(latest) < len(right) or answer != str(right[-1][3])):
        return False
    return all(value == right[i][3] for i, value in latest.items()) and (bool(answer) or not ended)


def _make(rng: random.Random, size: int) -> tuple[str, str]:
    chain = str(rng.randrange(10)) + "".join(rng.choice(OPERATIONS) + str(rng.randrange(10)) for _ in range(size))
    return chain, str(steps_of(chain)[-1][3])


def _read(text: str) -> str | None:
    chain = text.replace(" ", "")
    return str(steps_of(chain)[-1][3]) if CHAIN.fullmatch(chain) else None


CHAINS = Task(
    "chain",
    "Chain of operations, last digit",
    "arithmetic",
    (3, 5),
    "operations",
    _make,
    _read,
    dependent=True,
    aloud=True,
    wrong=lambda text, answer, output: None if answer_of(output) == answer else 0,
)
