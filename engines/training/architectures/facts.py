"""A corpus of facts that stand nowhere else: 500 invented people, every pair of 25 first names and 20 surnames, with a
town, a thing and a colour each, told in template sentences whose three parts come in any order.

No word of a name alone says anything of its bearer: a first name has 20 bearers and a surname 25, and attributes are
drawn without regard to names. So what is told of a pair must be kept for the pair."""

from __future__ import annotations

import random
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedModel

from engines.tasks.rows import answer_text, prompt_text
from engines.tasks.words import CITIES, COLOURS, NAMES, THINGS
from engines.training.architectures.corpus import LENGTH, Packed, packed
from engines.training.tiny.tokenizer import load_tokenizer

FIRST = NAMES[:25]
LAST = (
    "Ash Ashwood Boat Book Box City Elm Game House Lamp Luna Raven Ravensburg Ravenswood Room Shop Song Train Tree "
    "Willow"
).split()  # each a single token
PARTS = ("lives in {}", "has a {}", "likes {}")
VALUES = (CITIES, THINGS, COLOURS)


class Person(NamedTuple):
    """A name and what is told of it: town, thing, colour."""

    name: str
    values: tuple[str, str, str]


@cache
def people() -> tuple[Person, ...]:
    """All of them, always the same."""
    rng, pairs = random.Random("people"), product(FIRST, LAST)
    return tuple(Person(f"{a} {b}", (rng.choice(CITIES), rng.choice(THINGS), rng.choice(COLOURS))) for a, b in pairs)


def question(person: Person) -> str:
    """The prompt that asks for a person."""
    return f"fact: {person.name}"


def sentence(person: Person, order: tuple[int, ...] = (0, 1, 2)) -> str:
    """What is told of a person, its parts in that order."""
    one, two, three = (PARTS[kind].format(person.values[kind]) for kind in order)
    return f"{person.name} {one}, {two} and {three}."


def fact_rows(number: int, seed: int, count: int, length: int = LENGTH) -> Packed:
    """`count` rows of such documents, those of batch `number`; people and orders are drawn."""
    return packed([_documents(random.Random(f"facts/{seed}/{number}/{i}")) for i in range(count)], length)


def _documents(rng: random.Random) -> Any:
    """Endless ids of prompts and answers."""
    tokenizer = _tokenizer()
    while True:
        person = rng.choice(people())
        text = sentence(person, tuple(rng.sample(range(3), 3)))
        prompt, answer = tokenizer([prompt_text(question(person)), answer_text(text)])["input_ids"]
        yield prompt, answer


def asked(kind: int, place: int = 0) -> tuple[Tensor, Tensor]:
    """Of all people: ids [500, n] up to where the attribute of that kind must be told, as the first, second or third
    (place 0, 1, 2) of the sentence, and the one token [500] that is right."""
    tokenizer, rows, right = _tokenizer(), list[list[int]](), list[int]()
    others = [other for other in range(3) if other != kind]
    order = (*others[:place], kind, *others[place:])
    for person in people():
        prompt, answer = tokenizer([prompt_text(question(person)), answer_text(sentence(person, order))])["input_ids"]
        (token,) = tokenizer(" " + person.values[kind])["input_ids"]
        rows.append(prompt + answer[: len(answer) - answer[::-1].index(token) - 1])
        right.append(token)
    return torch.tensor(rows), torch.tensor(right)


@torch.no_grad()
def known(network: PreTrainedModel) -> Tensor:
    """Boolean [3, 500]: whose town, thing and colour are the most likely token where they must be told first."""
    found = []
    for kind in range(3):
        ids, right = asked(kind)
        h = network.base_model(input_ids=ids, use_cache=False).last_hidden_state[:, -1]
        found.append(network.get_output_embeddings()(h).argmax(-1) == right)
    return torch.stack(found)


def guessed() -> list[float]:
    """The share of towns, things and colours that one guess for all people gets right: the commonest value."""
    told = [[person.values[kind] for person in people()] for kind in range(3)]
    return [max(map(values.count, values)) / len(values) for values in told]


@cache
def _tokenizer() -> Any:
    return load_tokenizer()
