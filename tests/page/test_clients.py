"""Whose share of a public host a request takes."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from starlette.requests import Request

from explorer.page.clients import Readers, client_of, expect_readers, share
from tests.page.test_event_stream import apart


def asked(peer: str, forwarded: str = "") -> Request:
    headers = [(b"x-forwarded-for", forwarded.encode())] if forwarded else []
    return Request({"type": "http", "headers": headers, "client": (peer, 1)})


def test_without_a_trusted_proxy_only_the_connection_counts(monkeypatch):
    monkeypatch.delenv("SPACE_ID", raising=False)
    monkeypatch.delenv("EXPLORER_TRUSTED_PROXIES", raising=False)
    assert client_of(asked("10.0.0.1", "1.2.3.4")) == "10.0.0.1"


@pytest.mark.parametrize(("count", "name"), [("1", "3.3.3.3"), ("2", "2.2.2.2"), ("9", "1.1.1.1")])
def test_behind_proxies_what_they_wrote_counts(monkeypatch, count, name):
    monkeypatch.setenv("EXPLORER_TRUSTED_PROXIES", count)
    assert client_of(asked("10.0.0.1", "1.1.1.1, 2.2.2.2, 3.3.3.3")) == name
    assert client_of(asked("10.0.0.1")) == "10.0.0.1"


def test_a_space_has_one_proxy(monkeypatch):
    monkeypatch.delenv("EXPLORER_TRUSTED_PROXIES", raising=False)
    monkeypatch.setenv("SPACE_ID", "somebody/space")
    assert client_of(asked("10.0.0.1", "claimed, 2.2.2.2")) == "2.2.2.2"


@pytest.mark.parametrize("value", ["many", "-1", "1.5", "100"])
def test_a_wrong_number_of_proxies_is_named(monkeypatch, value):
    monkeypatch.setenv("EXPLORER_TRUSTED_PROXIES", value)
    with pytest.raises(SystemExit, match="0 to 99"):
        client_of(asked("10.0.0.1", "1.1.1.1"))


def test_one_address_cannot_fill_the_queue(monkeypatch):
    monkeypatch.setenv("EXPLORER_TRUSTED_PROXIES", "0")
    lane = SimpleNamespace(queue=[])

    async def push(body, request, username):
        lane.queue.append(SimpleNamespace(request=request))
        return True, body, "success"

    queue = SimpleNamespace(push=push, event_queue_per_concurrency_id={"model": lane})
    share(queue, 2)

    def ask(peer: str) -> tuple[bool, str, str]:
        try:
            queue.push("event", asked(peer), None).send(None)  # nothing in it waits, so that no loop is needed
        except StopIteration as answer:
            return answer.value
        raise AssertionError("push waited for something")

    assert [ask("a")[0], ask("a")[0], ask("a")[0], ask("b")[0]] == [True, True, False, True]
    assert ask("a")[1:] == (
        "2 of your runs wait already; the next can be started when one of them is done.",
        "queue_full",
    )
    lane.queue.pop(0)
    assert ask("a")[0]


def test_a_run_whose_stream_nobody_opens_frees_its_place():
    readers, ended = Readers(), []

    async def push(body, request, username):
        queue.event_ids_to_events[body] = SimpleNamespace(_id=body, session_hash=f"page of {body}")
        return True, body, "success"

    async def clean_events(event_id):
        ended.append(event_id)

    queue = SimpleNamespace(push=push, clean_events=clean_events, event_ids_to_events={})
    expect_readers(queue, readers, 0.05)

    async def visit():
        for name in ("read", "called", "left"):
            await queue.push(name, None, None)
        readers.begin("page of read")
        readers.begin("called")
        readers.end("called")  # it was read, and is over
        await asyncio.sleep(0.15)

    apart(visit())
    assert ended == ["left"]
    apart(visit())
    assert ended == ["left", "left"]
