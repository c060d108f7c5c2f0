"""Tabs that are closed and Stops at random moments, over HTTP, with the next visitor waiting:  python -m
tests.page.crowd 30 50

Each time one visitor's run is under way or about to be, a second one waits behind it, and the first closes the tab or
presses Stop at a random moment: before its turn, in it, or after its end. Counted is how many forwards of the first
begin after that, and how long it takes until the second one's first forward begins."""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, ClassVar

import httpx

import engines
from tests.page.serving import numbers_of
from tests.page.soak import Beat, Caller, run

FORWARD = 0.25  # seconds that each forward takes more; a notice takes less, also on a busy machine


class Noted:
    """A run that notes when each of its forwards begins, by its seed, which is another one in each run here."""

    log: ClassVar[list[tuple[int, float]]] = []

    def __init__(self, inner: Any) -> None:
        self.inner, self.seed = inner, inner.header.seed

    def __iter__(self) -> Noted:
        return self

    def __next__(self) -> Any:
        Noted.log.append((self.seed, time.monotonic()))
        time.sleep(FORWARD)
        return next(self.inner)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    @classmethod
    def of(cls, seed: int) -> list[float]:
        """When its forwards began."""
        return [at for one, at in cls.log if one == seed]


@contextmanager
def noted() -> Iterator[None]:
    """Every run is noted, and slow."""
    real, Noted.log = engines.stream, []
    engines.stream = lambda *a, **k: Noted(real(*a, **k))  # type: ignore[assignment]
    try:
        yield
    finally:
        engines.stream = real


class Tab(Caller):
    """A page that runs one slot: it holds a heartbeat and reads its stream until it is closed."""

    def __init__(self, url: str, numbers: dict[str, list[int]], address: str) -> None:
        super().__init__(url, address)
        self.url, self.run, self.event = url, numbers["Running.run"][0], ""
        self.ending, self.streams = numbers["Running.stop"][0], list[httpx.Response]()

    def join(self, values: list[Any]) -> None:
        """Press Run."""
        body = {"data": values, "fn_index": self.run, "session_hash": self.session}
        joined = self.client.post("/gradio_api/queue/join", json=body)
        joined.raise_for_status()
        self.event, self.beat = joined.json()["event_id"], Beat(self.url, self.session)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        ask = {"params": {"session_hash": self.session}, "timeout": 60}
        with suppress(Exception), httpx.stream("GET", f"{self.url}gradio_api/queue/data", **ask) as stream:
            self.streams.append(stream)
            for _ in stream.iter_lines() if self.beat.open.is_set() else ():  # else the tab was closed meanwhile
                pass

    def stop(self) -> None:
        """Press Stop, as the page does it."""
        body = {"session_hash": self.session, "event_id": self.event, "fn_index": self.run}
        self.client.post("/gradio_api/cancel", json=body)
        assert self.call(self.ending).status_code == 200

    def close(self) -> None:
        """Close the tab: all its connections are cut."""
        self.beat.close()
        for stream in list(self.streams):
            with suppress(OSError):  # the server has closed it already
                stream.extensions["network_stream"].get_extra_info("socket").shutdown(2)


@dataclass
class Left:
    """One visitor who left. after: forwards of the run that began afterwards; wait: seconds until the next visitor's
    first forward began."""

    how: str
    moment: float
    after: int
    wait: float


def measure(
    url: str, numbers: dict[str, list[int]], closed: int, stops: int, say: Any = lambda text: None
) -> list[Left]:
    """At a page that this process serves, in `noted()`."""
    chance, values, found = random.Random(0), run(), []
    ways = ["close"] * closed + ["stop"] * stops
    chance.shuffle(ways)
    for number, way in enumerate(ways):
        first, following = Tab(url, numbers, "10.0.0.1"), Tab(url, numbers, "10.0.0.2")
        seeds = 2 * number + 1, 2 * number + 2
        for tab, seed in zip((first, following), seeds, strict=True):
            tab.join([values[0], seed, *values[2:]])
        moment = chance.uniform(0, 1.4)
        time.sleep(moment)
        left = time.monotonic()
        first.stop() if way == "stop" else first.close()
        while not Noted.of(seeds[1]):
            assert time.monotonic() < left + 30, "the next visitor's run did not start"
            time.sleep(0.005)
        after = sum(at > left for at in Noted.of(seeds[0]))
        found.append(Left(way, moment, after, Noted.of(seeds[1])[0] - left))
        say(str(found[-1]))
        following.stop()
        following.close()
    return found


def main(closed: int, stops: int) -> None:
    """Print what was found."""
    from explorer.page.server import launch
    from explorer.runs.gallery import Gallery
    from tests.page.conftest import first_model

    os.environ["EXPLORER_MAX_SECONDS"] = "1"  # so that some are gone before their visitor leaves
    engines.load_model(first_model("masked"))
    demo = launch(warm=False, traces=Gallery(Path(mkdtemp())), quiet=True)
    with noted():
        found = measure(demo.local_url, numbers_of(demo), closed, stops, lambda text: print(text, file=sys.stderr))
    waits = sorted(one.wait for one in found)
    print(f"{closed} closed tabs, {stops} Stops, a forward takes {1000 * FORWARD:.0f} ms")
    print(f"forwards of the run after that: at most {max(one.after for one in found)}")
    print(
        f"next visitor's first forward: median {1000 * waits[len(waits) // 2]:.0f} ms, most {1000 * waits[-1]:.0f} ms"
    )


if __name__ == "__main__":
    main(*(int(one) for one in sys.argv[1:3]) if len(sys.argv) > 2 else (30, 50))
