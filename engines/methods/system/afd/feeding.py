"""Where the feed-forward half of the layers is computed: in this process, or in one that holds nothing else and gets
the rows through memory that both map.

Shapes: b rows of a microbatch, d hidden size."""

import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from engines.kit import CountedSplit, Tensor, UserError, torch
from engines.models.layers import feed_forward

Taken = tuple[Any, float, float]  # rows [b, d], and when they were computed, by `time.perf_counter`


class Here:
    """In this process, at once: rows go there and come back, microbatch by microbatch, first come first served."""

    def __init__(self, model: CountedSplit) -> None:
        self.model, self.found = model, dict[int, Taken]()

    def give(self, j: int, layer: int, u: Tensor) -> None:
        """Hand over the rows u [b, d] of microbatch j."""
        began = time.perf_counter()
        y = self.model.feed(u, layer)
        self.found[j] = y, began, time.perf_counter()

    def take(self, j: int) -> Taken:
        """What came of them."""
        return self.found.pop(j)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to end."""


class Elsewhere:
    """In a process of its own: a request and an answer are a few bytes through a pipe, rows lie in a mapped file."""

    def __init__(self, model: CountedSplit, microbatches: int, rows: int) -> None:
        self.model, self.folder = model, tempfile.TemporaryDirectory(prefix="feed-forward-")
        self.rows = feed_forward.give(Path(self.folder.name), model.feed_forwards, microbatches, rows)
        program = [sys.executable, "-I", feed_forward.__file__, self.folder.name]
        alone = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        self.process = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=alone)

    def give(self, j: int, layer: int, u: Tensor) -> None:
        """See `Here`."""
        assert self.process.stdin is not None
        self.rows[j, : len(u)] = u.float().cpu().numpy()
        with suppress(BrokenPipeError):  # `take` says so
            self.process.stdin.write(feed_forward.REQUEST.pack(layer, j, len(u)))
            self.process.stdin.flush()
        self.given = u

    def take(self, j: int) -> Taken:
        """See `Here`; waits for it. Raises UserError where the other process has ended."""
        number, began, ended = self._answer()
        assert number == j, f"microbatch {j} was waited for and {number} came"
        return torch.from_numpy(self.rows[j, : len(self.given)].copy()).to(self.given), began, ended

    def _answer(self) -> tuple[int, float, float]:
        assert self.process.stdout is not None
        packet = self.process.stdout.read(feed_forward.ANSWER.size)
        if len(packet) < feed_forward.ANSWER.size:
            raise UserError(
                f"the feed-forward process has ended (exit code {self.process.wait()}); decode in one process, with "
                "execution=one process."
            )
        return feed_forward.ANSWER.unpack(packet)

    def __enter__(self) -> Self:
        """Wait until it has its weights."""
        try:
            self._answer()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """End it: its input is closed, and it gets no time beyond a moment."""
        assert self.process.stdin is not None and self.process.stdout is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(1)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        del self.rows
        self.folder.cleanup()


Feeding = Here | Elsewhere
