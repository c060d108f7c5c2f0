"""The command of a network that looks at pictures: trained by the shared loop, installed by its own module."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from engines.training.core.commands import Command, usual
from engines.training.core.loop import Training, Until, checkpoint_file, restore, run

T = TypeVar("T", bound=Training)


def trains(
    name: str,
    title: str,
    text: str,
    steps: int,
    make: Callable[[int, int], T],
    install: Callable[[T, Path | None], Path],
) -> dict[str, Command]:
    """The command `name`. make(seed, steps) -> the training; install(training, out) -> the folder it has filled."""

    def options(parser: ArgumentParser) -> None:
        usual(parser, "seed", "steps", "resume", "out")

    def go(a: Namespace) -> None:
        training, file = make(a.seed, a.steps or steps), checkpoint_file(name)
        if a.resume:
            restore(training, file)
        run(training, Until(a.steps or steps), checkpoint=file)
        print(install(training, a.out))
        file.unlink(missing_ok=True)

    return {name: Command(title, text, options, go)}
