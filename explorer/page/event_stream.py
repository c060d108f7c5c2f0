"""Steps of live runs on event streams of their own, beside Gradio's, whose every message costs a page more than drawing
it.

Gradio brings the header, with the name of the stream, and the end. In between the page reads the stream, if it can;
while nobody reads, steps go Gradio's way. Batches are numbered: the page puts what comes by both ways in order and
drops what came twice."""

import asyncio
import threading
import uuid
from collections.abc import AsyncIterator

from gradio.utils import LRUCache
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

OPEN = 256  # streams that are known at a time; the oldest is forgotten first
READERS = 2  # of one stream: a page, and the same page coming back before its loss was noticed
PATH = "live"


class EventStream:
    """The messages of one run, each with its number. Written by the thread that decodes, read by event loops."""

    def __init__(self) -> None:
        self.name = uuid.uuid4().hex
        self._messages: list[tuple[int, str]] = []
        self._sent = 0  # how many of them a reader was given
        self._open = True
        self._readers: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}
        self._lock = threading.Lock()

    def put(self, number: int, text: str) -> list[str]:
        """Offer a message. Returns what has to go another way: nothing while somebody reads."""
        with self._lock:
            self._messages.append((number, text))
            self._wake()
            return [] if self._readers else self._unread()

    def close(self) -> list[str]:
        """No more will come. Returns what no reader was given; a reader that waits gets it as well."""
        with self._lock:
            self._open = False
            self._wake()
            return self._unread()

    def _unread(self) -> list[str]:
        unread = [text for _, text in self._messages[self._sent :]]
        self._sent = len(self._messages)
        return unread

    async def read(self, after: int) -> AsyncIterator[str]:
        """The messages with numbers above `after`, as they come, as lines of an event stream."""
        wake, place = asyncio.Event(), 0
        with self._lock:
            self._readers[wake] = asyncio.get_running_loop()
        try:
            while True:
                with self._lock:
                    new, still = self._messages[place:], self._open
                    place += len(new)
                    self._sent = max(self._sent, place)
                for number, text in new:
                    if number > after:
                        yield f"id: {number}\ndata: {text}\n\n"
                if not still:
                    yield "event: end\ndata:\n\n"
                    return
                await wake.wait()
                wake.clear()
        finally:
            with self._lock:
                self._readers.pop(wake, None)

    @property
    def crowded(self) -> bool:
        """Whether it has all the readers that it may have."""
        return len(self._readers) >= READERS

    def _wake(self) -> None:
        for event, loop in self._readers.items():
            if not loop.is_closed():
                loop.call_soon_threadsafe(event.set)


class EventStreams:
    """The streams by name. A name is a secret that only the page of its run is told."""

    def __init__(self) -> None:
        self._streams: LRUCache[str, EventStream] = LRUCache(OPEN)
        self._lock = threading.Lock()

    def open(self) -> EventStream:
        """A new one."""
        stream = EventStream()
        with self._lock:
            self._streams[stream.name] = stream
        return stream

    def drop(self, stream: EventStream) -> None:
        """Forget one that is closed."""
        with self._lock:
            self._streams.pop(stream.name, None)

    async def answer(self, request: Request) -> Response:
        """An event stream; nothing where there is no such stream, after which a browser does not ask again."""
        stream = self._streams.get(request.path_params["name"])
        if stream is None or stream.crowded:
            return Response(status_code=204)
        last = request.headers.get("last-event-id", "")
        after = int(last) if last.isascii() and last.isdigit() and len(last) < 16 else 0
        return StreamingResponse(
            stream.read(after),
            media_type="text/event-stream",
            headers={"cache-control": "no-store", "x-accel-buffering": "no"},
        )

    def route(self) -> Route:
        """The address under which pages ask."""
        return Route(f"/{PATH}/{{name}}", self.answer, methods=["GET"])


STREAMS = EventStreams()
