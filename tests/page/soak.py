"""A public page under visitors for minutes:  python -m tests.page.soak --minutes 10

The server, twenty replaying visitors and the one who runs methods are three processes. Each visitor has an address of
its own, holds a heartbeat open, and every few seconds takes a recorded trace, opens one, asks for the numbers or saves.
Meanwhile one run goes at a time: to its end, forked, stopped, or left with its connection cut, with a small sweep now
and then. The delay of an event is from the moment at which the server offers a message of a run to the moment at which
its reader has it, on the clock that all processes of a machine share (time.monotonic)."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import tempfile
import threading
import time
import uuid
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.page.live_cost import STREAM

VISITORS = 20
PAUSE = 2.0, 8.0  # seconds between two requests of a replaying visitor
PACE = 3.0  # seconds from one live run to the next, at least
PLAY, NUMBERS = "_player.<locals>.play", "Handlers.numbers"  # handlers, by their qualified names
TAKE_IN, SAVE = "Handlers.take_in", "Handlers.save_json"
WAYS = ("end", "end", "fork", "stop", "lost", "sweep")


def serve(pipe: Any, folder: str) -> None:
    """The public page in this process, with `folder` for its temporary files. Sends its address and the numbers of its
    handlers by name, then answers `offered`: when each message of a run was offered."""
    os.environ |= {"TMPDIR": folder, "GRADIO_TEMP_DIR": folder, "EXPLORER_TRUSTED_PROXIES": "1"}
    tempfile.tempdir = folder
    import engines
    from explorer.page.event_stream import EventStream
    from explorer.page.server import launch
    from tests.page.conftest import first_model

    offered: dict[tuple[str, int], float] = {}
    put = EventStream.put

    def noted(stream: EventStream, number: int, text: str) -> list[str]:
        offered[stream.name, number] = time.monotonic()
        return put(stream, number, text)

    EventStream.put = noted  # type: ignore[method-assign]
    demo = launch(warm=False, public=True, quiet=True)
    engines.load_model(first_model("masked"))
    numbers: dict[str, list[int]] = {}
    for number, fn in demo.fns.items():
        numbers.setdefault(getattr(fn.fn, "__qualname__", ""), []).append(number)
    pipe.send((demo.local_url, numbers))
    while pipe.recv() != "end":
        pipe.send(dict(offered))
        offered.clear()
    os._exit(0)


class Caller:
    """One page over HTTP from an address of its own."""

    def __init__(self, url: str, address: str) -> None:
        self.session, self.headers = uuid.uuid4().hex[:12], {"x-forwarded-for": address}
        self.client = httpx.Client(base_url=url, timeout=60, headers=self.headers)

    def call(self, number: int, *data: Any) -> httpx.Response:
        """One call beside the queue, as the page makes it."""
        body = {"data": list(data), "fn_index": number, "session_hash": self.session}
        return self.client.post("/gradio_api/run/predict", json=body)


def replay(url: str, numbers: dict[str, list[int]], seconds: float, pipe: Any) -> None:
    """All replaying visitors, in this process. Sends how often each answer came, and the slowest."""
    from explorer.runs.gallery import GALLERY, read_bytes

    small = min(GALLERY.glob("*.json.gz"), key=lambda path: path.stat().st_size)
    answers, waits, until = Counter[str](), [], time.monotonic() + seconds
    trace = read_bytes(small).decode()

    def visit(place: int) -> None:
        chance, caller = random.Random(place), Caller(url, f"10.1.0.{place}")
        while time.monotonic() < until:
            what = chance.choice([PLAY, PLAY, PLAY, TAKE_IN, NUMBERS, SAVE])
            data = {TAKE_IN: [trace], SAVE: ["all"]}.get(what, [])
            began = time.monotonic()
            try:
                status = caller.call(chance.choice(numbers[what]), *data).status_code
            except httpx.HTTPError as error:
                status = type(error).__name__  # type: ignore[assignment]
            answers[f"{what} {status}"] += 1
            waits.append(time.monotonic() - began)
            time.sleep(chance.uniform(*PAUSE))

    def beat(place: int) -> None:
        try:
            with httpx.stream("GET", f"{url}gradio_api/heartbeat/{uuid.uuid4().hex[:12]}", timeout=60) as stream:
                for _ in stream.iter_lines():
                    if time.monotonic() > until:
                        return
        except httpx.HTTPError:
            answers["heartbeat lost"] += 1

    threads = [threading.Thread(target=job, args=(i,), daemon=True) for i in range(VISITORS) for job in (visit, beat)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds + 60)
    pipe.send((dict(answers), sorted(waits)))


@dataclass
class Runner:
    """Who runs methods: when each message came, and how often each way of ending was gone."""

    url: str
    numbers: dict[str, list[int]]
    chance: random.Random = field(default_factory=lambda: random.Random(0))
    came: dict[tuple[str, int], float] = field(default_factory=dict)
    done: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def go(self, way: str) -> None:
        """One run, or one sweep."""
        caller = Caller(self.url, "10.2.0.1")
        if way == "sweep":
            self.join(caller, "Sweeper.run", sweep())
        else:
            self.join(caller, "Handlers.run", run(), way if way != "fork" else "end")
        if way == "fork":
            self.join(caller, "Forks.fork", [json.dumps({"slot": 0, "step": 3, "target": 1})])
        self.done[way] += 1
        caller.client.close()

    def join(self, caller: Caller, name: str, data: list[Any], way: str = "end") -> None:
        """Join the queue and read to the end; `stop`: until a Stop at a random moment, `lost`: until the connection is
        cut."""
        number = self.numbers[name][-1]
        body = {"data": data, "fn_index": number, "session_hash": caller.session}
        joined = caller.client.post("/gradio_api/queue/join", json=body)
        if joined.status_code != 200:
            self.failures.append(f"join answered {joined.status_code}: {joined.text[:200]}")
            return
        leave = time.monotonic() + self.chance.uniform(0, 0.6)
        readers: list[threading.Thread] = []
        ask = {"params": {"session_hash": caller.session}}
        with caller.client.stream("GET", "/gradio_api/queue/data", **ask) as stream:
            for line in stream.iter_lines():
                for found in STREAM.finditer(line):
                    readers.append(threading.Thread(target=self.read, args=(found[1],), daemon=True))
                    readers[-1].start()
                told = json.loads(line[5:]) if line.startswith("data:") else {}
                if told.get("msg") == "process_completed" and not told["success"]:
                    self.failures.append(str(told)[:300])
                if told.get("msg") in ("process_completed", "close_stream"):
                    break
                if way != "end" and time.monotonic() > leave:
                    if way == "stop":
                        event = {"event_id": joined.json()["event_id"], "fn_index": number}
                        caller.client.post("/gradio_api/cancel", json={"session_hash": caller.session, **event})
                        caller.call(self.numbers["Handlers.stop"][0])
                    break
        for reader in readers:
            reader.join(60)

    def read(self, name: str) -> None:
        """The steps of a run on its own stream."""
        number = 0
        with httpx.stream("GET", f"{self.url}live/{name}", timeout=60) as stream:
            for line in stream.iter_lines():
                if line.startswith("id:"):
                    number = int(line[3:])
                    self.came[name, number] = time.monotonic()


def run() -> list[Any]:
    """What the page sends for one slot of a masked method."""
    from explorer.page.catalogue import Catalogue, Plan
    from explorer.page.limits import SLOTS
    from tests.page.conftest import first_model, methods_of

    plan = Plan(methods_of("masked")[0], first_model("masked"), {"max_new_tokens": 64})
    return ["add: 457 + 286", 0, "1", *[Catalogue.read(True).form(plan).text()] * SLOTS]


def sweep() -> list[Any]:
    """What the page sends for a sweep of a few runs."""
    from engines.tasks import TASKS
    from explorer.page.sweeper import DEFAULTS
    from tests.page.conftest import first_model, methods_of

    return [first_model("masked"), methods_of("masked")[:1], DEFAULTS, "", [*TASKS][:1], 4, 0, 10, 4, False]


@dataclass
class Reading:
    """What the server holds at one moment."""

    when: float
    megabytes: float
    threads: int
    descriptors: int
    files: int

    @classmethod
    def of(cls, pid: int, began: float, folder: str) -> Reading:
        """Of a process and of the folder of its temporary files."""
        status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        open_now = len(os.listdir(f"/proc/{pid}/fd"))
        there = sum(path.is_file() for path in Path(folder).rglob("*"))
        resident = int(status["VmRSS"].split()[0]) / 1024
        return cls(time.monotonic() - began, resident, int(status["Threads"]), open_now, there)

    def __str__(self) -> str:
        return (
            f"after {self.when:4.0f} s: {self.megabytes:.0f} MB, {self.threads} threads, {self.descriptors} "
            f"descriptors, {self.files} temporary files"
        )


@dataclass
class Report:
    """Readings at start, middle and end; delays of events and waits for answers in seconds, sorted."""

    readings: list[Reading]
    delays: list[float]
    waits: list[float]
    answers: dict[str, int]
    runs: Counter[str]
    failures: list[str]

    def __str__(self) -> str:
        lines = [f"{dict(self.runs)} live, {len(self.failures)} failures; {self.answers}"]
        lines += [f"events: {len(self.delays)}, {percentiles(self.delays)}"]
        lines += [f"answers to replaying visitors: {len(self.waits)}, {percentiles(self.waits)}"]
        return "\n".join([*lines, *map(str, self.readings), *self.failures[:5]])


def percentiles(values: list[float]) -> str:
    """p50, p95 and the most of sorted seconds."""
    if not values:
        return "none"
    at = [1000 * values[int(share * (len(values) - 1))] for share in (0.5, 0.95, 1)]
    return "p50 {:.0f} ms, p95 {:.0f} ms, most {:.0f} ms".format(*at)


def measure(seconds: float) -> Report:
    """Serve, soak, measure. The first reading is taken once each way of ending was gone once."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    told, tell = context.Pipe()
    with tempfile.TemporaryDirectory() as folder:
        server = context.Process(target=serve, args=(theirs, folder), daemon=True)
        server.start()
        theirs.close()  # so that a server that ends is an EOFError here and no wait without an end
        visitors = None
        try:
            url, numbers = ours.recv()
            runner = Runner(url, numbers)
            for way in dict.fromkeys(WAYS):
                runner.go(way)
            visitors = context.Process(target=replay, args=(url, numbers, seconds, tell), daemon=True)
            visitors.start()
            tell.close()
            began = time.monotonic()
            readings = [Reading.of(server.pid or 0, began, folder)]
            while (now := time.monotonic() - began) < seconds:
                if now > seconds / 2 and len(readings) == 1:
                    readings.append(Reading.of(server.pid or 0, began, folder))
                runner.go(runner.chance.choice(WAYS))
                time.sleep(max(0.0, PACE - (time.monotonic() - began - now)))
            answers, waits = told.recv()
            time.sleep(3)  # what the last ones left behind is cleared
            readings.append(Reading.of(server.pid or 0, began, folder))
            ours.send("offered")
            offered = ours.recv()
            delays = sorted(when - offered[key] for key, when in runner.came.items() if key in offered)
            return Report(readings, delays, waits, answers, runner.done, runner.failures)
        finally:
            for one in (server, visitors):
                if one is not None:
                    one.kill()
                    one.join(10)


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--minutes", type=float, default=10)
    print(measure(60 * parser.parse_args().minutes))
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
