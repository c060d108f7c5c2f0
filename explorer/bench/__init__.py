"""Measured comparisons, printed as ratios: what a method costs against its baseline, and what recording costs. Medians
of alternating runs."""

from collections.abc import Iterator, Sized
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec

T = TypeVar("T")


def shipped(kind: type[T], folder: Path) -> list[T]:
    """The measurements that ship in a folder, as `--json` wrote them. Raises msgspec.ValidationError for a damaged
    file."""
    return [msgspec.json.decode(path.read_bytes(), type=kind) for path in sorted(folder.glob("*.json"))]


@contextmanager
def stopped_early(finished: Sized) -> Iterator[list[BaseException]]:
    """Inside, Ctrl-C ends the measuring and is put into the list that is yielded; where nothing is finished it is
    raised."""
    interrupts = list[BaseException]()
    try:
        yield interrupts
    except KeyboardInterrupt as interrupt:
        if not finished:
            raise
        interrupts.append(interrupt)
