"""A test that compares seconds runs while no other worker runs one."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Turns:
    """Two locked files in a folder that the workers of one run share. Who runs alone holds `gate` until all others have
    ended their test; the others pass it before each of theirs, so that none of them overtakes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def _locked(self, name: str, how: int) -> Iterator[None]:
        with (self.folder / name).open("a") as file:
            fcntl.flock(file, how)
            yield

    @contextmanager
    def alone(self) -> Iterator[None]:
        with self._locked("gate", fcntl.LOCK_EX), self._locked("room", fcntl.LOCK_EX):
            yield

    @contextmanager
    def together(self) -> Iterator[None]:
        with self._locked("gate", fcntl.LOCK_SH):
            pass
        with self._locked("room", fcntl.LOCK_SH):
            yield
