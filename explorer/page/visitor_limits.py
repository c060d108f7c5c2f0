"""What one visitor may have of a public host: calls by a token bucket, calls that are answered at once, and streams and
connections that are open at once; all counted under the visitor's address, all but the bucket over all visitors, too.

uvicorn limits connections by one number for all, which keeps out whoever comes last, and keeps those for ever on which
nothing is asked or nothing is read."""

import asyncio
import logging
import threading
import time
import weakref
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

from anyio import CancelScope
from gradio.utils import LRUCache
from starlette.exceptions import HTTPException

from explorer.page.visitor_address import network, proxies

BURST, RATE = 240, 12.0  # calls at once, and calls a second after them: a class of thirty behind one address
STREAMS_EACH, STREAMS = 120, 600  # open at once: of one address, of all; a page has two or three
TURNS_EACH, TURNS = 2, 4  # calls answered at once, of one address, of all; each may hold four long traces unpacked
ANSWERS_EACH = 8  # calls of one address whose answers are made or read
PATIENCE = 60.0  # seconds in which a call has to be here, and to get its turn among those of its address
FREE, DEAR, DEAREST = 0.25, 48.0, 24.0  # seconds of an answer that cost nothing; calls for a second more; at most
REMEMBERED = 10_000  # addresses
IDLE = 30.0  # seconds in which a request has to be there, its body not counted, and a piece of an answer be read
EACH, TOTAL = 250, 2000  # connections of one address, where no proxy is in between (more than its streams), and of all
SPARE = 200  # file descriptors that are left for everything else
LOOK = 0.25  # seconds from one look to the next: in them far fewer come than there are descriptors
SENDING = "explorer.sending"  # in the scope of a request: since when a piece of its answer waits for its reader
log = logging.getLogger("decoding-explorer")


@dataclass(eq=False)
class Places:
    """Of one address, while some call of it is there: for answers that are made or read, and for those that are made
    now."""

    answers: asyncio.Semaphore
    turns: asyncio.Semaphore


@dataclass
class Budget:
    """Counts for one server. burst, rate: of the bucket of each address; each, total: streams; turns_each, at_once:
    calls answered at once; answers_each: calls that are answered or whose answers are read. clock: seconds."""

    burst: int = BURST
    rate: float = RATE
    each: int = STREAMS_EACH
    total: int = STREAMS
    turns_each: int = TURNS_EACH
    at_once: int = TURNS
    answers_each: int = ANSWERS_EACH
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self.turns = asyncio.Semaphore(self.at_once)
        self._left: LRUCache[str, tuple[float, float]] = LRUCache(REMEMBERED)  # address -> calls left, at that moment
        self._places: weakref.WeakValueDictionary[str, Places] = weakref.WeakValueDictionary()
        self._streams: dict[CancelScope, str] = {}

    def call(self, address: str, cost: float = 1) -> float:
        """Take a call, or so many: 0 where they were left, else the seconds until they are."""
        now = self.clock()
        left, since = self._left.get(address, (float(self.burst), now))
        left = min(float(self.burst), left + (now - since) * self.rate)
        self._left[address] = (left - cost if left >= cost else left, now)
        return 0.0 if left >= cost else (cost - left) / self.rate

    def charge(self, address: str, seconds: float) -> None:
        """An answer took so long to make: a quarter of a second in each is what an address may have for long. Whoever
        is held up by others pays a bounded price."""
        self.call(address, 0)
        left, since = self._left[address]
        self._left[address] = max(0.0, left - min(DEAREST, DEAR * max(0.0, seconds - FREE))), since

    @contextmanager
    def stream(self, address: str) -> Iterator[CancelScope]:
        """Inside, one more stream is open. Where there are too many, whoever has most of them loses the oldest, whose
        scope is cancelled, so that a few addresses do not keep out all others. Raises HTTPException where it may not
        be opened."""
        held, full = Counter(self._streams.values()), len(self._streams) >= self.total
        most = max(held, key=held.__getitem__, default="")
        if held[address] >= self.each or (full and held[most] <= held[address] + 1):
            raise HTTPException(429, "Too many pages of this address are open here; close one and load this one again.")
        if full:
            oldest = next(scope for scope, who in self._streams.items() if who == most)
            del self._streams[oldest]
            oldest.cancel()
        with CancelScope() as scope:
            self._streams[scope] = address
            try:
                yield scope
            finally:
                self._streams.pop(scope, None)

    @asynccontextmanager
    async def place(self, address: str) -> AsyncIterator[AsyncExitStack]:
        """Wait for one of the few places of an address, which is left when its answer was read, and for its turn, a
        stack that is to be closed when the answer begins; the turns of all are entered on it when everything of the
        call is here. Raises HTTPException where its turn does not come."""
        fresh = Places(asyncio.Semaphore(self.answers_each), asyncio.Semaphore(self.turns_each))
        own = self._places.setdefault(address, fresh)
        async with AsyncExitStack() as place, AsyncExitStack() as turn_stack:
            try:
                async with asyncio.timeout(PATIENCE):
                    await place.enter_async_context(own.answers)
                    await turn_stack.enter_async_context(own.turns)
            except TimeoutError:
                words = "Other calls of this address have been in the way for too long; try again."
                raise HTTPException(429, words) from None
            yield turn_stack


