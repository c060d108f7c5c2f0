"""Whose share of a public host a request takes."""

import asyncio
from types import SimpleNamespace

import pytest
from gradio.utils import LRUCache
from starlette.requests import Request

from explorer.page.visitor_address import Readers, client_of, has_call, look_after, network
from tests.page.test_event_stream import apart, becomes


def asked(peer: str, *forwarded: str) -> Request:
    headers = [(b"x-forwarded-for", line.encode()) for line in forwarded]
    return Request({"type": "http", "headers": headers, "client": (peer, 1)})


@pytest.mark.parametrize(
    ("variable", "value", "lines", "name"),
    [
        ("EXPLORER_MAX_STEPS", "7", ["1.2.3.4"], "10.0.0.1"),  # no proxy is trusted: the connection alone counts
        ("SPACE_ID", "somebody/space", ["claimed, 2.2.2.2"], "2.2.2.2"),  # a Space has one
        ("EXPLORER_TRUSTED_PROXIES", "1", ["1.1.1.1, 2.2.2.2, 3.3.3.3"], "3.3.3.3"),
        ("EXPLORER_TRUSTED_PROXIES", "2", ["1.1.1.1, 2.2.2.2, 3.3.3.3"], "2.2.2.2"),
        ("EXPLORER_TRUSTED_PROXIES", "9", ["1.1.1.1, 2.2.2.2, 3.3.3.3"], "1.1.1.1"),
        ("EXPLORER_TRUSTED_PROXIES", "1", [], "10.0.0.1"),
        ("EXPLORER_TRUSTED_PROXIES", "1", ["1.1.1.1, 9.9.9.9", "", "2.2.2.2"], "2.2.2.2"),
        ("EXPLORER_TRUSTED_PROXIES", "1", ["2001:db8::12"], "2001:db8::/64"),
    ],
)
def test_behind_proxies_what_they_wrote_counts(monkeypatch, variable, value, lines, name):
    for known in ("SPACE_ID", "EXPLORER_TRUSTED_PROXIES"):
        monkeypatch.delenv(known, raising=False)
    monkeypatch.setenv(variable, value)
    assert client_of(asked("10.0.0.1", *lines)) == name


def test_a_household_is_one_visitor_and_a_wrong_number_of_proxies_is_named(monkeypatch):
    for address in ("1.2.3.4", "1.2.3.4:5678", "::ffff:1.2.3.4"):
        assert network(address) == "1.2.3.4"
    for address in ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::9", "[2001:db8:1:2::9]:443"):
        assert network(address) == "2001:db8:1:2::/64"
    assert network("fe80::1%eth0") == "fe80::/64" and network("x" * 5000) == "x" * 64
    assert [network(odd) for odd in ("unknown", "[", "")] == ["unknown", "[", ""]
    for value in ("many", "-1", "1.5", "100"):
        monkeypatch.setenv("EXPLORER_TRUSTED_PROXIES", value)
        with pytest.raises(SystemExit, match="0 to 99"):
            client_of(asked("10.0.0.1", "1.1.1.1"))


def test_one_address_cannot_fill_the_queue(monkeypatch):
    monkeypatch.setenv("EXPLORER_TRUSTED_PROXIES", "0")
    queue = kept_queue()
    look_after(queue, Readers(), 2)

    async def visit():
        async def ask(peer: str) -> tuple[bool, str, str]:
            return await queue.push(event("event", "session"), asked(peer), None)

        assert [(await ask(who))[0] for who in "aaab"] == [True, True, False, True]
        assert (await ask("a"))[1].startswith("2 of your runs wait already") and (await ask("a"))[2] == "queue_full"
        queue.event_queue_per_concurrency_id["model"].queue.pop(0)
        assert (await ask("a"))[0]

    apart(visit())


def test_what_the_page_calls_beside_the_queue_is_not_queued():
    queue = kept_queue()
    look_after(queue, Readers())

    async def ask(number):
        return (await queue.push(event("an id", "session", number), asked("a"), None))[::2]

    async def visit():
        assert await ask(1) == await ask(99) == (True, "success")
        assert await ask(2) == (False, "error")

    apart(visit())


def event(name, session, number=1):
    return SimpleNamespace(name=name, session_hash=session, fn_index=number)


def kept_queue(messages=()):
    """A queue as Gradio's: it notes who called, an event's name and its session, and whose calls it ended. Handler 1 is
    queued, 2 is not."""
    ended, lane = [], SimpleNamespace(queue=[])

    async def push(body, request, username):
        name, session = body.name, body.session_hash
        queue.event_ids_to_events[name] = SimpleNamespace(_id=name, session_hash=session)
        queue.pending_event_ids_session.setdefault(session, set()).add(name)
        queue.pending_messages_per_session[session] = []
        lane.queue.append(SimpleNamespace(request=request))
        return True, name, "success"

    async def clean_events(event_id):
        ended.append(event_id)
        queue.event_ids_to_events.pop(event_id, None)

    queue = SimpleNamespace(push=push, clean_events=clean_events, event_ids_to_events={}, ended=ended)
    queue.pending_event_ids_session, queue.pending_messages_per_session = {}, messages
    queue.blocks = SimpleNamespace(fns={1: SimpleNamespace(queue=True), 2: SimpleNamespace(queue=False)})
    queue.event_queue_per_concurrency_id = {"model": lane}
    return queue


def test_a_run_whose_stream_nobody_opens_frees_its_place():
    queue, readers = kept_queue(), Readers()
    look_after(queue, readers, patience=0.05)

    async def visit():
        for name in ("read", "called", "left"):
            await queue.push(event(name, f"page of {name}"), asked(name), None)
        with readers.reading("called"):
            pass  # it was read, and is over
        with readers.reading("page of read"):
            await becomes(lambda: queue.ended)
            await asyncio.sleep(0.1)

    apart(visit())
    assert queue.ended == ["left"]


def test_nothing_is_kept_of_callers_who_have_gone():
    """Gradio keeps a set for each that ever called, so one address could fill the memory, and the messages of 2,000
    callers, so that newcomers would end the run of whoever came first."""
    queue, readers = kept_queue(LRUCache(2)), Readers()
    look_after(queue, readers, patience=0.02)

    async def visit():
        for name in ("done", "left", "runs", "read", "first", "second"):
            session = "twice" if name in ("first", "second") else f"page of {name}"
            await queue.push(event(name, session), asked(name), None)
        for name in ("done", "first"):  # the messages of the first were fetched
            queue.event_ids_to_events.pop(name)
        queue.pending_event_ids_session["twice"].remove("first")
        assert len(queue.pending_messages_per_session) == 5, "none was put out by a newcomer"
        assert has_call(queue, "done") and has_call(queue, "page of done") and not has_call(queue, "nobody")
        left = ["page of read", "page of runs", "twice"]
        with readers.reading("runs"), readers.reading("page of read"), readers.reading("second"):
            await becomes(lambda: sorted(queue.pending_messages_per_session) == left)
        queue.event_ids_to_events.clear()
        await becomes(lambda: queue.pending_event_ids_session == queue.pending_messages_per_session == {})

    apart(visit())
