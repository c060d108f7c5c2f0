"""Attacks on a public page, each beside an honest visitor:  python -m tests.page.attacks --seconds 45

The page, the attackers and the honest visitor are three processes. Each attack holds as many connections as it can,
from several addresses of this machine, and opens a new one some seconds after the server closed one. The visitor, from
another address, loads the page, runs a small method and asks for its numbers, again and again: before the attack and
during it. Printed is what the attackers got, what the server held, and the visitor's time."""

from __future__ import annotations

import argparse
import functools
import importlib.util
import json
import os
import resource
import select
import socket
import statistics
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.page.serving import answering, ask, numbers_of, process, resident
from tests.page.soak import Beat, Caller, run

DESCRIPTORS = 1024  # that the server may have when it starts, as most systems set it
TICK = 1.0  # seconds from one byte to the next
SETTLE = 5.0  # seconds behind an attack, until what is left of it is read
AGAIN = 5.0  # seconds from one connection in a place to the next, at least: none of these is a flood
SMALL = 4096  # bytes of a socket's buffer, where its owner reads slowly
HOST = b"Host: localhost\r\n"


@dataclass(frozen=True)
class Attack:
    """What attackers do. first: what a connection sends at once, given its number; drip: what it sends a byte at a
    time afterwards; reads: bytes that it reads a second, None all; each: connections of one address; many: addresses;
    leaves: a connection is closed once it was answered."""

    name: str
    first: Callable[[int], bytes] = lambda number: b""
    drip: bytes = b""
    reads: int | None = 0
    each: int = 300
    many: int = 2
    leaves: bool = False


def get(path: str) -> Callable[[int], bytes]:
    """A request for a path, in which # stands for a new name."""
    return lambda number: b"GET %s HTTP/1.1\r\n%s\r\n" % (path.replace("#", uuid.uuid4().hex[:12]).encode(), HOST)


def post(path: str, **body: Any) -> Callable[[int], bytes]:
    def made(number: int) -> bytes:
        text = json.dumps({"session_hash": uuid.uuid4().hex[:12], **body}).encode()
        head = b"POST %s HTTP/1.1\r\n%sContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        return head % (path.encode(), HOST, len(text)) + text

    return made


def joined(number: int, handler: int) -> bytes:
    """A run that is refused at once, and then its stream."""
    session = uuid.uuid4().hex[:12]
    body = {"data": ["", 0, "1", "", "", "", ""], "fn_index": handler, "session_hash": session}
    return post("/gradio_api/queue/join", **body)(number) + get(f"/gradio_api/queue/data?session_hash={session}")(0)


def attacks(numbers: dict[str, list[int]]) -> list[Attack]:
    """All of them; numbers: those of the page's handlers by their qualified names."""
    found = importlib.util.find_spec("gradio")
    assert found and found.origin
    scripts = (Path(found.origin).parent / "templates/frontend/assets").glob("*.js")
    script = max(scripts, key=lambda path: path.stat().st_size)
    call = functools.partial(post, "/gradio_api/run/predict", data=["all"])
    body = b"POST /gradio_api/run/predict HTTP/1.1\r\n%sContent-Length: 9000\r\n\r\n" % HOST
    return [
        Attack("silent connections"),
        Attack("silent, of ten addresses", many=10, each=250),
        Attack("a header, a byte a second", lambda _: b"GET / HTTP/1.1\r\n" + HOST, b"X-Slow: " + b"a" * 9000),
        Attack("a body, a byte a second", lambda _: body, b"[" + b" " * 9000),
        Attack("the page, never read", get("/config")),
        Attack("a file, never read", get(f"/assets/{script.name}")),
        Attack("a file, a byte a second", get(f"/assets/{script.name}"), reads=1),
        Attack("answers, never read", call(fn_index=numbers["Keeping.save_html"][0])),
        Attack("heartbeats, never read", get("/gradio_api/heartbeat/#"), many=6),
        Attack("events, never read", functools.partial(joined, handler=numbers["Running.run"][0])),
        Attack(
            "pages of a hundred visitors",
            call(fn_index=numbers["Keeping.save_json"][0]),
            reads=None,
            each=1,
            many=100,
            leaves=True,
        ),
    ]


