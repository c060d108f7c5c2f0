"""What one visitor may ask of a public host."""

import asyncio
import json
import types
from collections import Counter
from typing import Any

import pytest
from starlette.testclient import TestClient

from engines import UserError
from explorer.page import guard as page_guard
from explorer.page import sessions
from explorer.page import visitor_limits as page_budget
from explorer.page.guard import Guard
from explorer.page.visitor_limits import DEAR, DEAREST, FREE, Budget
from tests.page.conftest import desk, visitor
from tests.page.test_event_stream import apart

JOIN, CALL, BEAT = "/gradio_api/queue/join", "/gradio_api/run/predict", "/gradio_api/heartbeat/abc"


async def answers(scope: dict[str, Any], receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"yes"})


def client(budget: Budget | None, address: str = "10.0.0.1") -> TestClient:
    return TestClient(Guard(answers, budget=budget), client=(address, 5000))


class Asked:
    """A request of that address under way. arrive: its body comes then; read: its answer is taken then."""

    def __init__(self, guard: Guard, who: str, path: str = CALL, arrive: Any = None, read: Any = None) -> None:
        self.told: list[dict[str, Any]] = []
        self.arrive, self.read = arrive, read
        scope = {"type": "http", "method": "POST" if "abc" not in path and len(path) > 1 else "GET", "path": path}
        scope |= {"query_string": b"", "client": (who, 1), "headers": [(b"host", b"localhost")]}
        self.task = asyncio.create_task(guard(scope, self.receive, self.send))

    async def receive(self) -> dict[str, Any]:
        if self.arrive:
            await self.arrive.wait()
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def send(self, message: dict[str, Any]) -> None:
        if self.read:
            await self.read.wait()
        self.told.append(message)

    @property
    def status(self) -> int:
        return self.told[0]["status"] if self.told else 0


async def settled() -> None:
    """Every task is where it waits for another one."""
    for _ in range(100):
        await asyncio.sleep(0)


async def all_of(asked: list[Asked]) -> None:
    await asyncio.gather(*(one.task for one in asked), return_exceptions=True)


def nothing_is_held(guard: Guard) -> bool:
    budget = guard.budget
    return bool(budget) and not budget._places and not budget._streams


def test_a_bucket_empties_and_fills_again_and_long_answers_cost_a_bounded_price():
    now = [0.0]
    budget = Budget(burst=3, rate=2.0, clock=lambda: now[0])
    assert [budget.call("a") for _ in range(3)] == [0, 0, 0]
    assert budget.call("a") == pytest.approx(0.5)
    assert budget.call("b") == 0, "each address has its own"
    now[0] = 0.5
    assert budget.call("a") == 0 and budget.call("a") > 0
    now[0] = 100
    assert [budget.call("a") for _ in range(4)].count(0) == 3, "it never holds more than a burst"
    now[0] = 0.0
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


def test_a_call_is_charged_for_the_making_of_its_answer_alone(monkeypatch):
    now, charged = [0.0], list[tuple[str, float]]()
    monkeypatch.setattr(page_guard, "time", types.SimpleNamespace(monotonic=lambda: now[0]))

    async def go() -> None:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            await receive()
            now[0] += 1
            await answers(scope, receive, send)

        async def slowly(message: Any = None) -> Any:
            now[0] += 30  # to send and to read
            return {"type": "http.request", "body": b"{}", "more_body": False}

        budget = Budget()
        budget.charge = lambda who, seconds: charged.append((who, seconds))  # type: ignore[method-assign]
        for method, path in (("POST", CALL), ("GET", "/")):
            scope = {"type": "http", "method": method, "path": path, "query_string": b"", "client": ("a", 1)}
            await Guard(app, budget=budget)({**scope, "headers": [(b"host", b"localhost")]}, slowly, slowly)

    apart(go())
    assert charged == [("a", 1), ("a/pages", 1)]


def test_calls_beyond_the_budget_are_told_when_to_go_on_pages_are_counted_apart_and_files_are_not():
    now = [0.0]
    budget = Budget(burst=4, rate=0.5, clock=lambda: now[0])
    one, other = client(budget), client(budget, "10.0.0.2")
    assert [one.post(JOIN).status_code for _ in range(5)] == [200, 200, 200, 200, 429]
    assert one.post(JOIN).text == "Too many requests; retry in 2 s."
    for path in ("/", "/gradio_api/info", "/config/"):
        budget = Budget(burst=9, rate=0.001)
        one, other = client(budget), client(budget, "10.0.0.2")
        assert [one.get(path).status_code for _ in range(4)] == [200, 200, 429, 429]
        assert other.get(path).status_code == 200 == one.post(JOIN).status_code, "a page that is open goes on"
        assert [one.get("/static/a.js").status_code for _ in range(20)] == [200] * 20
        assert [client(None).get(path).status_code for _ in range(20)] == [200] * 20, "at home nothing is counted"


