"""What one visitor may ask of a public host."""

from __future__ import annotations

import asyncio
import json
import types
from collections import Counter
from typing import Any

import pytest
from starlette.testclient import TestClient

from engines import UserError
from explorer.page import budget as page_budget
from explorer.page import sessions
from explorer.page.budget import DEAR, DEAREST, FREE, Budget
from explorer.page.catalogue import Catalogue
from explorer.page.guard import Guard
from explorer.page.handlers import Handlers
from explorer.page.limits import Limits
from explorer.runs.gallery import Gallery
from tests.page.test_event_stream import apart


async def answers(scope: dict[str, Any], receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"yes"})


def client(budget: Budget | None, address: str = "10.0.0.1") -> TestClient:
    return TestClient(Guard(answers, budget=budget), client=(address, 5000))


def test_a_bucket_empties_and_fills_again():
    now = [0.0]
    budget = Budget(burst=3, rate=2.0, clock=lambda: now[0])
    assert [budget.call("a") for _ in range(3)] == [0, 0, 0]
    assert budget.call("a") == pytest.approx(0.5)
    assert budget.call("b") == 0, "each address has its own"
    now[0] = 0.5
    assert budget.call("a") == 0 and budget.call("a") > 0
    now[0] = 100
    assert [budget.call("a") for _ in range(4)].count(0) == 3, "it never holds more than a burst"


def test_long_answers_cost_more_calls_and_a_bounded_price():
    now = [0.0]
    budget = Budget(burst=100, rate=2.0, clock=lambda: now[0])
    for seconds in (0.0, FREE, FREE / 2):
        budget.charge("a", seconds)
    assert budget.call("a", 100) == 0, "short ones are free"
    budget.charge("b", FREE + 0.5)
    assert budget.call("b", 100) == pytest.approx(0.5 * DEAR / 2)
    now[0] = 100
    for _ in range(3):
        budget.charge("c", 1e6)  # whoever is held up by others is not shut out
    assert budget.call("c", int(100 - 3 * DEAREST)) == 0
    for _ in range(9):
        budget.charge("c", 1e6)
    assert budget.call("c") == pytest.approx(0.5), "nobody owes anything"


def test_a_call_is_charged_for_the_making_of_its_answer_alone():
    async def go() -> None:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            await receive()
            await asyncio.sleep(0.01)
            await answers(scope, receive, send)

        charged = list[tuple[str, float]]()
        budget = Budget()
        budget.charge = lambda who, seconds: charged.append((who, seconds))  # type: ignore[method-assign]
        guard = Guard(app, budget=budget)

        async def slowly(message: Any = None) -> Any:
            await asyncio.sleep(0.3)
            return {"type": "http.request", "body": b"{}", "more_body": False}

        for method, path in (("POST", "/gradio_api/run/predict"), ("GET", "/")):
            scope = {"type": "http", "method": method, "path": path, "query_string": b"", "client": ("a", 1)}
            await guard({**scope, "headers": [(b"host", b"localhost")]}, slowly, slowly)
        assert [who for who, _ in charged] == ["a", "a/pages"]
        assert all(0.01 <= seconds < 0.3 for _, seconds in charged)

    apart(go())


def test_calls_beyond_the_budget_are_told_when_to_go_on_and_nobody_else_is_held_up():
    budget = Budget(burst=4, rate=0.5)
    one, other = client(budget), client(budget, "10.0.0.2")
    path = "/gradio_api/queue/join"
    assert [one.post(path).status_code for _ in range(5)] == [200, 200, 200, 200, 429]
    assert one.post(path).text == "Too many requests; retry in 2 s."
    assert other.post(path).status_code == 200
    assert one.get("/").status_code == 200, "the page itself is read"
    assert [client(None).post(path).status_code for _ in range(5)] == [200] * 5, "at home nothing is counted"


