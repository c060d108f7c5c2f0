"""Very short stories about a person and things: many are right, all must hold the given words."""

import random
import re

from engines.tasks.base import Task
from engines.tasks.words import ADJECTIVES, COLOURS, NAMES, PLACES, THINGS

OPENINGS = (
    "One day {name} went to the {place}.",
    "{name} lived near the {place}.",
    "It was a {adjective} day, and {name} walked to the {place}.",
    "{name} woke up early and looked out of the window.",
)
MEETINGS = (
    "There was a {colour} {thing} on the ground.",
    "{name} saw a {adjective} {thing}.",
    "Under a tree lay a {colour} {thing}.",
    "Then {name} found a {thing}.",
)
MIDDLES = (
    '"What a {adjective} {thing}!" said {name}.',
    "{name} took the {thing} home.",
    "{name} wanted to show the {thing} to {friend}.",
    "{friend} came and helped with the {thing}.",
)
ENDINGS = (
    "In the end {name} and {friend} were happy.",
    "They played until the sun went down.",
    "{name} went home and slept well.",
    "From that day on they were good friends.",
)


def _story(rng: random.Random, n: int) -> tuple[str, str]:
    (name, friend), things = rng.sample(NAMES, 2), rng.sample(THINGS, n)

    def say(sentences: tuple[str, ...], thing: str = "") -> str:
        words = {"place": rng.choice(PLACES), "adjective": rng.choice(ADJECTIVES), "colour": rng.choice(COLOURS)}
        words["adjective"] = next(a for a in (words["adjective"], "big") if a[0] not in "aeiou")
        words["colour"] = next(c for c in (words["colour"], "red") if c[0] not in "aeiou")
        return rng.choice(sentences).format(name=name, friend=friend, thing=thing, **words)

    story = [say(OPENINGS)]
    for thing in things:
        story += [say(MEETINGS, thing), say(MIDDLES, thing)]
    return ", ".join([name, *things]), " ".join([*story, say(ENDINGS)])


def _read(text: str) -> str | None:
    name, *things = re.findall(r"[^\s,]+", text) or [""]
    if not things or not name.isalpha():
        return None
    return " ".join(
        [
            f"One day {name} went out.",
            *(f"{name} found a {thing}." for thing in things),
            f"{name} went home and slept well.",
        ]
    )


def _wrong(text: str, answer: str, output: str) -> int | None:
    """Right if every given word occurs, in at least three sentences, the last one finished; else the end of the output
    is marked."""
    words = set(re.findall(r"[\w']+", output))
    covered = all(w in words for w in re.findall(r"[^\s,]+", text))
    whole = len(re.findall(r"[.!?](?=[\s\"]|$)", output)) >= 3 and output.rstrip()[-1:] in '.!?"'
    return None if covered and whole else max(0, len(output.split()) - 1)


STORIES = (
    Task(
        "story",
        "A very short story with given words",
        "story",
        (1, 2),
        "things",
        _story,
        _read,
        many=True,
        wrong=_wrong,
    ),
)
