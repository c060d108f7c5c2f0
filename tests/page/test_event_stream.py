"""The stream of a live run: what is read there, what goes Gradio's way instead, and that the page orders both."""

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from playwright.sync_api import expect

from explorer.page import event_stream
from explorer.page.catalogue import Form
from explorer.page.event_stream import READERS, STREAMS, EventStream, EventStreams
from explorer.page.feed import Feed
from explorer.page.run_limits import Limits
from explorer.page.sessions import Job
from tests.page.conftest import PROMPT, first_model, methods_of, soon

LIMITS = Limits(1000, 100, 60, False)
END = "event: end\ndata:\n\n"


def event(number: int) -> str:
    return f"id: {number}\ndata: m{number}\n\n"


def apart(scene: Any) -> Any:
    """The result of a coroutine in a thread of its own: the browser's tests keep an event loop in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, scene).result()


async def becomes(state: Callable[[], Any]) -> None:
    """Waits until it is true."""
    async with asyncio.timeout(60):
        while not state():
            await asyncio.sleep(0.01)


def test_without_a_reader_everything_goes_another_way_and_a_late_reader_gets_all() -> None:
    async def scene(stream: EventStream) -> None:
        assert stream.put(1, "m1") == ["m1"] and stream.put(2, "m2") == ["m2"]
        assert await anext(stream.read(1)) == event(2), "who comes back goes on behind what it has"
        lines = stream.read(0)
        assert [await anext(lines), await anext(lines)] == [event(1), event(2)]
        assert stream.put(3, "m3") == []
        assert await anext(lines) == event(3)
        assert stream.close() == []
        assert [line async for line in lines] == [END]

    apart(scene(EventStream()))


def test_what_a_reader_that_left_was_not_given_goes_another_way_in_order() -> None:
    async def scene(stream: EventStream) -> None:
        stream.put(1, "m1")
        lines = stream.read(0)
        assert await anext(lines) == event(1)
        assert stream.put(2, "m2") == stream.put(3, "m3") == []
        await lines.aclose()  # type: ignore[attr-defined]
        assert stream.put(4, "m4") == ["m2", "m3", "m4"] and stream.put(5, "m5") == ["m5"]
        assert stream.close() == []

    apart(scene(EventStream()))


def test_closing_returns_what_nobody_was_given_and_ends_a_reader_that_waits() -> None:
    async def scene(stream: EventStream) -> None:
        lines = stream.read(0)
        waiting = asyncio.ensure_future(anext(lines))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        assert await asyncio.to_thread(stream.put, 2, "m2") == []  # from another thread, as a run does
        assert await asyncio.wait_for(waiting, 5) == event(2)
        stream.put(3, "m3")
        assert stream.close() == ["m3"], "it may be lost with the reader; the page knows it by its number if both come"
        assert [line async for line in lines] == [event(3), END]

    apart(scene(EventStream()))


def test_the_address_answers_for_open_streams_only(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "OPEN", 3)
    known = EventStreams()
    names = [known.open().name for _ in range(5)]
    assert len(set(names)) == 5 and all(len(name) >= 20 for name in names) and list(known._streams) == names[2:]
    stream = STREAMS.open()
    stream.put(1, "m1")
    stream.put(2, "m2")
    for name in ("nothing", stream.name[:-1]):
        assert httpx.get(f"{address}live/{name}").status_code == 204
    for name in ("%00", "<b>"):  # no name that a page could give itself
        assert httpx.get(f"{address}live/{name}").status_code == 404
    assert httpx.post(f"{address}live/{stream.name}").status_code in (404, 405)
    for last, numbers in (("1", "2"), ("", "12"), ("-1", "12"), ("x" * 400, "12"), ("9" * 30, "12"), ("²", "12")):
        has = {"last-event-id": last.encode()}
        with httpx.stream("GET", f"{address}live/{stream.name}", headers=has, timeout=20) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            assert answer.headers["content-security-policy"] and answer.headers["cache-control"] == "no-store"
            wanted, shown = "".join(event(int(n)) for n in numbers), ""
            for part in answer.iter_text():
                if len(shown := shown + part) >= len(wanted):
                    break
            assert shown == wanted
        apart(becomes(lambda: not stream.crowded and not stream._readers))  # the server notices that its reader left
    with ExitStack() as opened:
        read = [httpx.stream("GET", f"{address}live/{stream.name}") for _ in range(READERS)]
        parts = [opened.enter_context(one).iter_text() for one in read]  # one that is thrown away closes its stream
        assert [next(part) for part in parts] == [event(1)] * READERS
        assert httpx.get(f"{address}live/{stream.name}").status_code == 204, "a stream has few readers"
        stream.close()
        STREAMS.drop(stream)


def parsed(text: str) -> dict[str, Any]:
    return json.loads(text)["batches"][0]


@pytest.mark.parametrize("leaves", [False, True])
def test_steps_go_over_a_stream_that_is_read_and_none_is_lost_when_the_reader_leaves(slowly: Any, leaves: bool) -> None:
    feed, plan = Feed(Job(), 0, "title"), Form(methods_of("causal")[0], first_model("causal"), {"max_new_tokens": 10})
    going = feed.messages(plan, PROMPT, 0, LIMITS)
    header = parsed(next(going))
    stream = STREAMS._streams[header["stream"]]
    by_stream: list[dict[str, Any]] = []

    async def follow() -> None:
        async for line in stream.read(header["seq"]):
            if line.startswith("id: "):
                by_stream.append(parsed(line.split("data: ", 1)[1]))
            if leaves and len(by_stream) == 2:
                return

    async def scene() -> list[str]:
        reader = asyncio.create_task(follow())
        await asyncio.sleep(0.05)
        rest = await asyncio.to_thread(list, going)
        await reader
        return rest

    by_bus = [parsed(text) for text in apart(scene())]
    assert len(by_stream) == 2 if leaves else len(by_stream) >= 3
    assert len(by_bus) > 2 if leaves else len(by_bus) == 1, "with a reader Gradio brings the end alone"
    batches = {batch["seq"]: batch for batch in [header, *by_stream, *by_bus]}
    assert sorted(batches) == list(range(1, 1 + len(batches)))
    steps = [step["index"] for _, batch in sorted(batches.items()) for step in batch.get("steps", [])]
    assert steps == list(range(len(feed.trace.steps)))  # type: ignore[union-attr]
    assert by_bus[-1]["state"] == "done" and header["stream"] not in STREAMS._streams


def test_a_page_reads_the_stream_and_shows_the_same_without_it(visit: Callable[..., Any], slowly: Any) -> None:
    """The run is slow, since one that has ended before its stream is asked for has none."""
    seen, streams = visit(), []
    seen.page.on("response", lambda answer: streams.append(answer) if "/live/" in answer.url else None)
    seen.slots(1)
    seen.run(0, 120)
    soon(seen.page, lambda: streams)
    assert [one.status for one in streams] == [200]
    assert streams[0].headers["content-type"].startswith("text/event-stream")
    cut = visit()
    cut.page.route("**/live/*", lambda route: route.fulfill(status=204))
    cut.slots(1)
    cut.run(0, 120)
    seen.drawn()
    words = seen.player(0).locator(".dx-words").inner_text()
    assert words
    expect(cut.player(0).locator(".dx-words")).to_have_text(words, use_inner_text=True)
    cut.at(0, int(seen.player(0).get_attribute("data-step")))


def test_batches_that_overtake_others_wait_for_them(visit: Callable[..., Any], traces: list[Any]) -> None:
    """The bus and the stream have no common order."""
    screen, whole = visit(), json.loads(traces[0].to_json())
    batches: list[dict[str, Any]] = [
        {"slot": 0, "run": "x", "seq": 1, "header": whole["header"], "pieces": whole["pieces"], "state": "running"}
    ]
    batches += [{"slot": 0, "run": "x", "seq": i + 2, "steps": [step]} for i, step in enumerate(whole["steps"])]
    batches.append({"slot": 0, "run": "x", "seq": len(batches) + 1, "steps": [], "end": whole["end"], "state": "done"})
    order = [0, 3, 2, 2, 1, *range(len(batches) - 1, 3, -1), 1, 4]
    send = """(batches) => { const props = {}; let changed;
      dxModules.use("player/gradio.js").bus(document.createElement("div"), props, (_, act) => (changed = act));
      for (const batch of batches) { props.value = JSON.stringify({ batches: [batch] }); changed(); } }"""
    screen.page.evaluate(send, [batches[i] for i in order])
    screen.wait(0, "done")
    screen.at(0, len(whole["steps"]))
    held = [{**batch, "run": "y"} for batch in batches]
    screen.page.evaluate(send, [held[0], held[1], held[3]])
    screen.wait(0, "live")
    expect(screen.player(0).locator(".dx-alert")).to_contain_text("Part of this run did not arrive")
