"""A passage of facts about several people behind the question which cities, things, colours, ages or people it names:
"ask: Which cities? Mia lives in Rome. Ben has a kite. Ada lives in Bonn." The answer lists them in order: "Bonn, Rome".

The question stands first, so that a model that reads from left to right knows what to look for, as one that reads both
ways does. A task of two models that are compared (`engines/training/architectures/encoder_decoder.py`); those of the
other tasks are not trained on it."""

import random
import re

from engines.tasks.base import Task
from engines.tasks.words import CITIES, COLOURS, COUNTED, NAMES

Fact = tuple[int, str, str]  # kind, who, what
WRITTEN = ("{who} lives in {what}.", "{who} has a {what}.", "{who} likes {what}.", "{who} is {what} years old.")
ASKED_WHAT = ("Which cities?", "Which things?", "Which colours?", "Which ages?")
ASKED_WHO = "Which people?"
SINGLE = [thing for thing in COUNTED if thing != "apple"]  # behind "a"
ASKED = (4, 6)  # people of held-out prompts
VALUES = (CITIES, SINGLE, [c for c in COLOURS if c != "orange"], [str(n) for n in range(2, 20)])


def _make(rng: random.Random, people: int) -> tuple[str, str]:
    """Two facts of each person, in any order; nothing is true of two people."""
    who = rng.sample(NAMES, people)
    whats = [rng.sample(values, people) for values in VALUES]
    facts = [(kind, who[i], whats[kind][i]) for i in range(people) for kind in rng.sample(range(len(WRITTEN)), 2)]
    rng.shuffle(facts)
    questions = [ASKED_WHO, *(ASKED_WHAT[kind] for kind in sorted({kind for kind, _, _ in facts}))]
    question = rng.choice(questions)
    passage = " ".join(WRITTEN[k].format(who=n, what=w) for k, n, w in facts)
    return f"{question} {passage}", answer_to(question, facts)


def answer_to(question: str, facts: list[Fact]) -> str:
    """What a question asks for, each once and in order; "" for a question that is none of ours."""
    if question == ASKED_WHO:
        return ", ".join(sorted({who for _, who, _ in facts}))
    if question not in ASKED_WHAT:
        return ""
    answers = {what for kind, _, what in facts if kind == ASKED_WHAT.index(question)}
    return ", ".join(sorted(answers, key=lambda what: (len(what) if what.isdigit() else 0, what)))


def _read(text: str) -> str | None:
    """The answer; None where a sentence is no fact, or where none answers."""
    question, *sentences = [sentence.strip() for sentence in re.findall(r"[^.?]+[.?]", text)] or [""]
    matches = [[(i, shape.fullmatch(sentence)) for i, shape in enumerate(SHAPES)] for sentence in sentences]
    facts = [next(((i, m["who"], m["what"]) for i, m in kinds if m), None) for kinds in matches]
    known = [fact for fact in facts if fact is not None]
    return (answer_to(question, known) or None) if len(known) == len(facts) else None


SHAPES = [
    re.compile(re.escape(template).replace(r"\{who\}", r"(?P<who>\w+)").replace(r"\{what\}", r"(?P<what>\w+)"))
    for template in WRITTEN
]
ASKING = Task("ask", "A question and a passage", "text", (1, 6), "people", _make, _read, asked=ASKED)
