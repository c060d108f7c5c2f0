"""Short passages about people and a question whose answer stands in the passage."""

import random
import re

from engines.tasks.base import Task
from engines.tasks.words import CITIES, COLOURS, COUNTED, NAMES

FACTS = (
    r"(?P<who>\w+) lives in (?P<what>\w+)\.",
    r"(?P<who>\w+) has a (?P<what>\w+ \w+)\.",
    r"(?P<who>\w+) is (?P<what>\d+) years old\.",
)
WRITTEN = ("{who} lives in {what}.", "{who} has a {what}.", "{who} is {what} years old.")
ASKED_WHAT = ("Where does {who} live?", "What does {who} have?", "How old is {who}?")
ASKED_WHO = ("Who lives in {what}?", "Who has a {what}?", "Who is {what} years old?")


def _read_me(rng: random.Random, people: int) -> tuple[str, str]:
    who = rng.sample(NAMES, people)
    whats = [
        rng.sample(CITIES, people),
        [
            f"{colour} {thing}"
            for colour, thing in zip(
                rng.sample([c for c in COLOURS if c != "orange"], people), rng.sample(COUNTED, people), strict=True
            )
        ],
        [str(n) for n in rng.sample(range(3, 20), people)],
    ]
    facts = []
    for i, name in enumerate(who):
        facts += [(kind, name, whats[kind][i]) for kind in rng.sample(range(3), 2)]
    kind, name, what = rng.choice(facts)
    question = (ASKED_WHAT if rng.random() < 0.6 else ASKED_WHO)[kind].format(who=name, what=what)
    passage = " ".join(WRITTEN[k].format(who=n, what=w) for k, n, w in facts)
    return f"{passage} {question}", WRITTEN[kind].format(who=name, what=what)


def _read(text: str) -> str | None:
    *facts, question = [s.strip() for s in re.findall(r"[^.?]+[.?]", text)] or [""]
    answers = []
    for fact in facts:
        kind, match = next(((k, m) for k, shape in enumerate(FACTS) if (m := re.fullmatch(shape, fact))), (0, None))
        if match is None:
            return None
        if question in (ASKED_WHAT[kind].format(**match.groupdict()), ASKED_WHO[kind].format(**match.groupdict())):
            answers.append(fact)
    return answers[0] if len(answers) == 1 else None


READING = (Task("read", "A question about a passage", "text", (1, 4), "people", _read_me, _read, asked=(1, 1)),)
