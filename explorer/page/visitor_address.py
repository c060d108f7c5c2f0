"""Who asks: the address that a visitor's share of the host is counted under, and what of it waits in Gradio's queue."""

import asyncio
import functools
import ipaddress
import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gradio.utils import LRUCache

FULL = "queue_full"  # Gradio's name for what is answered with status 503
PATIENCE = 20.0  # seconds in which the stream of a run has to be opened on a public host
BEAT = "heartbeat/"  # before the session in the name of a heartbeat
REMEMBERED = 4096  # streams that were read lately
WAITING_EACH = 4  # runs of one address that may wait on a public host


def client_of(request: Any) -> str:
    """The address of the visitor behind a request (Starlette's, or Gradio's of an event).

    Behind EXPLORER_TRUSTED_PROXIES proxies (1 on a Space, else 0) it is what the outermost of them wrote into
    X-Forwarded-For; what stands to the left of that is the visitor's own claim and is not read."""
    peer = getattr(getattr(request, "client", None), "host", "") or ""
    named = _forwarded(request.headers) if proxies() else []
    return network(named[-min(proxies(), len(named))] if named else peer)


def _forwarded(headers: Any) -> list[str]:
    """The addresses of all X-Forwarded-For lines: a proxy may add a line of its own behind the visitor's."""
    every = getattr(headers, "getlist", None)
    lines = every("x-forwarded-for") if every else [headers.get("x-forwarded-for", "")]
    return [address.strip() for address in ",".join(lines).split(",") if address.strip()]


@functools.lru_cache(4096)
def network(address: str) -> str:
    """What counts as one visitor: an IPv4 address, or the /64 network of an IPv6 one, which one household has; without
    a port. What is not an address stays as it is, cut."""
    bare = address[1 : address.index("]")] if address.startswith("[") and "]" in address else address
    bare = bare.partition(":")[0] if bare.count(":") == 1 else bare
    try:
        ip = ipaddress.ip_address(bare)
    except ValueError:
        return address[:64]
    if isinstance(ip, ipaddress.IPv4Address) or (mapped := ip.ipv4_mapped) is not None:
        return str(ip if isinstance(ip, ipaddress.IPv4Address) else mapped)
    return str(ipaddress.ip_network((ip, 64), strict=False))


def proxies() -> int:
    """How many proxies in front of this server are trusted. Raises SystemExit for a setting that is not a number."""
    text = os.environ.get("EXPLORER_TRUSTED_PROXIES", "").strip() or ("1" if os.environ.get("SPACE_ID") else "0")
    if not (text.isascii() and text.isdigit() and len(text) < 3):
        raise SystemExit(f"EXPLORER_TRUSTED_PROXIES={text[:40]} is not allowed; give a number from 0 to 99.")
    return int(text)


class Readers:
    """Which event streams are read: those of sessions, of single calls by the id of their event, and heartbeats."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()
        self._since: LRUCache[str, float] = LRUCache(REMEMBERED)

    @contextmanager
    def reading(self, name: str) -> Iterator[None]:
        """Inside, somebody reads it."""
        self._open[name] += 1
        self._since[name] = time.monotonic()
        try:
            yield
        finally:
            self._open[name] -= 1
            if not self._open[name]:
                del self._open[name]

    def now(self, name: str) -> bool:
        """Whether it is read now."""
        return name in self._open

    def at_page(self, session: str) -> bool:
        """Whether the page of a session is open: its heartbeat is read."""
        return BEAT + session in self._open

    def after(self, name: str, moment: float) -> bool:
        """Whether it is read now, or was at any time since that moment of time.monotonic."""
        return name in self._open or self._since.get(name, moment - 1) >= moment


def has_call(queue: Any, name: str) -> bool:
    """Whether a queue of Gradio has messages of an event: it waits, runs, or was done and not read yet; without a
    session of its own it is one itself."""
    return (
        name in queue.event_ids_to_events
        or name in queue.pending_messages_per_session
        or any(name in ids for ids in queue.pending_event_ids_session.values())
    )


def look_after(queue: Any, readers: Readers, most: int = WAITING_EACH, patience: float = PATIENCE) -> None:
    """What strangers may put into a queue of Gradio: at most `most` waiting events of one address, and none that the
    page calls beside the queue, which would run at once with all others; both are refused with a sentence.

    An event whose stream nobody has opened in time is ended: it frees its place, and what it runs is closed at the next
    message. What Gradio would keep of a caller for ever is forgotten when nobody reads; until then no newcomer puts it
    out, as they would in Gradio, which drops the oldest of 2,000, read or not."""
    push = queue.push
    queue.pending_messages_per_session = {}
    watching: set[asyncio.Task[None]] = set()

    async def watch(event: Any, moment: float) -> None:
        await asyncio.sleep(patience)
        if not (readers.after(event.session_hash, moment) or readers.after(event._id, moment)):
            await queue.clean_events(event_id=event._id)
        while event._id in queue.event_ids_to_events or readers.now(event.session_hash) or readers.now(event._id):
            await asyncio.sleep(patience)
        unread = queue.pending_event_ids_session.get(event.session_hash, set())
        unread.discard(event._id)
        if not unread:  # else a later event of the same caller has its own watch
            queue.pending_event_ids_session.pop(event.session_hash, None)
            queue.pending_messages_per_session.pop(event.session_hash, None)

    async def pushed(body: Any, request: Any, username: str | None) -> Any:
        called, moment = queue.blocks.fns.get(body.fn_index), time.monotonic()
        if called is not None and not called.queue:
            return False, "This is answered at once, without the queue.", "error"
        waiting = [
            event for event_queue in queue.event_queue_per_concurrency_id.values() for event in event_queue.queue
        ]
        if sum(client_of(event.request) == client_of(request) for event in waiting) >= most:
            return False, f"{most} of your runs wait already; the next can be started when one of them is done.", FULL
        answer = await push(body, request, username)
        if answer[0] and (event := queue.event_ids_to_events.get(answer[1])) is not None:
            task = asyncio.create_task(watch(event, moment))
            watching.add(task)  # a loop keeps no hold of its tasks
            task.add_done_callback(watching.discard)
        return answer

    queue.push = pushed
