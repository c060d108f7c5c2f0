"""How soon a Stop or a closed page frees the model, measured at the handlers over a real model:  python -m
tests.page.stops 100

A run is ended at a random moment. What counts is how many forwards begin after the request (none that was not under way
may), how long the request waits, and whether the model is free and the run finished afterwards."""

from __future__ import annotations

import random
import statistics
import sys
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, ClassVar

import engines
from explorer.page.catalogue import Catalogue, Plan
from explorer.page.feed import MODEL_LOCK
from explorer.page.handlers import Handlers
from explorer.page.limits import SLOTS, Limits
from explorer.runs.gallery import Gallery
from tests.page.conftest import PROMPT, first_model, methods_of


class Visitor:
    def __init__(self, name: str) -> None:
        self.session_hash = name


@dataclass
class Ending:
    """What one request to end did. begun_after: forwards that began after it; longest: seconds of the longest forward
    of the run."""

    how: str
    begun_after: int
    seconds: float
    longest: float
    open_runs: int


class Watched:
    """A run that notes when each of its steps begins, and whether it was closed."""

    log: ClassVar[list[tuple[float, float]]] = []
    open = 0

    def __init__(self, run: Any, pause: float) -> None:
        self.run, self.pause, self.closed = run, pause, False
        Watched.open += 1

    def __next__(self) -> Any:
        began = time.monotonic()
        try:
            time.sleep(self.pause)
            return next(self.run)
        finally:
            Watched.log.append((began, time.monotonic()))

    def close(self) -> None:
        Watched.open -= not self.closed
        self.closed = True
        self.run.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.run, name)


@contextmanager
def watched(pause: float) -> Any:
    """Every run is watched, and every step takes `pause` seconds more."""
    real = engines.stream
    engines.stream = lambda *a, **k: Watched(real(*a, **k), pause)
    try:
        yield
    finally:
        engines.stream = real


def make_handlers() -> Handlers:
    """The handlers of a page without recorded runs."""
    return Handlers(Gallery(Path(mkdtemp())), Catalogue.read(False), Limits(1000, 4096, 60, False))


def inputs(handlers: Handlers) -> list[Any]:
    """Two slots of a masked method on a tiny model, as the page sends them."""
    plan = Plan(methods_of("masked")[0], first_model("masked"), {"max_new_tokens": 64})
    return [PROMPT, 0, "2", *[handlers.catalogue.form(plan).text()] * SLOTS]


def end_one(handlers: Handlers, how: str, wait: float, number: int) -> Ending:
    """Begin a run, wait, end it: by Stop, or as a page that is closed. Returns what was seen once the run had ended."""
    visitor, values = Visitor(f"visitor {number}"), inputs(handlers)
    Watched.log = []
    going = threading.Thread(target=lambda: list(handlers.running.run(visitor, *values)), daemon=True)
    going.start()
    time.sleep(wait)
    asked = time.monotonic()
    if how == "stop":
        handlers.running.stop(visitor)
    else:
        handlers.closed(visitor)
        going.join(60)
    took = time.monotonic() - asked
    going.join(60)
    free = MODEL_LOCK.acquire(timeout=10)
    assert free and not going.is_alive(), "the model is not free"
    MODEL_LOCK.release()
    return Ending(
        how,
        sum(began > asked for began, _ in Watched.log),
        took,
        max((b - a for a, b in Watched.log), default=0.0),
        Watched.open,
    )


def measure(
    count: int, closed: int, pause: float = 0.0, say: Callable[[str], None] = lambda text: None
) -> list[Ending]:
    """`count` Stops and `closed` closed pages at random moments of a run of about a second."""
    chance, handlers = random.Random(0), make_handlers()
    engines.load_model(first_model("masked"))
    found = []
    with watched(pause):
        for number in range(count + closed):
            found.append(end_one(handlers, "stop" if number < count else "close", chance.uniform(0, 0.4), number))
            say(f"{number + 1}/{count + closed}: {found[-1]}")
    return found


def main(count: int) -> None:
    """Print what `count` requests did, two thirds of them Stops."""
    found = measure(count - count // 3, count // 3)
    late = [one for one in found if one.begun_after > 1 or one.open_runs]
    waits = [1000 * one.seconds for one in found]
    print(
        f"{len(found) - len(late)} of {len(found)} freed the model within one forward "
        f"({sum(one.how == 'stop' for one in found)} Stops, the rest closed pages)"
    )
    print(f"forwards begun after the request: at most {max(one.begun_after for one in found)}")
    print(
        f"seconds until free: median {statistics.median(waits):.1f} ms, most {max(waits):.1f} ms; longest forward "
        f"{1000 * max(o.longest for o in found):.1f} ms"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
