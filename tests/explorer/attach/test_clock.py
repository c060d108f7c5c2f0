"""One clock over all that a server may do, Stop within a moment, and bounds that lose nothing that arrived."""

import json
import threading
import time
import tracemalloc
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from engines import UserError
from explorer.attach import Attached, attach
from explorer.attach import client as client_module
from explorer.attach import session as session_module
from explorer.attach.client import events
from explorer.importers import build
from explorer.page import feed as feed_module
from explorer.page.feed import Feed
from explorer.page.sessions import Job
from tests.explorer.attach.servers import Scripted, piece, silent, stream

LATER = 100.0  # seconds by which the clock is put forward


@pytest.fixture
def later(monkeypatch):
    """Puts the clock of whoever asks forward: what a test would wait for is over at once."""
    skipped = [0.0]
    clock = SimpleNamespace(perf_counter=lambda: time.perf_counter() + skipped[0])
    monkeypatch.setattr(client_module, "time", clock)
    return lambda: skipped.__setitem__(0, LATER)


class Dribble:
    """A reply that sends `first`, then `again` over and over; after the third time it calls `later`. `left`: whoever
    asked has hung up while it went on."""

    def __init__(self, first: bytes, again: bytes, later) -> None:
        self.first, self.again, self.later, self.left = first, again, later, threading.Event()

    def __call__(self, handler):
        try:
            handler.wfile.write(self.first)
            for number in range(2000):  # a test is over long before
                handler.wfile.write(self.again)
                handler.wfile.flush()
                if number == 2:
                    self.later()
                time.sleep(0.02)
        except OSError:
            self.left.set()
            raise


OK = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
JSON = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 999999\r\n\r\n"
ERROR = b"HTTP/1.1 500 No\r\ncontent-length: 999999\r\n\r\n"
EVENT = OK + f"data: {json.dumps(piece('a'))}\n\n".encode()
DRIBBLES = {
    "headers": (b"HTTP/1.1 200 OK\r\n", b"x: y\r\n"),
    "bytes of an event": (OK + b"data: ", b"x"),
    "bytes of a whole answer": (JSON, b" "),
    "an error page": (ERROR, b"x"),
}


@pytest.mark.parametrize("name", DRIBBLES)
def test_no_dribble_outlasts_the_clock(name, later):
    reply = Dribble(*DRIBBLES[name], later)
    with Scripted(reply) as server, pytest.raises(UserError, match=r"in time|closed|sent nothing") as caught:
        attach(server.url, prompt="Hello", max_seconds=LATER / 2)
    assert reply.left.wait(20) and "\n" not in str(caught.value)


def wait_for(state) -> bool:
    """Whether a state is reached within twenty seconds."""
    until = time.monotonic() + 20
    while not state() and time.monotonic() < until:
        time.sleep(0.01)
    return bool(state())


@pytest.mark.parametrize("first", [b"", OK, EVENT])
def test_stop_hangs_up_while_the_server_is_silent(first):
    gone, asked = threading.Event(), threading.Event()

    def reply(handler):
        handler.wfile.write(first)
        handler.wfile.flush()
        asked.set()
        gone.set() if not handler.rfile.read(1) else None  # nothing more is sent: it reads the end of the connection

    stop = threading.Event()
    with Scripted(reply) as server:
        run = Attached(server.url, prompt="Hello", patience=600, stop=stop.is_set)
        steps = []
        reader = threading.Thread(target=lambda: steps.extend(run), daemon=True)
        reader.start()
        assert asked.wait(20)
        assert b"data" not in first or wait_for(lambda: run._output)
        stop.set()
        reader.join(20)
        assert not reader.is_alive() and gone.wait(20)
        run.close()
    assert run.trace().end.reason == "stopped" and run.trace().end.message == ""
    assert len(steps) == (b"data" in first)


def test_a_server_that_is_silent_holds_no_model():
    asked = threading.Event()

    def reply(handler):
        asked.set()
        silent(handler)

    job = Job()
    feed = Feed(job, 0, "a server")
    with Scripted(reply) as server:
        ask = lambda: Attached(server.url, prompt="Hello", patience=600, stop=feed.over)  # noqa: E731
        playing = feed.play(ask, "a server", lock=nullcontext())
        reader = threading.Thread(target=lambda: list(playing), daemon=True)
        reader.start()
        assert asked.wait(20)
        assert feed_module.MODEL_LOCK.acquire(timeout=20)
        feed_module.MODEL_LOCK.release()
        job.end()
        reader.join(20)
        assert not reader.is_alive() and feed.failure == ""


@pytest.mark.parametrize("chunk", [1, 65536])
def test_an_event_is_bounded_however_it_is_cut_and_values_are_counted_before_they_are_made(monkeypatch, chunk):
    monkeypatch.setattr(client_module, "MAX_EVENT", 2**16)
    monkeypatch.setattr(client_module, "MAX_VALUES", 1000)
    sent = b"data: 1\n\n" + b"data:\n" * 2**20
    tracemalloc.start()
    found = events(sent[i : i + chunk] for i in range(0, len(sent), chunk))
    assert next(found)[1] == "1"
    with pytest.raises(UserError, match="an event of more than"):
        next(found)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 40 * client_module.MAX_EVENT  # what each line, and each chunk of one byte, takes beside its bytes
    with Scripted(stream(piece("a"), {"choices": [[]] * 2000})) as server:
        trace = attach(server.url, prompt="Hello")
    assert trace.text == "a" and "more than 1,000 values" in trace.end.message


@pytest.mark.parametrize(
    ("module", "name", "said"),
    [
        (session_module, "MOST", "arrivals"),
        (build, "MAX_TOKENS", "tokens"),
        (build, "MAX_PIECES", "different tokens"),
        (client_module, "MAX_ANSWER", "MB"),
    ],
)
def test_a_server_that_ignores_its_limits_loses_nothing_that_arrived(monkeypatch, module, name, said):
    monkeypatch.setattr(module, name, 40 if name != "MAX_ANSWER" else 2000)
    with Scripted(stream(*(piece(f" {i}") for i in range(100)))) as server:
        trace = attach(server.url, prompt="Hello", max_tokens=4)
    assert said in trace.end.message and trace.end.reason in ("budget", "failed")
    assert 20 <= len(trace.steps) <= 41
    assert trace.text == " ".join(str(i) for i in range(len(trace.steps)))
