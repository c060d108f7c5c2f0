"""The names of `python -m engines.training NAME`: each module that trains something declares its own."""

from __future__ import annotations

import importlib
import pkgutil
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import engines.training

PROGRAM = "python -m engines.training"


@dataclass(frozen=True)
class Command:
    """A name that can be trained or made. about: one line for the list; text: the help's, usually the module's
    docstring. options declares its arguments and run does it; both may raise UserError."""

    about: str
    text: str
    options: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], None]


def usual(parser: ArgumentParser, *names: str) -> None:
    """Options that mean the same everywhere: device, out, seed, steps, minutes, resume."""
    declared: dict[str, dict[str, object]] = {
        "device": {"default": "cpu", "help": "cpu or cuda"},
        "out": {"type": Path, "help": "the folder that is written, instead of the usual one"},
        "seed": {"type": int, "default": 0},
        "steps": {"type": int, "help": "instead of the usual number"},
        "minutes": {"type": float, "help": "stop after this many minutes; the learning rate falls to match"},
        "resume": {"action": "store_true", "help": "go on from the last checkpoint"},
    }
    for name in names:
        parser.add_argument(f"--{name}", **declared[name])  # type: ignore[arg-type]


def flags(given: Iterable[tuple[str, object, object]]) -> str:
    """The options that were given, as text with a blank before each: (name, value, usual value); True is a bare
    flag."""
    said = [(name, value) for name, value, usual_value in given if value not in (None, False) and value != usual_value]
    return "".join(f" --{name}" if value is True else f" --{name} {_text(value)}" for name, value in said)


def _text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def commands() -> dict[str, Command]:
    """Every name with its command, in alphabetical order: of all modules of the package that have `commands()`."""
    found = [item for module in _modules() for item in module().items()]
    return dict(sorted(found))


def _modules() -> Iterator[Callable[[], dict[str, Command]]]:
    for info in pkgutil.walk_packages(engines.training.__path__, "engines.training."):
        if info.name in (__name__, "engines.training.__main__"):
            continue
        declared = getattr(importlib.import_module(info.name), "commands", None)
        if callable(declared):
            yield declared
