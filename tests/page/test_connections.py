"""Connections that are left alone are closed; those on which something is asked are not."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from types import SimpleNamespace

import pytest
import uvicorn

from explorer.page.connections import Connections


def one(address: str = "1.1.1.1", busy: bool = False, fresh: bool = False):
    cycle = None if fresh else SimpleNamespace(response_complete=not busy)

    class Connection(SimpleNamespace):
        __hash__ = object.__hash__
        __eq__ = object.__eq__

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


@pytest.mark.parametrize(("count", "ended"), [("0", 3), ("1", 0)])
def test_an_address_has_so_many_and_those_at_work_stay(monkeypatch, count, ended):
    monkeypatch.setenv("EXPLORER_TRUSTED_PROXIES", count)
    busy = [one("2001:db8::1", busy=True) for _ in range(4)]
    idle = [one(f"2001:db8::{n}") for n in range(4)]
    kept = looked_after(*busy, *idle, one("1.1.1.1"), each=5)
    found = kept.superfluous(0)
    assert len(found) == ended and all(connection in idle for connection in found)


def test_a_server_closes_what_is_left_alone_and_goes_on_with_what_is_read():
    async def app(scope, receive, send):
        if scope["type"] != "http":
            return
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await asyncio.sleep(2 if scope["path"] == "/slow" else 0)
        await send({"type": "http.response.body", "body": b"the end"})

    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_keep_alive=60))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    Connections(server, patience=0.5, pause=0.1).watch()
    ask = b"GET /%s HTTP/1.1\r\nHost: localhost\r\n\r\n"
    sent = {"silent": b"", "half": (ask % b"fast")[:-2], "fast": ask % b"fast", "slow": ask % b"slow"}
    try:
        found = {name: socket.create_connection(("127.0.0.1", port), timeout=20) for name in sent}
        for name, text in sent.items():
            found[name].sendall(text)

        def said(connection: socket.socket) -> bytes:
            heard = b""
            while more := connection.recv(1000):
                heard += more
            return heard  # the other side has closed

        answers = {name: said(connection) for name, connection in found.items()}
        assert answers["silent"] == b"" == answers["half"]
        assert b"the end" in answers["fast"] and b"the end" in answers["slow"]
    finally:
        for connection in found.values():
            connection.close()
        server.should_exit = True
        thread.join(20)