def serve(pipe: Any, patience: float, log: str, proxies: int) -> None:
    """The public page in this process, which writes into the file `log`. Sends its port and the numbers of its handlers
    by name; ends when it is told. patience: seconds for what it waits for, 0 for its own. proxies: in front of it."""
    words = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(words, 1)
    os.dup2(words, 2)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, hard))
    os.environ["EXPLORER_TRUSTED_PROXIES"] = str(proxies)
    os.environ["OMP_NUM_THREADS"] = "1"  # threads that wait for a busy core
    import engines
    from explorer.page import guard, server, visitor_limits
    from tests.page.conftest import first_model

    if patience:
        visitor_limits.PATIENCE = guard.PATIENCE = patience
        server.Connections = functools.partial(server.Connections, patience=patience, pause=0.1)  # type: ignore
    demo = server.launch(warm=False, public=True, quiet=True, server_name="127.0.0.1")
    engines.load_model(first_model("masked"))
    answering(pipe, (demo.server_port, numbers_of(demo)))


@dataclass
class Connection:
    line: socket.socket
    began: float
    sent: int = 0
    said: str = ""


@dataclass
class Got:
    """What attackers got: how many connections, and after how many seconds those ended that were closed, by what was
    said on them."""

    opened: int = 0
    ended: dict[str, list[float]] = field(default_factory=dict)

    def __str__(self) -> str:
        ends = sorted(self.ended.items(), key=lambda one: -len(one[1]))[:3]
        said = [f"{len(after):,} {how}, closed after {statistics.median(after):.1f} s" for how, after in ends]
        return "; ".join([f"{self.opened:,} opened", *said])


def attack(pipe: Any, port: int, name: str, numbers: dict[str, list[int]]) -> None:
    """One of them in this process, until it is told to end. Sends what was got."""
    what = next(one for one in attacks(numbers) if one.name == name)
    got, held = Got(), dict[tuple[int, int], Connection]()
    places = [(address, place) for place in range(what.each) for address in range(what.many)]
    tried: dict[tuple[int, int], float] = {}  # place -> when
    pipe.send("ready")
    began = time.monotonic()
    while not pipe.poll():
        for place in places:
            if place not in held and time.monotonic() - tried.get(place, 0.0) > AGAIN:
                tried[place] = time.monotonic()
                if line := _connected(port, place[0], what.reads is not None):
                    held[place] = Connection(line, time.monotonic())
                    got.opened += 1
                    _send(held[place], what.first(got.opened))
        for place in list(_ended(held, what)):
            one = held.pop(place)
            got.ended.setdefault(one.said or "no answer", []).append(time.monotonic() - one.began)
            one.line.close()
        if time.monotonic() - began > TICK:
            began += TICK
            for one in held.values():
                _send(one, what.drip[one.sent : one.sent + 1])
                one.sent += 1
                if what.reads:
                    _read(one, what.reads)
        time.sleep(0.1)
    for one in held.values():
        one.line.close()
    pipe.send(got)


def _connected(port: int, address: int, slow: bool) -> socket.socket | None:
    line = socket.socket()
    if slow:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL)
    try:
        line.settimeout(0.2)  # a server that takes no more connections
        line.bind((f"127.0.1.{address + 1}", 0))
        line.connect(("127.0.0.1", port))
    except OSError:
        line.close()
        return None
    line.setblocking(False)
    return line


def _send(one: Connection, text: bytes) -> None:
    with suppress(OSError):  # it is closed: noticed below
        one.line.send(text) if text else None


def _read(one: Connection, many: int, flags: int = 0) -> bytes | None:
    try:
        return one.line.recv(many, flags)
    except OSError:
        return None


def _ended(held: dict[tuple[int, int], Connection], what: Attack) -> Iterator[tuple[int, int]]:
    """The places of those that the server has closed, or that leave. What is answered is looked at, and not read."""
    poll, by_number = select.poll(), {one.line.fileno(): place for place, one in held.items()}
    for number in by_number:
        poll.register(number, select.POLLIN | select.POLLRDHUP)
    for number, event in poll.poll(0):
        one = held[by_number[number]]
        if not one.said:
            one.said = (_read(one, 12, socket.MSG_PEEK) or b"").decode("latin-1").replace("HTTP/1.1 ", "status ")
        if what.reads is None:
            _read(one, 1 << 20)
        if event & (select.POLLRDHUP | select.POLLHUP | select.POLLERR) or (what.leaves and one.said):
            yield by_number[number]


