"""What a judge learns from: the state of the frozen target at the row that reads a token, and whether the token is
right.

Two ways to labels. `court`: TokenCourt in miniature (Judge Decoding, arXiv:2501.19309): a fact stands in the prompt, a
right answer states it, a wrong one contradicts it at a place that is known because it was planted; what follows the
error is dropped. `mined`: on tasks with an exact check (AutoJudge, arXiv:2504.20039): a drafter's token takes the place
of the target's own, the target finishes greedily, and the token was right if the answer still is.

Shapes: n tokens, d hidden size, V vocabulary."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from engines.tasks import TASKS, Example, Split, check

Piece = tuple[str, bool]  # a text, and whether it is right

COLOURS = "red blue green yellow black white brown pink purple grey".split()
OBJECTS = "ball cup door chair hat book car lamp box coat bike boat plate bag shirt wall".split()
NAMES = "Anna Tom Maria Peter Lucy John Emma Paul Sarah David Nina Mark Julia Karl Rosa Simon".split()
CITIES = "Paris London Berlin Madrid Rome Vienna Tokyo Boston Chicago Dublin".split()
JOBS = "baker teacher doctor farmer painter driver nurse pilot lawyer singer".split()
NUMBERS = "two three four five six seven eight nine ten twelve".split()
THINGS = "apples pens coins eggs books keys stones shells cards stamps birds cakes rings maps toys nuts".split()
WORLDS: dict[str, tuple[Sequence[str], Sequence[str], str, str, tuple[str, ...]]] = {
    # name: (subjects, values, fact, question, answers up to the value); {s} is the subject, the value comes behind
    "colours": (
        OBJECTS,
        COLOURS,
        "The {s} is",
        "What colour is the {s}?",
        ("The {s} is", "It is", "The colour of the {s} is", "You told me that the {s} is", "I would say that it is"),
    ),
    "numbers": (
        THINGS,
        NUMBERS,
        "The number of {s} on the table is",
        "How many {s} are on the table?",
        ("There are", "The number of {s} is", "I count", "On the table there are", "The table has"),
    ),
    "places": (
        NAMES,
        CITIES,
        "{s} lives in",
        "Where does {s} live?",
        ("{s} lives in", "The home of {s} is in", "In", "As you said, {s} lives in", "{s} has a home in"),
    ),
    "jobs": (
        NAMES,
        JOBS,
        "{s} works as a",
        "What is the job of {s}?",
        ("{s} works as a", "The job of {s} is", "{s} is a", "You wrote that {s} is a", "By profession {s} is a"),
    ),
}
HELD_ITEMS = 4  # of the subjects of a world, its last phrasings too, are kept for the test


@dataclass(frozen=True)
class Labelled:
    """Tokens read by the target. e [n, d]: its stream behind the last layer, before the norm, at the row that reads the
    token. y [n]: 1 right, 0 wrong. first [n]: whether it was the target's own first choice. logp [n]: what the target
    gave it. world: what the tokens are about. held: whether they are for the test alone."""

    e: Tensor
    y: Tensor
    first: Tensor
    logp: Tensor
    world: str
    held: bool


@torch.inference_mode()
def read(model: Any, tokens: Sequence[int], cache: Any) -> tuple[Tensor, Tensor]:
    """(stream [n, d] behind the last layer, log-probabilities [n, V]) of tokens fed behind a cache."""
    h = model.layers(model.embed(tokens), cache, 0, model.num_layers)
    return h, model.unembed(h).double().log_softmax(-1)


def labelled(
    model: Any, cache: Any, before: Tensor, tokens: Sequence[int], y: Sequence[bool], world: str, held: bool
) -> Labelled:
    """Feed an answer behind a prompt, whose last row said `before` [V]."""
    e, z = read(model, tokens, cache)
    said = torch.cat([before[None], z[:-1]])  # [n, V]
    ids = torch.tensor(tokens)
    logp = said.gather(-1, ids[:, None])[:, 0]
    return Labelled(e.float(), torch.tensor(y, dtype=torch.float32), said.argmax(-1) == ids, logp.float(), world, held)


def cases(seed: int, train: int, test: int) -> Iterator[tuple[str, bool, str, list[Piece], list[Piece]]]:
    """(world, held, prompt, right answer, wrong answer), `train` and `test` of each world. Test cases have subjects and
    a phrasing that no training case has."""
    rng = random.Random(seed)
    for world, (subjects, values, fact, question, answers) in WORLDS.items():
        for held in [False] * train + [True] * test:
            known = subjects[-HELD_ITEMS:] if held else subjects[:-HELD_ITEMS]
            (s, other), (value, wrong) = rng.sample(known, 2), rng.sample(values, 2)
            facts = [f"{fact.format(s=s)} {value}.", f"{fact.format(s=other)} {rng.choice(values)}."]
            rng.shuffle(facts)
            prompt = f"{facts[0]} {facts[1] + ' ' if rng.random() < 0.5 or s in facts[1] else ''}{question.format(s=s)}"
            if s not in prompt.partition(question.format(s=s))[0]:
                prompt = f"{fact.format(s=s)} {value}. {question.format(s=s)}"
            first, second = (rng.choice(answers[-1:] if held else answers[:-1]).format(s=s) for _ in range(2))
            good, bad = [(first, True), (f" {value}", True), (".", True)], [(second, True), (f" {wrong}", False)]
            yield world, held, prompt, good, bad


def court(model: Any, seed: int, train: int, test: int) -> list[Labelled]:
    """The states of right and wrong answers to made-up questions; one forward over the prompt, one for each answer."""
    found = []
    for world, held, prompt, right, wrong in tqdm(list(cases(seed, train, test)), desc="answers"):
        ids = model.tokenizer.encode_prompt(prompt)
        cache = model.new_cache(len(ids) + 64)
        before = read(model, ids, cache)[1][-1]
        for pieces in (right, wrong):
            parts = [(model.tokenizer.encode(text), good) for text, good in pieces]
            tokens = [token for part, _ in parts for token in part]
            y = [good for part, good in parts for _ in part]
            found.append(labelled(model, cache, before, tokens, y, world, held))
            cache.crop(len(ids))
    return found


def examples(seed: int, train: int, test: int) -> Iterator[tuple[Example, bool]]:
    """Prompts of all tasks in turn, of the train and of the held-out split."""
    wanted: tuple[tuple[Split, int, bool], ...] = (("train", train, False), ("held-out", test, True))
    for split, n, held in wanted:
        streams = [task.generate(split, seed) for task in TASKS.values()]
        for stream in streams:
            yield from ((example, held) for example in islice(stream, -(-n // len(streams))))


@torch.inference_mode()
def finish(model: Any, cache: Any, tokens: list[int], z: Tensor, most: int) -> list[int]:
    """Greedy tokens behind `tokens`, whose last row said z [V], up to an end mark or `most` in all."""
    while len(tokens) < most and tokens[-1] not in model.eos_ids:
        tokens = [*tokens, int(z.argmax())]
        if tokens[-1] not in model.eos_ids:
            z = read(model, tokens[-1:], cache)[1][-1]
    return tokens


def mined(
    model: Any, drafter: Any, seed: int, train: int, test: int, length: int, tries: int, heat: float
) -> list[Labelled]:
    """Tokens other than the target's own that the drafter draws at temperature `heat` along the target's right answer,
    `tries` of an answer: each is put in its place, the target finishes, and the task says whether the answer is still
    right."""
    rng, found = torch.Generator().manual_seed(seed), []
    for example, held in tqdm(list(examples(seed, train, test)), desc="prompts"):
        ids = model.tokenizer.encode_prompt(example.prompt)
        world = TASKS[example.task].group
        cache = model.new_cache(len(ids) + length + 1)
        before = read(model, ids, cache)[1][-1]
        own = finish(model, cache, [int(before.argmax())], read(model, [int(before.argmax())], cache)[1][-1], length)
        if not check(example, model.tokenizer.decode(own)).correct:
            continue
        with torch.inference_mode():
            q = drafter.extend([*ids, *own[:-1]], drafter.new_cache(len(ids) + length)).logits[len(ids) - 1 :]
        q = (q.double() / heat).softmax(-1).scatter(-1, torch.tensor(own)[:, None], 0.0)
        drawn = torch.multinomial(q, 1, generator=rng)[:, 0].tolist()
        for i in sorted(torch.randperm(len(own), generator=rng)[:tries].tolist()):
            cache.crop(len(ids))
            said = read(model, own[:i], cache)[1][-1] if i else before
            e, z = read(model, [drawn[i]], cache)
            answer = finish(model, cache, [*own[:i], drawn[i]], z[-1], length)
            good = check(example, model.tokenizer.decode(answer)).correct
            one = (torch.tensor([float(good)]), torch.tensor([False]), said[drawn[i]].float()[None])
            found.append(Labelled(e.float(), *one, world, held))
    return found