@pytest.mark.parametrize("path", ["/", "/config", "/gradio_api/info", "/config/"])
def test_pages_are_counted_by_themselves_and_what_is_a_file_is_not(path):
    budget = Budget(burst=9, rate=0.001)
    one, other = client(budget), client(budget, "10.0.0.2")
    assert [one.get(path).status_code for _ in range(4)] == [200, 200, 429, 429]
    assert other.get(path).status_code == 200
    assert one.post("/gradio_api/queue/join").status_code == 200, "a page that is open goes on"
    assert [one.get("/static/a.js").status_code for _ in range(20)] == [200] * 20
    assert [client(None).get(path).status_code for _ in range(20)] == [200] * 20, "at home nothing is counted"


def test_pages_too_are_composed_a_few_at_a_time():
    async def go() -> None:
        inside, go_on = Counter[str](), asyncio.Event()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            inside[scope["client"][0]] += 1
            await go_on.wait()
            await answers(scope, receive, send)

        guard = Guard(app, budget=Budget(turns_each=2, turns=3))

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            pass

        scope = {
            "type": "http",
            "method": "GET",
            "path": "/",
            "query_string": b"",
            "headers": [(b"host", b"localhost")],
        }
        tasks = [asyncio.create_task(guard({**scope, "client": (who, 1)}, receive, send)) for who in "a" * 9 + "b" * 9]
        await asyncio.sleep(0.01)
        assert inside == {"a": 2, "b": 1}
        go_on.set()
        await asyncio.gather(*tasks)
        assert inside == {"a": 9, "b": 9}

    apart(go())


@pytest.mark.parametrize("path", ["/gradio_api/heartbeat/abc", "/live/abc"])
def test_streams_left_open_are_bounded_and_give_their_place_back(path):
    async def go() -> None:
        release, opened = asyncio.Event(), []

        async def stays(scope: Any, receive: Any, send: Any) -> None:
            opened.append(scope["client"][0])
            await release.wait()
            await answers(scope, receive, send)

        guard = Guard(stays, budget=Budget(each=2, total=3))

        def ask(address: str) -> tuple[asyncio.Task[None], list[Any]]:
            said: list[Any] = []
            scope = {
                "type": "http",
                "method": "GET",
                "path": path,
                "query_string": b"",
                "client": (address, 1),
                "headers": [(b"host", b"localhost")],
            }

            async def receive() -> dict[str, Any]:
                return {"type": "http.request", "body": b""}

            async def send(message: Any) -> None:
                said.append(message)

            return asyncio.create_task(guard(scope, receive, send)), said

        asked = [ask(address) for address in ("a", "b", "a", "a", "b", "b")]
        await asyncio.sleep(0.01)
        assert opened == ["a", "b", "a"], "nobody has two more than b"
        assert [said[0]["status"] for _, said in asked if said] == [429, 429, 429]
        release.set()
        await asyncio.gather(*(task for task, _ in asked))
        await asyncio.gather(ask("a")[0], ask("c")[0])
        assert opened[3:] == ["a", "c"]
        assert guard.budget and not guard.budget._open

    apart(go())


def test_a_few_addresses_keep_nobody_out_of_the_streams():
    """Whoever has most loses the oldest, which ends as an answer does, and gets no other in its place."""

    async def go() -> None:
        opened, left = Counter[str](), Counter[str]()

        async def stays(scope: Any, receive: Any, send: Any) -> None:
            who = scope["client"][0]
            opened[who] += 1
            await send({"type": "http.response.start", "status": 200, "headers": []})
            try:
                await asyncio.sleep(60)
            finally:
                left[who] += 1

        guard, told = Guard(stays, budget=Budget(each=3, total=6)), dict[int, list[Any]]()

        def ask(who: str) -> asyncio.Task[None]:
            said = told[len(told)] = []

            async def send(message: Any) -> None:
                said.append(message)

            async def receive() -> dict[str, Any]:
                return {"type": "http.request", "body": b""}

            scope = {"type": "http", "method": "GET", "path": "/gradio_api/heartbeat/abc", "query_string": b""}
            scope |= {"client": (who, 1), "headers": [(b"host", b"localhost")]}
            return asyncio.create_task(guard(scope, receive, send))

        tasks = [ask(who) for who in ("a", "a", "a", "b", "b", "b", "c", "c", "a")]
        await asyncio.sleep(0.05)
        assert opened == {"a": 3, "b": 3, "c": 2} and left == {"a": 1, "b": 1}
        assert told[0][-1] == told[3][-1] == {"type": "http.response.body", "body": b"", "more_body": False}
        assert tasks[0].done() and tasks[3].done() and told[8][0]["status"] == 429
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert left == opened and guard.budget and not guard.budget._open

    apart(go())


