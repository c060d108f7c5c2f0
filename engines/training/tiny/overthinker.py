"""The traces of thought that the tiny reasoners learn, and how they are written as characters.

A trace of "4+8-9*7" is "c4+8=2;c2-9=3;u3*7=1;w3*7=1;#1$": for each operation a mood (c sure, u unsure), the operation
on the last digits and its value; w says it again; behind # stands the answer, sometimes said again after a last look.

The writer of these traces is a synthetic overthinker: whoever is unsure errs more often AND writes more, so its long
traces are worse by construction. What is shown with it shows a method at work, and nothing about real reasoners."""

from __future__ import annotations

import random

from engines.tasks.chains import applied, steps_of

UNSURE = {"*": 0.55, "+": 0.12, "-": 0.12}  # the chance of being unsure at an operation
WRONG = 0.35  # where unsure: a wrong value first
REPAIRED = 0.8  # of those: the second look that always follows puts it right
AGAIN = {"u": 0.40, "c": 0.04}  # a second look at a right value
LAST_LOOK = 0.45  # behind the answer
CHARACTERS = "0123456789+-*^?cuw=;#"
PAD, END = "<pad>", "$"
WORST = "its long traces are worse by construction"


def trace(chain: str, rng: random.Random) -> str:
    """One trace of thought, without the end mark."""
    value, written, said = int(chain[0]), "", ""
    for _, sign, digit, _ in steps_of(chain):
        right = applied(value, sign, digit)
        mood = "u" if rng.random() < UNSURE[sign] else "c"
        shown = (right + rng.randrange(1, 10)) % 10 if mood == "u" and rng.random() < WRONG else right
        written += f"{mood}{value}{sign}{digit}={shown};"
        if shown != right or rng.random() < AGAIN[mood]:
            shown = right if shown == right or rng.random() < REPAIRED else shown
            written += f"w{value}{sign}{digit}={shown};"
        said, value = f"{value}{sign}{digit}={shown};", shown
    return f"{written}#{value}" + (f";w{said}#{value}" if rng.random() < LAST_LOOK else "")


def example(rng: random.Random, chain: str) -> tuple[str, str]:
    """(question, trace with its end mark) as the model reads them."""
    return f"^{chain}?", trace(chain, rng) + END
