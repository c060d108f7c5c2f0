"""A public page under visitors for minutes:  python -m tests.page.soak --minutes 10

The server, twenty visitors and the one who runs methods are three processes. Each visitor has an address of its own,
holds a heartbeat open, and every few seconds takes a recorded trace, uploads one of up to two million characters, asks
for the numbers or for figures, or saves; now and then the page is closed and opened again. Meanwhile one run goes at a
time: to its end, forked, stopped, or left with its connection cut, with a small sweep now and then. The delay of an
event is from the moment at which the server offers a message of a run to the moment at which its reader has it, on the
clock that all processes of a machine share (time.monotonic)."""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import tempfile
import threading
import time
import uuid
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.page.serving import answering, ask, numbers_of, process, resident

STREAM = re.compile(r'stream\\*": ?\\*"([\w-]{16,})')  # in JSON text within JSON
VISITORS = 20
PAUSE = 2.0, 8.0  # seconds between two requests of a replaying visitor
STAY = 12  # requests of one page, at most
PACE = 3.0  # seconds from one live run to the next, at least
SETTLE = 30.0  # seconds behind the last visitor, in which what is free goes back
PLAY, NUMBERS = "_plays.<locals>.play", "Showing.numbers"  # handlers, by their qualified names
TAKE_IN, SAVE, PAGE = "Showing.take_in", "Keeping.save_json", "Keeping.save_html"
CURVES, PICTURE = "Showing.curves", "_saver.<locals>.save"  # a picture goes through the queue
WISHES = (PLAY, PLAY, PLAY, TAKE_IN, TAKE_IN, NUMBERS, CURVES, PICTURE, SAVE, PAGE)
KINDS = {TAKE_IN: "uploads", PICTURE: "pictures, with the queue"}
CHARACTERS = 30_000, 300_000, 2_000_000  # of an uploaded trace
WAYS = ("end", "end", "fork", "stop", "lost", "sweep")


def serve(pipe: Any, folder: str) -> None:
    """The public page in this process, with `folder` for its temporary files. Sends its address and the numbers of its
    handlers by name, then answers `offered`, when each message of a run was offered, and `pages`, how many it
    remembers."""
    os.environ |= {"TMPDIR": folder, "GRADIO_TEMP_DIR": folder, "EXPLORER_TRUSTED_PROXIES": "1"}
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # threads that wait for a busy core cost more than they help
    tempfile.tempdir = folder
    import engines
    from explorer.page.event_stream import EventStream
    from explorer.page.handlers import Handlers
    from explorer.page.server import launch
    from tests.page.conftest import first_model

    offered: dict[tuple[str, int], float] = {}
    put = EventStream.put

    def noted(stream: EventStream, number: int, text: str) -> list[str]:
        offered[stream.name, number] = time.monotonic()
        return put(stream, number, text)

    made: list[Handlers] = []
    begin = Handlers.__init__

    def kept(handlers: Handlers, *given: Any, **named: Any) -> None:
        begin(handlers, *given, **named)
        made.append(handlers)

    EventStream.put, Handlers.__init__ = noted, kept  # type: ignore[method-assign]
    demo = launch(warm=False, public=True, quiet=True)
    engines.load_model(first_model("masked"))
    first = demo.local_url, numbers_of(demo)
    answers = {"offered": lambda: dict(offered), "pages": lambda: sum(len(one.sessions) for one in made)}
    answering(pipe, first, **answers)


class Caller:
    """One page over HTTP from an address of its own."""

    def __init__(self, url: str, address: str) -> None:
        self.session, self.headers = uuid.uuid4().hex[:12], {"x-forwarded-for": address}
        fresh = httpx.Limits(keepalive_expiry=2)  # before the server closes it, which is after five seconds
        self.client = httpx.Client(base_url=url, timeout=60, headers=self.headers, limits=fresh)

    def call(self, number: int, *data: Any) -> httpx.Response:
        """One call beside the queue, as the page makes it."""
        body = {"data": list(data), "fn_index": number, "session_hash": self.session}
        return self.client.post("/gradio_api/run/predict", json=body)

    def queued(self, number: int, *data: Any) -> str:
        """One call through the queue, read to its end: its status, or what went wrong."""
        body = {"data": list(data), "fn_index": number, "session_hash": self.session}
        joined = self.client.post("/gradio_api/queue/join", json=body)
        if joined.status_code != 200:
            return str(joined.status_code)
        ask = {"params": {"session_hash": self.session}}
        with self.client.stream("GET", "/gradio_api/queue/data", **ask) as stream:
            for line in stream.iter_lines():
                told = json.loads(line[5:]) if line.startswith("data:") else {}
                if told.get("msg") == "process_completed":
                    return "200" if told["success"] else "failed"
        return "no end"


