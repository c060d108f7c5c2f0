"""Questions, then a passage of facts about several people, among which the answers stand: "ask: Where does Mia live?
Ben likes red. Mia lives in Rome." Some take two looks ("Where
does the one who has a kite live?"), some a comparison ("Who is the oldest?").

The questions stand first, so that a model that reads from left to right knows what to look for, as one that reads both
ways does. A task of two models that are compared (`engines/training/architectures/encoder_decoder.py`); those of the
other tasks are not trained on it."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable

from engines.tasks.base import Task
from engines.tasks.words import CITIES, COLOURS, COUNTED, NAMES

Fact = tuple[int, str, str]  # kind, who, what
WRITTEN = ("{who} lives in {what}.", "{who} has a {what}.", "{who} likes {what}.", "{who} is {what} years old.")
ASKED_WHAT = ("Where does {who} live?", "What does {who} have?", "What does {who} like?", "How old is {who}?")
CLAUSES = ("lives in {what}", "has a {what}", "likes {what}", "is {what} years old")
ASKED_WHO = ("Who lives in {what}?", "Who has a {what}?", "Who likes {what}?", "Who is {what} years old?")
SINGLE = [thing for thing in COUNTED if thing != "apple"]  # behind "a"
MOST, COMPARED = 3, 0.4  # questions of a prompt; the share of prompts in which ages are compared, where they can be
AGE = 3  # the kind of fact
ASKED = (3, 5)  # people of held-out prompts
VALUES = (CITIES, SINGLE, [c for c in COLOURS if c != "orange"], [str(n) for n in range(2, 20)])


def _make(rng: random.Random, people: int) -> tuple[str, str]:
    """Two facts of each person in any order, about which one to MOST questions are asked: by the name, for the name,
    by the person's other fact, or by comparing ages. Nothing is true of two people."""
    who = rng.sample(NAMES, people)
    whats = [rng.sample(values, people) for values in VALUES]
    facts = [(kind, who[i], whats[kind][i]) for i in range(people) for kind in rng.sample(range(len(WRITTEN)), 2)]
    rng.shuffle(facts)
    asked = rng.sample(facts, rng.randint(1, min(MOST, len(facts))))
    ends = extremes(facts)
    if ends and rng.random() < COMPARED and not set(ends) & set(asked):
        asked[rng.randrange(len(asked))] = rng.choice(list(ends))
    other = {(k, n): next(f for f in facts if f[1] == n and f[0] != k) for k, n, _ in facts}
    questions = [ends.get((k, n, w)) or questions_of((k, n, w), other[k, n])[rng.randrange(3)] for k, n, w in asked]
    written = [" ".join(WRITTEN[k].format(who=n, what=w) for k, n, w in said) for said in (facts, asked)]
    return " ".join([*questions, written[0]]), written[1]


def extremes(facts: Iterable[Fact]) -> dict[Fact, str]:
    """The facts on who is the oldest and the youngest of those whose age is told, with the question for each; none
    where fewer than two are told."""
    ages = sorted((fact for fact in facts if fact[0] == AGE), key=lambda fact: int(fact[2]))
    return {ages[-1]: "Who is the oldest?", ages[0]: "Who is the youngest?"} if len(ages) > 1 else {}


def questions_of(fact: Fact, other: Fact | None) -> list[str]:
    """The questions that a fact (kind, who, what) answers: by the name, for the name, and by another fact of the same
    person where there is one."""
    kind, who, what = fact
    found = [ASKED_WHAT[kind].format(who=who), ASKED_WHO[kind].format(what=what)]
    if other is not None:
        found.append(ASKED_WHAT[kind].format(who=f"the one who {CLAUSES[other[0]].format(what=other[2])}"))
    return found


def _read(text: str) -> str | None:
    """The facts that the questions ask for; None where there is none for one of them, or two."""
    sentences = [sentence.strip() for sentence in re.findall(r"[^.?]+[.?]", text)]
    questions = [one for one in sentences if one.endswith("?")]
    facts = [_fact(one) for one in sentences if not one.endswith("?")]
    known = [fact for fact in facts if fact is not None]
    if not questions or len(known) < len(facts):
        return None
    answers: dict[str, set[str]] = {}
    for fact in known:
        kind, who, what = fact
        for other in [None, *(one for one in known if one[1] == who and one != fact)]:
            for question in questions_of(fact, other):
                answers.setdefault(question, set()).add(WRITTEN[kind].format(who=who, what=what))
    for (kind, who, what), question in extremes(known).items():
        answers[question] = {WRITTEN[kind].format(who=who, what=what)}
    found = [answers.get(question, set()) for question in questions]
    return " ".join(min(one) for one in found) if all(len(one) == 1 for one in found) else None


def _fact(sentence: str) -> Fact | None:
    """Kind, person and what is said of him; None for any other sentence."""
    for kind, shape in enumerate(SHAPES):
        if match := shape.fullmatch(sentence):
            return kind, match["who"], match["what"]
    return None


SHAPES = [
    re.compile(re.escape(one).replace(r"\{who\}", r"(?P<who>\w+)").replace(r"\{what\}", r"(?P<what>\w+)"))
    for one in WRITTEN
]
ASKING = Task("ask", "Questions and a passage", "text", (1, 5), "people", _make, _read, asked=ASKED)
