"""Sentences: built from given words, and corrected where a word is misspelt or the grammar is broken."""

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache

from engines.tasks.base import Task
from engines.tasks.words import ADJECTIVES, CITIES, COLOURS, COUNTED, NAMES, PLACES, THINGS, VERBS

NUMBERS = "two three four five six seven eight nine".split()
FEELINGS = "happy sad tired hungry late ready ill cold".split()
SIMPLE = ("walk", "talk", "play", "jump", "work", "help", "look", "laugh")  # -s in the third person, -ed in the past
LITTLE = (
    "the a an and is are am was were she he they we you has have yesterday today every day to in near with sees".split()
)
FORMS = [*(c + "s" for c in COUNTED), *(v + "s" for v in VERBS), *(v + end for v in SIMPLE for end in ("", "s", "ed"))]
VOCABULARY = frozenset(
    word.lower()
    for words in (NAMES, THINGS, ADJECTIVES, COLOURS, CITIES, PLACES, NUMBERS, FEELINGS, LITTLE, VERBS, FORMS)
    for word in words
)


def _sentence(rng: random.Random, n: int) -> tuple[str, str]:
    (first, second), verb = rng.sample(THINGS, 2), rng.choice(VERBS)
    given, subject, place = [first, second, verb], f"The {first}", ""
    if n >= 4:
        adjective = rng.choice(ADJECTIVES)
        given.append(adjective)
        subject = f"The {adjective} {first}"
    if n == 5:
        where = rng.choice([p for p in PLACES if p not in (first, second)])
        given.append(where)
        place = f" near the {where}"
    rng.shuffle(given)
    return " ".join(given), f"{subject} {verb}s the {second}{place}."


SHAPE = re.compile(r"The (?:(\w+) )?(\w+) (\w+)s the (?:(\w+) )?(\w+)(?: near the (\w+))?\.")


def _wrong_sentence(text: str, answer: str, output: str) -> int | None:
    """Right if it is one sentence of the shape above with just the given words in fitting places; else the first word
    that was not given, or the end."""
    given, words = text.split(), output.split()
    match = SHAPE.fullmatch(" ".join(words))
    parts = match.groups() if match else ()
    if (
        match
        and Counter(p for p in parts if p) == Counter(given)
        and parts[2] in VERBS
        and all(parts[i] is None or parts[i] in ADJECTIVES for i in (0, 3))
        and all(parts[i] in THINGS for i in (1, 4))
        and (parts[5] is None or parts[5] in PLACES)
    ):
        return None
    stems = {*given, *(g + "s" for g in given), "The", "the", "near"}
    return next((i for i, word in enumerate(words) if word.rstrip(".") not in stems), max(0, len(words) - 1))


def _read_sentence(text: str) -> str | None:
    given = text.split()
    verb = next((w for w in given if w in VERBS), None)
    things = [w for w in given if w in THINGS]
    adjective = next((w for w in given if w in ADJECTIVES and w != verb), None)
    if verb is None or len(things) < 2 or not 3 <= len(given) <= 5:
        return None
    for first in things:
        for second in things:
            for place in [None, *(w for w in given if w in PLACES)]:
                sentence = (
                    f"The {adjective + ' ' if adjective else ''}{first} {verb}s the "
                    f"{second}{' near the ' + place if place else ''}."
                )
                if _wrong_sentence(text, "", sentence) is None:
                    return sentence
    return None


def _plain(rng: random.Random) -> str:
    """One right sentence for the spelling task."""
    kind = rng.randrange(4)
    if kind == 0:
        return f"the {rng.choice(ADJECTIVES)} {rng.choice(THINGS)} {rng.choice(VERBS)}s the {rng.choice(THINGS)}."
    if kind == 1:
        return f"{rng.choice(NAMES)} has {rng.choice(NUMBERS)} {rng.choice(COLOURS)} {rng.choice(COUNTED)}s."
    if kind == 2:
        return f"yesterday {rng.choice(NAMES)} {rng.choice(SIMPLE)}ed near the {rng.choice(PLACES)}."
    return f"{rng.choice(NAMES)} and {rng.choice(NAMES)} are {rng.choice(FEELINGS)} today."


def slips(word: str) -> Iterator[str]:
    """What a typist makes of a word: two letters swapped, one dropped or one doubled; the first letter stays."""
    for i in range(1, len(word)):
        yield word[:i] + word[i + 1 :]
        yield word[:i] + word[i] + word[i:]
        if i + 1 < len(word) and word[i] != word[i + 1]:
            yield word[:i] + word[i + 1] + word[i] + word[i + 2 :]


@cache
def _sources() -> dict[str, set[str]]:
    """Which known words can have become a misspelling."""
    sources: dict[str, set[str]] = {}
    for word in VOCABULARY:
        for slip in slips(word):
            sources.setdefault(slip, set()).add(word)
    return sources