class Beat:
    """The heartbeat of a page, held open until it is closed."""

    def __init__(self, url: str, session: str) -> None:
        self.began = threading.Event()
        self.path, self.lost, self.stream = f"{url}gradio_api/heartbeat/{session}", False, Any
        self.open = threading.Event()
        self.open.set()
        threading.Thread(target=self._hold, daemon=True).start()

    def _hold(self) -> None:
        try:
            with httpx.stream("GET", self.path, timeout=60) as self.stream:
                if self.stream.status_code == 200:
                    self.began.set()
                for _ in self.stream.iter_lines():
                    if not self.open.is_set():
                        return
        except Exception:
            self.lost = self.open.is_set()

    def close(self) -> None:
        self.open.clear()
        with suppress(Exception):  # it was not open yet, or is gone
            self.stream.extensions["network_stream"].get_extra_info("socket").shutdown(2)


class Visitor:
    """One who opens a page, asks for this and that, closes it and comes again."""

    def __init__(self, url: str, numbers: dict[str, list[int]], uploads: list[str], place: int) -> None:
        self.url, self.numbers, self.uploads, self.address = url, numbers, uploads, f"10.1.0.{place}"
        self.chance, self.answers = random.Random(place), Counter[str]()
        self.waits: dict[str, list[float]] = {}

    def stay(self, until: float) -> None:
        """Pages one after the other until that moment of time.monotonic."""
        while time.monotonic() < until:
            caller = Caller(self.url, self.address)
            beat = Beat(self.url, caller.session)
            for _ in range(self.chance.randint(3, STAY)):
                self.wish(caller, self.chance.choice(WISHES))
                time.sleep(self.chance.uniform(*PAUSE))
                if time.monotonic() > until:
                    break
            beat.close()
            self.answers["heartbeat lost"] += beat.lost
            caller.client.close()

    def wish(self, caller: Caller, what: str) -> None:
        began, number = time.monotonic(), self.chance.choice(self.numbers[what])
        try:
            if what == PICTURE:
                said = caller.queued(number, "all", "board", "seconds", 0, "7", "1")
            else:
                given = [self.chance.choice(self.uploads)] if what == TAKE_IN else ["all"] if "save" in what else []
                said = str((answer := caller.call(number, *given)).status_code)
                if what == TAKE_IN and answer.is_success and json.loads(answer.json()["data"][1])["kind"] != "ok":
                    said += " refused with a sentence"
        except httpx.HTTPError as error:
            said = type(error).__name__
        self.answers[f"{what.rpartition('.')[2]} {said}"] += 1
        self.waits.setdefault(KINDS.get(what, "others"), []).append(time.monotonic() - began)


def replayed(pipe: Any, url: str, numbers: dict[str, list[int]], seconds: float) -> None:
    """All these visitors, in this process. Sends how often each answer came, and how long they took."""
    from tests.page.memory import long_trace

    people = [Visitor(url, numbers, [long_trace(n) for n in CHARACTERS], place) for place in range(VISITORS)]
    pipe.send("ready")
    until = time.monotonic() + seconds
    threads = [threading.Thread(target=one.stay, args=(until,), daemon=True) for one in people]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds + 60)
    answers = sum((one.answers for one in people), Counter[str]())
    kinds = {kind for one in people for kind in one.waits}
    waits = {kind: sorted(wait for one in people for wait in one.waits.get(kind, ())) for kind in sorted(kinds)}
    pipe.send((dict(answers), waits))


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
        caller = Caller(self.url, "10.2.0.1")
        if way == "sweep":
            self.join(caller, "Sweeper.run", sweep())
        else:
            self.join(caller, "Running.run", run(), way if way != "fork" else "end")
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
                        caller.call(self.numbers["Running.stop"][0])
                    break
        for reader in readers:
            reader.join(60)

    def read(self, name: str) -> None:
        number = 0
        with httpx.stream("GET", f"{self.url}live/{name}", timeout=60) as stream:
            for line in stream.iter_lines():
                if line.startswith("id:"):
                    number = int(line[3:])
                    self.came[name, number] = time.monotonic()


