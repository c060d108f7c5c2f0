"""Connections that are left alone are closed; those on which something is asked are not."""

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import uvicorn

from explorer.page.guard import Guard
from explorer.page.visitor_limits import SENDING, Connections
from tests.page.test_event_stream import apart, becomes


class Connection(SimpleNamespace):
    __hash__ = object.__hash__
    __eq__ = object.__eq__


def one(address: str = "1.1.1.1", busy: bool = False, fresh: bool = False, scope: Any = None):
    cycle = None if fresh else SimpleNamespace(response_complete=not busy, scope=scope or {})
    return Connection(client=(address, 1), cycle=cycle)


def looked_after(*found, **limits) -> Connections:
    return Connections(SimpleNamespace(server_state=SimpleNamespace(connections=set(found))), **limits)


def test_who_asks_nothing_is_ended_and_the_time_begins_anew_with_each_request(monkeypatch):
    monkeypatch.setenv("EXPLORER_TRUSTED_PROXIES", "0")
    idle, fresh, busy = one(), one(fresh=True), one(busy=True)
    kept = looked_after(idle, fresh, busy, patience=10)
    assert kept.superfluous(0) == [] == kept.superfluous(9)
    idle.cycle.response_complete = False
    assert kept.superfluous(11) == [fresh]
    idle.cycle.response_complete = True
    assert kept.superfluous(20) == [fresh] and set(kept.superfluous(31)) == {idle, fresh}
    unread, read = one(busy=True, scope={SENDING: 2.0}), one(busy=True, scope={SENDING: 9.0})
    kept = looked_after(unread, read, one(busy=True), patience=10)
    assert kept.superfluous(11) == [] and kept.superfluous(13) == [unread], "who takes nothing of an answer"


def test_an_address_has_so_many_and_those_at_work_stay(monkeypatch):
    for count, ended in (("0", 3), ("1", 0)):
        monkeypatch.setenv("EXPLORER_TRUSTED_PROXIES", count)
        idle = [one(f"2001:db8::{n}") for n in range(4)]
        kept = looked_after(*(one("2001:db8::1", busy=True) for _ in range(4)), *idle, each=5)
        kept._idle.update(zip(idle, (4.0, 1.0, 3.0, 2.0), strict=True))
        assert kept.superfluous(5) == [idle[2], idle[3], idle[1]][:ended], "not the one that may be about to ask"


def test_of_too_many_those_go_of_whoever_has_most_that_ask_nothing(monkeypatch):
    """Else a few addresses take all file descriptors, and nobody else gets in."""
    monkeypatch.setenv("EXPLORER_TRUSTED_PROXIES", "1")
    many, few = [[one(who, busy=busy) for _ in range(n)] for who, n, busy in (("a", 6, False), ("b", 2, False))]
    busy = [one("c", busy=True) for _ in range(4)]
    kept = looked_after(*many, *few, *busy, total=8)
    assert set(kept.superfluous(0)) < set(many) and len(kept.superfluous(0)) == 4
    old = many[3]
    kept._idle.update(dict.fromkeys((*many, *few), 5.0) | {old: 1.0})
    assert kept.superfluous(6)[0] is old, "the one that waits longest"
    kept = looked_after(*few, *busy, one("b", busy=True), total=3)
    found = kept.superfluous(0)
    assert set(found[:2]) == set(few) and set(found[2:]) < set(busy) and len(found) == 4


def test_a_host_with_few_files_takes_fewer_connections_and_says_so(monkeypatch, caplog):
    monkeypatch.setattr("explorer.page.visitor_limits.descriptors", lambda: 1000)
    kept = looked_after(total=2000)
    kept.server.should_exit = True
    kept.watch()
    assert kept.total == 400 and "let it open 4200 (ulimit -n)" in caplog.text


@pytest.mark.server
@pytest.mark.parametrize("size", [50_000, 20_000_000])
def test_an_answer_that_nobody_reads_gives_its_memory_and_its_descriptor_back(size):
    """A transport closes behind the last byte only, so that whoever never reads kept both for ever."""

    async def app(scope, receive, send):
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            for _ in range(20_000_000 // size):
                await send({"type": "http.response.body", "body": b"x" * size, "more_body": True})
            await send({"type": "http.response.body", "body": b""})

    with serving(Guard(app)) as (server, port), socket.socket() as unread, socket.socket() as other:
        for one in (unread, other):
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            one.connect(("127.0.0.1", port))
            one.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert len(whole_answer(other)) > 20_000_000, "who reads gets everything"
        Connections(server, patience=0.5, pause=0.05).watch()
        apart(becomes(lambda: not server.server_state.connections))


def whole_answer(connection: socket.socket) -> bytes:
    heard = bytearray()
    while more := connection.recv(1 << 16):
        heard += more
    return bytes(heard)  # the other side has closed


@contextmanager
def serving(app: Any) -> Iterator[tuple[uvicorn.Server, int]]:
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_keep_alive=60, lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    try:
        yield server, listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(20)


@pytest.mark.server
def test_a_server_closes_what_is_left_alone_and_goes_on_with_what_is_read():
    async def app(scope, receive, send):
        if scope["type"] != "http":
            return
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await asyncio.sleep(2 if scope["path"] == "/slow" else 0)
        await send({"type": "http.response.body", "body": b"the end"})

    with serving(app) as (server, port):
        ask = b"GET /%s HTTP/1.1\r\nHost: localhost\r\n\r\n"
        sent = {"silent": b"", "half": (ask % b"fast")[:-2], "fast": ask % b"fast", "slow": ask % b"slow"}
        found = {name: socket.create_connection(("127.0.0.1", port), timeout=20) for name in sent}
        for name, text in sent.items():
            found[name].sendall(text)
        Connections(server, patience=0.5, pause=0.1).watch()
        answers = {name: whole_answer(connection) for name, connection in found.items()}
        assert answers["silent"] == b"" == answers["half"]
        assert b"the end" in answers["fast"] and b"the end" in answers["slow"]
        for connection in found.values():
            connection.close()