def _read_spell(text: str) -> str | None:
    """Every unknown word replaced by the only known word that one slip turns into it; None if there are none or
    several."""
    changed = False
    words = text.split()
    for i, word in enumerate(words):
        core = word.rstrip(".,")
        if core.lower() in VOCABULARY:
            continue
        candidates = _sources().get(core.lower(), set())
        if len(candidates) != 1:
            return None
        (right,) = candidates
        words[i] = (right.capitalize() if core[:1].isupper() else right) + word[len(core) :]
        changed = True
    return " ".join(words) if changed else None


def _spell(rng: random.Random, mistakes: int) -> tuple[str, str]:
    while True:
        answer = _plain(rng)
        words = answer.split()
        for i in rng.sample(range(len(words)), mistakes):
            core = words[i].rstrip(".")
            if len(core) >= 3:
                words[i] = rng.choice(list(slips(core))) + words[i][len(core) :]
        text = " ".join(words)
        if sum(a != b for a, b in zip(words, answer.split(), strict=True)) == mistakes and _read_spell(text) == answer:
            return text, answer


THIRD, PLURAL = ("She", "He", "Mia", "Tom"), ("They", "We", "You", "I")
ARTICLES = {"a": [t for t in THINGS if t[0] not in "aeiou"], "an": [t for t in THINGS if t[0] in "aeiou"]}
BE = {"I": "am", "You": "are", "We": "are", "They": "are", "He": "is", "She": "is"}


def _agree(rng: random.Random) -> tuple[str, str]:
    verb, place, third = rng.choice(SIMPLE), rng.choice(PLACES), rng.random() < 0.5
    who = rng.choice(THIRD if third else PLURAL)
    right, broken = (verb + "s", verb) if third else (verb, verb + "s")
    return f"{who} {broken} in the {place} every day.", f"{who} {right} in the {place} every day."


def _past(rng: random.Random) -> tuple[str, str]:
    who, verb, place = rng.choice(NAMES), rng.choice(SIMPLE), rng.choice(PLACES)
    return (
        f"Yesterday {who} {verb}{rng.choice(['', 's'])} near the {place}.",
        f"Yesterday {who} {verb}ed near the {place}.",
    )


def _be(rng: random.Random) -> tuple[str, str]:
    who, how = rng.choice(list(BE)), rng.choice(FEELINGS)
    broken = rng.choice([b for b in ("am", "is", "are") if b != BE[who]])
    return f"{who} {broken} {how} today.", f"{who} {BE[who]} {how} today."


def _article(rng: random.Random) -> tuple[str, str]:
    who, article = rng.choice(NAMES), rng.choice(["a", "an"])
    thing = rng.choice(ARTICLES[article])
    return f"{who} sees {'an' if article == 'a' else 'a'} {thing}.", f"{who} sees {article} {thing}."


def _number(rng: random.Random) -> tuple[str, str]:
    who, n, thing = rng.choice(NAMES), rng.choice(NUMBERS), rng.choice(COUNTED)
    return f"{who} has {n} {thing}.", f"{who} has {n} {thing}s."


BREAKS: tuple[Callable[[random.Random], tuple[str, str]], ...] = (_agree, _past, _be, _article, _number)
_ALL = "|".join(SIMPLE)
REPAIRS: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (rf"({'|'.join(THIRD)}) ({_ALL}) (in the \w+ every day\.)", r"\1 \2s \3"),
    (rf"({'|'.join(PLURAL)}) ({_ALL})s (in the \w+ every day\.)", r"\1 \2 \3"),
    (rf"(Yesterday \w+ (?:{_ALL}))s? (near the \w+\.)", r"\1ed \2"),
    (rf"({'|'.join(BE)}) (?:am|is|are) (\w+ today\.)", lambda m: f"{m[1]} {BE[m[1]]} {m[2]}"),
    (r"(\w+ sees) an ([^aeiou\W]\w*\.)", r"\1 a \2"),
    (r"(\w+ sees) a ([aeiou]\w*\.)", r"\1 an \2"),
    (rf"(\w+ has (?:{'|'.join(NUMBERS)}) (?:{'|'.join(COUNTED)}))\.", r"\1s."),
)


def _grammar(rng: random.Random, n: int) -> tuple[str, str]:
    broken, right = zip(*(rng.choice(BREAKS)(rng) for _ in range(n)), strict=True)
    return " ".join(broken), " ".join(right)


def _read_grammar(text: str) -> str | None:
    """Each sentence repaired by the one rule that fits it; None if a sentence is of no known kind."""
    repaired = []
    for sentence in re.findall(r"[^.]+\.", text):
        plain = sentence.strip()
        rule = next(((shape, by) for shape, by in REPAIRS if re.fullmatch(shape, plain)), None)
        if rule is None:
            return None
        repaired.append(re.sub(rule[0], rule[1], plain))
    return " ".join(repaired) or None


LANGUAGE = (
    Task(
        "sentence",
        "A sentence from given words",
        "text",
        (3, 5),
        "words",
        _sentence,
        _read_sentence,
        dependent=True,
        many=True,
        wrong=_wrong_sentence,
    ),
    Task("spell", "Correct the spelling", "text", (1, 2), "misspelt words", _spell, _read_spell),
    Task("grammar", "Correct the grammar", "text", (1, 2), "sentences", _grammar, _read_grammar),
)