def run() -> list[Any]:
    """What the page sends for one slot of a masked method."""
    from explorer.links import SLOTS
    from explorer.page.catalogue import Catalogue, Form
    from tests.page.conftest import first_model, methods_of

    plan = Form(methods_of("masked")[0], first_model("masked"), {"max_new_tokens": 64})
    return ["add: 457 + 286", 0, "1", *[Catalogue.read(True).form(plan).text()] * SLOTS]


def sweep() -> list[Any]:
    from engines.tasks import TASKS
    from explorer.page.sweeper import DEFAULTS, NO_SECOND
    from tests.page.conftest import first_model, methods_of

    what = [first_model("masked"), methods_of("masked")[:1], DEFAULTS, "", NO_SECOND]
    return [*what, [*TASKS][:1], 4, 0, 10, 4, False]


@dataclass
class Reading:
    when: float
    megabytes: float
    threads: int
    descriptors: int
    files: int
    peak: float  # MB, since the server began

    @classmethod
    def of(cls, pid: int, began: float, folder: str) -> Reading:
        threads = len(os.listdir(f"/proc/{pid}/task"))
        open_now = len(os.listdir(f"/proc/{pid}/fd"))
        there = sum(path.is_file() for path in Path(folder).rglob("*"))
        return cls(time.monotonic() - began, resident(pid), threads, open_now, there, resident(pid, "VmHWM"))

    def __str__(self) -> str:
        return (
            f"after {self.when:4.0f} s: {self.megabytes:.0f} MB (most {self.peak:.0f}), {self.threads} threads, "
            f"{self.descriptors} descriptors, {self.files} temporary files"
        )


@dataclass
class Report:
    """Readings at start, middle, end and afterwards; delays of events and waits for answers in seconds, sorted."""

    readings: list[Reading]
    delays: list[float]
    waits: dict[str, list[float]]  # by what was asked for
    answers: dict[str, int]
    runs: Counter[str]
    failures: list[str]

    def __str__(self) -> str:
        lines = [f"{dict(self.runs)} live, {len(self.failures)} failures; {self.answers}"]
        lines += [f"events: {len(self.delays)}, {percentiles(self.delays)}"]
        lines += [f"answers, {kind}: {len(waits)}, {percentiles(waits)}" for kind, waits in self.waits.items()]
        lines += [f"load average {os.getloadavg()[2]:.1f} (15 minutes) on {os.cpu_count()} cores"]
        return "\n".join([*lines, *map(str, self.readings), *self.failures[:5]])


def percentiles(values: list[float]) -> str:
    if not values:
        return "none"
    at = [1000 * values[int(share * (len(values) - 1))] for share in (0.5, 0.95, 1)]
    return "p50 {:.0f} ms, p95 {:.0f} ms, most {:.0f} ms".format(*at)


def measure(seconds: float, settle: float = SETTLE) -> Report:
    """Serve, soak, measure. The first reading is taken once each way of ending was gone once, the last `settle` seconds
    after the last visitor."""
    with tempfile.TemporaryDirectory() as folder, process(serve, folder) as (pipe, server):
        url, numbers = pipe.recv()
        runner = Runner(url, numbers)
        for way in dict.fromkeys(WAYS):
            runner.go(way)
        with process(replayed, url, numbers, seconds) as (told, _):
            told.recv()
            began = time.monotonic()
            readings = [Reading.of(server, began, folder)]
            while (now := time.monotonic() - began) < seconds:
                if now > seconds / 2 and len(readings) == 1:
                    readings.append(Reading.of(server, began, folder))
                runner.go(runner.chance.choice(WAYS))
                time.sleep(max(0.0, PACE - (time.monotonic() - began - now)))
            answers, waits = told.recv()
        readings.append(Reading.of(server, began, folder))
        time.sleep(settle)
        readings.append(Reading.of(server, began, folder))
        offered = ask(pipe, "offered")
        delays = sorted(when - offered[key] for key, when in runner.came.items() if key in offered)
        return Report(readings, delays, waits, answers, runner.done, runner.failures)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--minutes", type=float, default=10)
    print(measure(60 * parser.parse_args().minutes))


if __name__ == "__main__":
    main()