class Honest:
    """A visitor who loads the page, runs a small method and asks for its numbers."""

    def __init__(self, url: str, numbers: dict[str, list[int]]) -> None:
        self.url, self.numbers, self.failures = url, numbers, list[str]()
        self.values = run()

    def visits(self, seconds: float) -> list[float]:
        """Seconds of each visit; at least two."""
        found, until = list[float](), time.monotonic() + seconds
        while len(found) < 2 or time.monotonic() < until:
            began = time.monotonic()
            try:
                self.visit(found)
            except httpx.HTTPError as error:
                self.failures.append(f"{type(error).__name__}: {error}")
            found.append(time.monotonic() - began)
            time.sleep(0.3)
        return found

    def visit(self, found: list[float]) -> None:
        """One visit, over connections of its own."""
        caller, number = Caller(self.url, ""), self.numbers["Running.run"][0]
        beat = Beat(self.url, caller.session)
        if not beat.began.wait(60):
            self.failures.append("the page's heartbeat did not begin")
        with caller.client as client:
            said = [str(client.get("/config").status_code), caller.queued(number, *self.values)]
            answer = caller.call(self.numbers["Showing.numbers"][0])
            said.append(str(answer.status_code))
            if said != ["200"] * 3:
                self.failures.append(f"page, run, numbers: {said}")
            elif len(json.loads(answer.json()["data"][0])["runs"]) != 1:  # a page that is opened shows more
                self.failures.append("the numbers are not those of the run")
        beat.close()


@dataclass
class Outcome:
    """Of one attack. before, most, after: descriptors and megabytes of the server; alone, beside: seconds of visits;
    logged: bytes."""

    name: str
    got: Got
    before: tuple[int, float]
    most: tuple[int, float]
    after: tuple[int, float]
    alone: list[float]
    beside: list[float]
    failures: list[str]
    logged: int

    def __str__(self) -> str:
        alone, beside = statistics.median(self.alone), statistics.median(self.beside)
        before, most, after = (f"{number} / {mb:.0f}" for number, mb in (self.before, self.most, self.after))
        seconds = f"{alone:.2f} | {beside:.2f} (most {max(self.beside):.2f}) | {beside / alone:.2f}"
        return f"| {self.name} | {self.got} | {before} | {most} | {after} | {seconds} | {len(self.failures)} |"


HEAD = """| attack | attackers got | descriptors / MB before | most | after | visit alone, s | beside | ratio | lost |
|---|---|---|---|---|---|---|---|---|"""


def holds(pid: int) -> tuple[int, float]:
    return len(os.listdir(f"/proc/{pid}/fd")), resident(pid)


@contextmanager
def public_page(patience: float = 0.0, proxies: int = 0) -> Iterator[Page]:
    with tempfile.TemporaryDirectory() as folder, process(serve, patience, f"{folder}/log", proxies) as (pipe, number):
        yield Page(number, *pipe.recv(), Path(folder) / "log")


class Page:
    """A page under attack, and an honest visitor of it. number: that of its process."""

    def __init__(self, number: int, port: int, numbers: dict[str, list[int]], log: Path) -> None:
        self.number, self.port, self.numbers, self.log = number, port, numbers, log
        self.honest = Honest(f"http://127.0.0.1:{port}/", numbers)
        self.honest.visits(0)  # whatever is made once is made now

    def under(self, what: Attack, seconds: float, settle: float) -> Outcome:
        """One attack for so many seconds. settle: seconds afterwards, until what it holds is read."""
        pid = self.number
        self.honest.failures, over = [], threading.Event()
        alone = self.honest.visits(seconds / 5)
        before, logged, seen = holds(pid), self.log.stat().st_size, list[tuple[int, float]]()

        def look() -> None:
            while not over.wait(0.05):
                seen.append(holds(pid))

        looking = threading.Thread(target=look, daemon=True)
        looking.start()
        with process(attack, self.port, what.name, self.numbers) as (attackers, _):
            attackers.recv()
            time.sleep(min(3.0, seconds / 4))
            beside = self.honest.visits(seconds)
            got = ask(attackers, "end")
        over.set()
        looking.join(10)
        time.sleep(settle)
        most = max(number for number, _ in seen), max(megabytes for _, megabytes in seen)
        logged = self.log.stat().st_size - logged
        return Outcome(what.name, got, before, most, holds(pid), alone, beside, self.honest.failures, logged)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seconds", type=float, default=45, help="of each attack")
    parser.add_argument("--only", nargs="*", default=[""], help="attacks whose name has one of these in it")
    asked = parser.parse_args()
    with public_page() as page:
        print(HEAD)
        for what in attacks(page.numbers):
            if any(word in what.name for word in asked.only):
                found = page.under(what, asked.seconds, SETTLE)
                print(found, flush=True)
                print(f"{found.logged:,} bytes logged", *sorted(set(found.failures))[:3], sep="; ", file=sys.stderr)
        print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