def test_opened_traces_are_bounded_for_a_visitor_and_for_all(traces, monkeypatch):
    one, other = sessions.packed(traces[0]), sessions.packed(traces[1])
    monkeypatch.setattr(sessions, "OPENED_EACH", len(one) + 10)
    monkeypatch.setattr(sessions, "OPENED", len(one) + len(other) + 10)
    kept = sessions.Sessions({})
    for page, client, held in (("a", "one", one), ("b", "two", other)):
        kept.check_room(len(held), client)
        kept.of(page, client).keep(0, held)
    with pytest.raises(UserError, match="one visitor"):
        kept.check_room(11, "one")
    with pytest.raises(UserError, match="this host"):
        kept.check_room(11, "three")
    kept.check_room(10, "three")
    kept.of("a", "one").show({})  # nothing is shown there now
    assert kept.of("a", "one").size == 0
    kept.check_room(len(one) + 10, "one")
    kept.drop("b")
    kept.check_room(len(one) + 10, "three")


def test_a_page_keeps_its_traces_packed_and_reads_them_as_they_were(traces):
    session = sessions.Session({0: traces[0]})
    session.keep(2, traces[1])
    session.opened = {2}
    assert session.traces == {0: traces[0], 2: traces[1]} and session.traces[0] is not traces[0]
    assert session.size < sum(len(trace.to_json()) for trace in traces[:2]) / 2
    assert session.take_opened() == {2: traces[1]} and session.take_opened() == {}
    session.forget(2)
    assert session.slots == {0}


def test_a_public_page_says_that_there_is_no_room(monkeypatch, recorded, traces):
    monkeypatch.setattr(sessions, "OPENED_EACH", 100)
    handlers = Handlers(Gallery(recorded), Catalogue.read(True), Limits(1000, 100, 60, True))
    request = types.SimpleNamespace(session_hash="a", client=None, headers={})
    linked = {0: ("a run", traces[1])}
    monkeypatch.setattr(handlers.my_runs, "linked", lambda query: (linked, {}, []))
    for answer in (handlers.showing.take_in(traces[0].to_json(), request), handlers.showing.follow("?run=x", request)):
        said = json.loads(answer[1])
        assert said["kind"] == "error" and "as one visitor may have here" in said["text"]
    assert handlers.session(request).slots == set(handlers.opening), "what was on view stays"
    monkeypatch.setattr(sessions, "OPENED_EACH", 10**9)
    assert json.loads(handlers.showing.follow("?run=x", request)[1])["kind"] == "ok"
    assert handlers.session(request).traces == {0: traces[1]}


def test_only_the_trace_that_is_asked_for_is_unpacked(monkeypatch, traces):
    session, unpacked = sessions.Session(dict(enumerate(traces[:2]))), []
    real = sessions.unpacked
    monkeypatch.setattr(sessions, "unpacked", lambda held: unpacked.append(held) or real(held))
    assert session.trace(1) == traces[1] and session.trace(3) is None
    session.opened = {0}
    assert session.take_opened() == {0: traces[0]} and len(unpacked) == 2