def descriptors() -> float:
    """How many files this process may have open; from now on as many as the system lets it have."""
    try:
        import resource
    except ImportError:  # not a Unix
        return float("inf")
    limit, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        limit = hard
    except (OSError, ValueError):  # macOS names a limit that it does not take
        pass
    return limit if limit != resource.RLIM_INFINITY else float("inf")


@dataclass
class Connections:
    """Looks after the connections of one uvicorn server: ends those that ask nothing or take nothing of their answer
    for so many seconds, of one address all beyond `each`, and of all those beyond `total`."""

    server: Any
    patience: float = IDLE
    each: int = EACH
    pause: float = LOOK
    total: int = TOTAL

    def __post_init__(self) -> None:
        self._idle: weakref.WeakKeyDictionary[Any, float] = weakref.WeakKeyDictionary()  # since that moment

    def watch(self) -> None:
        """Look every few moments, in a thread of its own, until the server ends."""
        allowed, needed = descriptors(), 2 * self.total + SPARE  # a file that is read on a connection is another one
        if allowed < needed:
            log.warning("this host may open %d files; let it open %d (ulimit -n)", allowed, needed)
            self.total = max(1, int(allowed - SPARE) // 2)
        threading.Thread(target=self._watch, name="connections", daemon=True).start()

    def _watch(self) -> None:
        while not self.server.should_exit:
            for connection in self.superfluous(time.monotonic()):
                connection.loop.call_soon_threadsafe(_end, connection.transport)
            time.sleep(self.pause)

    def superfluous(self, now: float) -> list[Any]:
        """The connections to end at that moment; of an address first those that ask nothing, of these the one that
        waits longest; beyond the total those of whoever has most that ask nothing."""
        every = tuple(self.server.server_state.connections)  # one step of the interpreter: the loop changes the set
        for connection in every:
            if asks(connection):
                self._idle.pop(connection, None)
            else:
                self._idle.setdefault(connection, now)
        ends, held = list[Any](), defaultdict[str, list[Any]](list)
        for connection in sorted(every, key=lambda connection: self._idle.get(connection, float("inf")), reverse=True):
            if now - min(self._idle.get(connection, now), unread_since(connection, now)) > self.patience:
                ends.append(connection)
            else:
                held[network(connection.client[0] if connection.client else "")].append(connection)
        if not proxies():
            for own in held.values():
                ends += own[self.each :]
                del own[self.each :]
        idle = {address: sum(connection in self._idle for connection in own) for address, own in held.items()}
        for _ in range(sum(map(len, held.values())) - self.total):
            most = max(held, key=lambda address: (idle[address], len(held[address])))
            idle[most] = max(0, idle[most] - 1)
            ends.append(held[most].pop())
        return ends


def asks(connection: Any) -> bool:
    """Whether a request of it is being answered."""
    return connection.cycle is not None and not connection.cycle.response_complete


def unread_since(connection: Any, now: float) -> float:
    """Since when its reader has taken nothing of an answer that waits; now where none waits."""
    scope = getattr(connection.cycle, "scope", None) or {}
    since: float = scope.get(SENDING, now)
    return since


def _end(transport: Any) -> None:
    """Close it; what its reader did not take is thrown away, since a transport closes behind the last byte only."""
    transport.abort() if transport.get_write_buffer_size() else transport.close()
