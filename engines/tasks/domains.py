"""Texts of several domains for cutting a model into experts, made on the spot: for a model of the wide world the
documentation and the source of Python's own library, lines of arithmetic and short stories; for a tiny model the tasks
that it knows."""

import ast
import operator
import random
import sysconfig
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from engines.tasks import TASKS
from engines.tasks.base import Split

Piece = str | tuple[str, str]  # a text, or a prompt with its answer
Texts = Callable[[Split, int], Iterator[Piece]]  # (split, seed) -> endless texts of a domain
HELD = 7  # one file of the library of so many is kept for the test
OPERATIONS = {"+": operator.add, "-": operator.sub, "*": operator.mul}
LARGE = 4096  # tokens of a vocabulary that is not the tiny family's
SHORTEST = 400  # characters of a text of the library that is used


def library(split: Split, seed: int) -> list[str]:
    """Source files of the standard library, in an order of the seed's."""
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    mine = [file for i, file in enumerate(files) if (i % HELD == 0) == (split != "train")]
    random.Random(seed).shuffle(mine)
    return [file.read_text("utf-8", "ignore") for file in mine]


def documentation(split: Split, seed: int) -> Iterator[str]:
    """What the library's docstrings say, file by file."""
    while True:
        for text in library(split, seed):
            docstrings = [ast.get_docstring(node) for node in ast.walk(ast.parse(text)) if isinstance(node, DOCUMENTED)]
            whole = "\n\n".join(docstring for docstring in docstrings if docstring)
            if len(whole) >= SHORTEST:
                yield whole


DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)


def source(split: Split, seed: int) -> Iterator[str]:
    """Functions and classes of the library without their docstrings and comments."""
    while True:
        for text in library(split, seed):
            tree = ast.parse(text)
            for node in ast.walk(tree):
                if isinstance(node, DOCUMENTED) and node.body and ast.get_docstring(node):
                    node.body = node.body[1:] or [ast.Pass()]
            kept = [ast.unparse(node) for node in tree.body if isinstance(node, DOCUMENTED[1:])]
            if len(whole := "\n\n".join(kept)) >= SHORTEST:
                yield whole


def arithmetic(split: Split, seed: int) -> Iterator[str]:
    """Lines of sums, differences and products."""
    rng = random.Random(f"{split} {seed}")
    while True:
        sums = [(rng.randint(1, 999), rng.randint(1, 999), rng.choice("+-*")) for _ in range(60)]
        yield "\n".join(f"{a} {sign} {b} = {OPERATIONS[sign](a, b)}" for a, b, sign in sums)


def of_tasks(*names: str) -> Texts:
    """Prompts of these tasks with their answers."""

    def texts(split: Split, seed: int) -> Iterator[Piece]:
        streams = [TASKS[name].generate(split, seed) for name in names]
        while True:
            for stream in streams:
                example = next(stream)
                yield example.prompt, example.answer

    return texts


def stories(split: Split, seed: int) -> Iterator[str]:
    """A few short stories one behind the other."""
    stream = TASKS["story"].generate(split, seed)
    while True:
        yield "\n\n".join(example.answer for example in islice(stream, 12))


WIDE: dict[str, Texts] = {
    "documentation": documentation,
    "source": source,
    "arithmetic": arithmetic,
    "stories": stories,
}
TINY: dict[str, Texts] = {
    "lists": of_tasks("copy", "reverse", "sort", "shuffle"),
    "sums": of_tasks("add", "subtract"),
    "stories": of_tasks("story"),
}


def domains_of(model: Any) -> dict[str, Texts]:
    """The domains by which a model is cut: the tasks for one with the vocabulary of the tiny family."""
    return WIDE if model.vocab_size > LARGE else TINY


def tokens(model: Any, texts: Texts, split: Split, seed: int, window: int) -> Iterator[list[int]]:
    """Endless windows of tokens of a domain; a text may be cut at both ends of a window. A prompt stands there as the
    model is asked it."""
    held: list[int] = []
    encode = model.tokenizer.encode
    for text in texts(split, seed):
        if isinstance(text, str):
            held += encode(text + "\n\n")
        else:
            held += [*model.tokenizer.encode_prompt(text[0]), *encode(text[1]), min(model.eos_ids)]
        while len(held) >= window:
            yield held[:window]
            held = held[window:]