def test_one_address_is_answered_in_few_places_and_a_slow_one_holds_no_turn_of_another():
    async def go() -> None:
        inside, most = Counter[str](), Counter[str]()
        heavy, read = asyncio.Event(), asyncio.Event()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            who = scope["client"][0]
            await receive()
            inside[who] += 1
            most[who], most["all"] = max(most[who], inside[who]), max(most["all"], inside.total())
            if who != "slow reader":
                await heavy.wait()
            inside[who] -= 1
            await answers(scope, receive, send)

        guard = Guard(app, budget=Budget(turns_each=2, turns=3))

        def ask(who: str, path: str = "/gradio_api/run/predict") -> asyncio.Task[None]:
            async def receive() -> dict[str, Any]:
                if who == "slow sender":
                    await read.wait()
                return {"type": "http.request", "body": b"{}", "more_body": False}

            async def send(message: Any) -> None:
                if who == "slow reader":
                    await read.wait()

            scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "client": (who, 1)}
            return asyncio.create_task(guard({**scope, "headers": [(b"host", b"localhost")]}, receive, send))

        left = [ask(who) for who in ("slow sender", "slow reader") for _ in range(5)]
        await asyncio.sleep(0.01)
        calls = [ask("a") for _ in range(10)]
        await asyncio.sleep(0.01)
        assert inside["a"] == 2
        others = [ask("b") for _ in range(10)]
        await asyncio.sleep(0.01)
        assert inside["a"] == 2 and inside["b"] == 1
        assert not ask("a", "/gradio_api/cancel").done()
        await asyncio.sleep(0.01)
        assert inside["a"] == 3, "what ends a run does not wait for calls"
        heavy.set()
        await asyncio.gather(*calls, *others)
        read.set()
        await asyncio.gather(*left)
        assert most["a"] == 3 and most["b"] <= 2 and most["all"] <= 4
        assert guard.budget and not guard.budget._own and not guard.budget._asking

    apart(go())


def test_a_call_whose_turn_does_not_come_is_refused_and_leaves_no_trace(monkeypatch):
    """With two slow senders the last of 250 calls of an address waited for hours, and kept its connection."""
    monkeypatch.setattr(page_budget, "PATIENCE", 0.05)

    async def go() -> None:
        arrive = asyncio.Event()
        guard = Guard(answers, budget=Budget(turns_each=1))

        def ask() -> tuple[asyncio.Task[None], list[Any]]:
            said: list[Any] = []

            async def receive() -> dict[str, Any]:
                await arrive.wait()
                return {"type": "http.request", "body": b"{}", "more_body": False}

            async def send(message: Any) -> None:
                said.append(message)

            scope = {"type": "http", "method": "POST", "path": "/gradio_api/run/predict", "query_string": b""}
            scope |= {"client": ("a", 1), "headers": [(b"host", b"localhost")]}
            return asyncio.create_task(guard(scope, receive, send)), said

        asked = [ask() for _ in range(4)]
        await asyncio.gather(*(task for task, _ in asked[1:]))
        assert [said[0]["status"] for _, said in asked[1:]] == [429] * 3
        arrive.set()
        await asked[0][0]
        assert asked[0][1][0]["status"] == 200
        assert guard.budget and not guard.budget._own and not guard.budget._asking

    apart(go())


def test_answers_of_one_address_that_are_not_read_are_few():
    """Each is whole in memory until it is read."""

    async def go() -> None:
        made, read = Counter[str](), asyncio.Event()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            made[scope["client"][0]] += 1
            await answers(scope, receive, send)

        guard = Guard(app, budget=Budget(answers_each=3))

        def ask(who: str) -> asyncio.Task[None]:
            async def receive() -> dict[str, Any]:
                return {"type": "http.request", "body": b"{}", "more_body": False}

            async def send(message: Any) -> None:
                await read.wait()

            scope = {"type": "http", "method": "POST", "path": "/gradio_api/run/predict", "query_string": b""}
            return asyncio.create_task(
                guard({**scope, "client": (who, 1), "headers": [(b"host", b"localhost")]}, receive, send)
            )

        tasks = [ask(who) for who in "a" * 9 + "b"]
        await asyncio.sleep(0.05)
        assert made == {"a": 3, "b": 1}
        read.set()
        await asyncio.gather(*tasks)
        assert made == {"a": 9, "b": 1}

    apart(go())
