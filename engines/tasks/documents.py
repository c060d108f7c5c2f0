"""Long documents with a planted fact: the log of a harbour, written by chance from templates, and a question whose
answer stands in one place.

All text is made here (Apache-2.0, as the project). Decoys have the shape of the planted fact and another subject, so
that finding the right words is not enough; an answer is right where it holds the planted code."""

from __future__ import annotations

import random
from dataclasses import dataclass

from engines.tasks import TASKS

SHIPS = "Albatross Beatrice Cormorant Dolphin Esmeralda Fulmar Gannet Heron Isabella Juno Kittiwake Lapwing".split()
PEOPLE = "Agnes Bertil Clara Dagny Edwin Frida Gustav Hilda Ivar Johanna Konrad Lydia Magnus Nora Oskar Petra".split()
CARGO = "barley bricks canvas coal flour glass herring iron linen oak planks paper salt slate tallow tar timber wool"
SKIES = (
    "a clear sky over the bay",
    "low cloud and a little rain before noon",
    "fog so thick that the bell was rung every quarter of an hour",
    "a dry cold wind from the east",
    "sun on the water and hardly a wave",
    "a grey swell that kept the small boats at home",
    "hail in the night and puddles on the quay",
)
WORKS = (
    "{a} and {b} mended the nets behind the ice house and talked of nothing but the price of rope.",
    "The crane by the north steps stuck again; {a} freed it with a hammer while {b} held the chain.",
    "{a} painted the railing green, and {b} leaned on it an hour later.",
    "At the customs desk {a} counted the sacks twice and {b} a third time, with three different results.",
    "{a} brought hot soup to the pilots, which {b} called the best thing that came in all week.",
    "A seal lay on the slipway until {a} moved it along with a broom; {b} laughed so much that he dropped his pipe.",
    "{a} taught the children to tie a bowline, and {b} showed them how it comes undone.",
    "The schoolmaster asked for a rope for the bell; {a} gave him two, and {b} wrote neither of them down.",
)
ARRIVALS = (
    "The {ship} came in with {n} barrels of {cargo} and left again before the tide turned.",
    "The {ship} unloaded {cargo} until dusk; her captain paid for {n} days at the east quay.",
    "We expected the {ship} with {cargo}, but she lay at anchor outside for {n} hours.",
    "{n} carts took {cargo} from the {ship} up to the mill, one wheel broke on the hill.",
)
CLOSES = (
    "Nothing else happened that would be worth ink.",
    "The lamp was lit at the usual hour.",
    "In the evening there was music from the upper room of the inn.",
    "The tide stood two hands higher than the almanac had it.",
    "The cat of the office caught nothing and was fed all the same.",
)
MONTHS = "January February March April May June July August September October November December".split()
DOORS = "boathouse|chart room|lamp store|pilot house|sail loft|salt cellar|signal tower|weigh house".split("|")
FACT = "The {door} was given a new lock today, and its code is {code}; {who} wrote it down."
QUESTION = "Question: What is the code of the lock of the {door}? Answer with the code."


@dataclass(frozen=True)
class Document:
    """A text, what is asked about it and the code that answers; place: where in the text the fact begins, as a share
    of its characters; between: what stands before the question."""

    text: str
    question: str
    answer: str
    place: float
    between: str = "\n\n"

    @property
    def prompt(self) -> str:
        """The text with the question as its last line, or behind a passage of one line as its last sentence."""
        return f"{self.text}{self.between}{self.question}"

    def right(self, output: str) -> bool:
        """Whether an answer holds the planted code."""
        return self.answer in output


def document(seed: int, characters: int, place: float | None = None, decoys: int = 3) -> Document:
    """The log of that seed, of about that many characters, the fact at `place` (0 the first entry, 1 the last one), by
    chance where it is not given; equal arguments give equal texts."""
    rng = random.Random(f"harbour/{seed}")
    doors = rng.sample(DOORS, decoys + 1)
    codes = [str(n) for n in rng.sample(range(1000, 10000), decoys + 1)]
    facts = [FACT.format(door=door, code=code, who=rng.choice(PEOPLE)) for door, code in zip(doors, codes, strict=True)]
    entries: list[str] = []
    day = rng.randrange(300)
    while sum(map(len, entries)) < characters - sum(map(len, facts)):
        day += 1
        entries.append(_entry(rng, day))
    where = rng.random() if place is None else place
    places = [round(where * (len(entries) - 1)), *(rng.randrange(len(entries)) for _ in range(decoys))]
    for at, fact in zip(places, facts, strict=True):
        entries[at] = f"{entries[at]} {fact}"
    text = "\n".join(entries)
    return Document(text, QUESTION.format(door=doors[0]), codes[0], text.index(facts[0]) / len(text))


def _entry(rng: random.Random, day: int) -> str:
    """A day of the log."""
    a, b = rng.sample(PEOPLE, 2)
    month, date = MONTHS[day // 28 % 12], day % 28 + 1
    ship = rng.choice(ARRIVALS).format(ship=rng.choice(SHIPS), cargo=rng.choice(CARGO.split()), n=rng.randint(2, 40))
    work = rng.choice(WORKS).format(a=a, b=b)
    parts = [ship, work] if rng.random() < 0.7 else [work]
    return f"{month} {date}. We had {rng.choice(SKIES)}. {' '.join(parts)} {rng.choice(CLOSES)}"


def passage(seed: int, people: int) -> Document:
    """Facts about so many people and a question about one, as the tiny models are asked; they were trained on up to
    four people."""
    text, answer = TASKS["read"].make(random.Random(f"passage/{seed}"), people)
    facts, end, question = text.rpartition(". ")
    return Document(f"read: {facts}{end.strip()}", question, answer, text.index(answer) / len(text), " ")
