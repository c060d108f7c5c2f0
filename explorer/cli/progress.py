"""How far a long measurement is, on standard error: a bar on a terminal, lines in a file, a pipe or a CI log. And how a
command ends that is told to (SIGTERM, as by `timeout`, a scheduler or a container): as at Ctrl-C, what was finished is
kept."""

import signal
import sys
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from types import FrameType
from typing import Any

from explorer.cli.io import remark, say
from explorer.words import printable

QUIET = 30.0  # seconds without a line after which the next step gets one, although no part has ended
Progress = Callable[[int, int], None]  # steps done, steps in all


class Lines:
    """A line for each part as it ends, and one every `QUIET` seconds within a part that takes longer.

    parts: the name of each part and its number of prompts, in the order of the work. what: the word for the parts.
    clock: seconds from any origin."""

    def __init__(
        self, parts: Sequence[tuple[str, int]], what: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.names, self.sizes = [name for name, _ in parts], [size for _, size in parts]
        self.ends = list(accumulate(self.sizes))
        self.what, self.clock = what, clock
        self.began = self.last = clock()
        self.finished = 0

    def __call__(self, done: int, total: int) -> None:
        """`done` of `total` prompts are done; of none it says what will be, since the first part may take minutes."""
        if not done:
            self.began = self.clock()
            self._say(f"starting: 0 of {len(self.names)} {self.what}, 0 of {total} prompts")
            return
        finished = bisect_right(self.ends, done)
        of = f"{finished} of {len(self.names)} {self.what}{time_left(self.clock() - self.began, done, total)}"
        if finished > self.finished:
            self._say(f"{self.names[finished - 1]}: {of}")
        elif finished < len(self.names) and self.clock() - self.last >= QUIET:
            within = done - self.ends[finished] + self.sizes[finished]
            self._say(f"{self.names[finished]}: {within} of {self.sizes[finished]} prompts, {of}")
        self.finished = finished

    def _say(self, text: str) -> None:
        self.last = self.clock()
        say(text)


class Pace:
    """A line at the first step and one every `QUIET` seconds after it, for work whose parts are not known beforehand.

    steps: the word for the steps. clock: seconds from any origin."""

    def __init__(self, steps: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.steps, self.clock = steps, clock
        self.began = clock()
        self.last: float | None = None

    def __call__(self, title: str, done: int, total: int) -> None:
        """`done` of `total` steps are done, and the next is one of `title`."""
        now = self.clock()
        if self.last is None or now - self.last >= QUIET:
            self.last = now
            say(f"{title}: {done} of {total} {self.steps}{time_left(now - self.began, done, total)}")


def time_left(seconds: float, done: int, total: int) -> str:
    """`, about 2 min left` where `done` of `total` steps took so many seconds; empty where nothing is done, or left."""
    if not 0 < done < total:
        return ""
    left = seconds / done * (total - done)
    return f", about {left / 60:.0f} min left" if left >= 90 else f", about {max(1.0, left):.0f} s left"


@contextmanager
def counted(**options: Any) -> Iterator[Callable[..., None]]:
    """Yields what is called with how much of how much is done, and of what; a bar shows it where standard error is a
    terminal. options: of tqdm."""
    from tqdm import tqdm

    with tqdm(disable=None, **options) as bar:

        def show(done: int, total: int, title: str = "") -> None:
            bar.total = total
            if title:
                bar.set_description_str(printable(title), refresh=False)
            bar.update(done - bar.n)

        yield show


@contextmanager
def progress_of(parts: Sequence[tuple[str, int]], what: str, bar: bool = True) -> Iterator[Progress]:
    """Yields what the measurement calls before the first prompt and after each. bar: draw one where standard error is a
    terminal; without it, as beside lines on standard output, a terminal gets lines, too."""
    lines = Lines(parts, what)
    try:
        if bar and sys.stderr.isatty():
            with _bar(lines) as show:
                yield show
        else:
            yield lines
    except KeyboardInterrupt:  # whoever has something to keep catches it within
        remark("stopped before anything was finished; nothing is kept.")
        raise


@contextmanager
def _bar(lines: Lines) -> Iterator[Progress]:
    with counted(total=sum(lines.sizes), unit="prompt", mininterval=1, file=sys.stderr) as show:
        ends = lines.ends
        yield lambda done, total: show(done, total, f"{bisect_right(ends, done)} of {len(ends)} {lines.what}")


@contextmanager
def as_at_ctrl_c(wanted: bool = True) -> Iterator[None]:
    """Inside, the first SIGTERM does what SIGINT would, also where that is ignored, as for a job in the background of a
    script; a second one ends the process at once. Only the main thread may ask for it; elsewhere nothing changes."""
    if not wanted or threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        asked = signal.getsignal(signal.SIGINT)
        (asked if callable(asked) else signal.default_int_handler)(signal.SIGINT, frame)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL if before is None else before)  # None: not set from Python