@pytest.mark.parametrize("path", [BEAT, "/live/abc"])
def test_a_few_addresses_keep_nobody_out_of_the_streams(path):
    """Whoever has most loses the oldest, which ends as an answer does, and gets no other in its place."""

    async def go() -> None:
        opened, left = Counter[str](), Counter[str]()

        async def stays(scope: Any, receive: Any, send: Any) -> None:
            who = scope["client"][0]
            opened[who] += 1
            await send({"type": "http.response.start", "status": 200, "headers": []})
            try:
                await asyncio.Event().wait()
            finally:
                left[who] += 1

        guard = Guard(stays, budget=Budget(each=3, total=6))
        asked = []
        for who in ("a", "a", "a", "b", "b", "b", "c", "c", "a"):
            asked.append(Asked(guard, who, path))
            await settled()
        assert opened == {"a": 3, "b": 3, "c": 2} and left == {"a": 1, "b": 1}
        for gone in (asked[0], asked[3]):
            assert gone.told[-1] == {"type": "http.response.body", "body": b"", "more_body": False} and gone.task.done()
        assert asked[-1].status == 429
        for one in asked:
            one.task.cancel()
        await all_of(asked)
        assert left == opened and nothing_is_held(guard)

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
    assert kept.of("a", "one").held == {}
    kept.check_room(len(one) + 10, "one")
    kept.drop("b")
    kept.check_room(len(one) + 10, "three")


def test_a_page_keeps_its_traces_packed_and_unpacks_the_one_that_is_asked_for(traces, monkeypatch):
    unpacked, real = [], sessions.unpacked
    monkeypatch.setattr(sessions, "unpacked", lambda held: unpacked.append(held) or real(held))
    session = sessions.Session({0: traces[0]})
    session.keep(2, traces[1])
    assert sum(map(len, session.held.values())) < sum(len(trace.to_json()) for trace in traces[:2]) / 2
    assert session.trace(2) == traces[1] and session.trace(3) is None and len(unpacked) == 1
    session.opened = {2}
    assert session.take_opened() == {2: traces[1]} and session.take_opened() == {} and len(unpacked) == 2
    assert session.traces == {0: traces[0], 2: traces[1]} and session.traces[0] is not traces[0]
    session.held.pop(2, None)
    assert set(session.held) == {0}


def test_a_public_page_says_that_there_is_no_room(monkeypatch, recorded, traces):
    monkeypatch.setattr(sessions, "OPENED_EACH", 100)
    showing = handlers = desk(recorded, public=True)
    monkeypatch.setattr(handlers.my_runs, "linked", lambda query: ({0: ("a run", traces[1])}, {}, []))
    for answer in (showing.take_in(traces[0].to_json(), visitor()), showing.follow("?run=x", visitor())):
        said = json.loads(answer[1])
        assert said["kind"] == "error" and "as one visitor may have here" in said["text"]
    assert set(handlers.session(visitor()).held) == set(handlers.opening), "what was on view stays"
    monkeypatch.setattr(sessions, "OPENED_EACH", 10**9)
    assert json.loads(showing.follow("?run=x", visitor())[1])["kind"] == "ok"
    assert handlers.session(visitor()).traces == {0: traces[1]}


def test_one_address_is_answered_in_few_places_and_a_slow_one_holds_no_turn_of_another():
    async def go() -> None:
        inside, most = Counter[str](), Counter[str]()
        heavy, slow = asyncio.Event(), asyncio.Event()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            who = scope["client"][0]
            await receive()
            inside[who] += 1
            most[who], most["all"] = max(most[who], inside[who]), max(most["all"], inside.total())
            if who != "slow reader":
                await heavy.wait()
            inside[who] -= 1
            await answers(scope, receive, send)

        guard = Guard(app, budget=Budget(turns_each=2, at_once=3))
        left = [Asked(guard, "slow sender", arrive=slow) for _ in range(5)]
        left += [Asked(guard, "slow reader", read=slow) for _ in range(5)]
        await settled()
        calls = [Asked(guard, "a") for _ in range(10)]
        await settled()
        assert inside["a"] == 2
        others = [Asked(guard, "b") for _ in range(10)]
        await settled()
        assert inside["a"] == 2 and inside["b"] == 1
        ending = Asked(guard, "a", "/gradio_api/cancel")
        await settled()
        assert inside["a"] == 3, "what ends a run does not wait for calls"
        heavy.set()
        await all_of([*calls, *others, ending])
        slow.set()
        await all_of(left)
        assert most["a"] == 3 and most["b"] <= 2 and most["all"] <= 4 and nothing_is_held(guard)

    apart(go())


def test_a_call_whose_turn_does_not_come_is_refused_and_leaves_no_trace(monkeypatch):
    """With two slow senders the last of 250 calls of an address waited for hours, and kept its connection."""
    monkeypatch.setattr(page_budget, "PATIENCE", 0.05)

    async def go() -> None:
        arrive = asyncio.Event()
        guard = Guard(answers, budget=Budget(turns_each=1))
        first, *others = [Asked(guard, "a", arrive=arrive) for _ in range(4)]
        await all_of(others)
        assert [one.status for one in others] == [429] * 3
        arrive.set()
        await first.task
        assert first.status == 200 and nothing_is_held(guard)

    apart(go())


@pytest.mark.parametrize("path", [CALL, "/"])
def test_answers_of_one_address_that_are_not_read_are_few(path):
    """Each is whole in memory until it is read."""

    async def go() -> None:
        made, read = Counter[str](), asyncio.Event()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            made[scope["client"][0]] += 1
            await answers(scope, receive, send)

        guard = Guard(app, budget=Budget(answers_each=3))
        asked = [Asked(guard, who, path, read=read) for who in "a" * 9 + "b"]
        await settled()
        assert made == {"a": 3, "b": 1}
        read.set()
        await all_of(asked)
        assert made == {"a": 9, "b": 1}

    apart(go())
