"""What one visitor may ask of a public host: calls by a token bucket, calls that are answered at once, streams that are
open at once; all counted under the visitor's address, the last two over all visitors as well."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from explorer.page.bodies import Refusal

BURST, RATE = 240, 12.0  # calls at once, and calls a second after them: a class of thirty behind one address
STREAMS_EACH, STREAMS = 120, 600  # open at once: of one address, of all; a page has two or three
TURNS_EACH, TURNS = 2, 4  # calls answered at once, of one address, of all; each may hold four long traces unpacked
ANSWERS_EACH = 8  # calls of one address whose answers are made or read
PATIENCE = 60.0  # seconds in which a call has to get its turn among those of its address
FREE, DEAR, DEAREST = 0.25, 48.0, 24.0  # seconds of an answer that cost nothing; calls for a second more; at most
REMEMBERED = 10_000  # addresses


@dataclass(eq=False)
class Stream:
    """One that is open, and how it is ended."""

    address: str
    end: Callable[[], object]


class Budget:
    """Counts for one server. burst, rate: of the bucket of each address; each, total: streams; turns_each, turns: calls
    answered at once; answers_each: calls that are answered or whose answers are read. clock: seconds."""

    def __init__(
        self,
        burst: int = BURST,
        rate: float = RATE,
        each: int = STREAMS_EACH,
        total: int = STREAMS,
        turns_each: int = TURNS_EACH,
        turns: int = TURNS,
        answers_each: int = ANSWERS_EACH,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.turns_each, self.answers_each, self._turns = turns_each, answers_each, asyncio.Semaphore(turns)
        self._own: dict[str, tuple[asyncio.Semaphore, asyncio.Semaphore]] = {}
        self._asking: Counter[str] = Counter()
        self.burst, self.rate, self.each, self.total, self.clock = burst, rate, each, total, clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # address -> (calls left, at that moment)
        self._open: dict[str, list[Stream]] = {}

    def call(self, address: str, cost: int = 1) -> float:
        """Take a call, or so many: 0 where they were left, else the seconds until they are."""
        now = self.clock()
        left, since = self._left.pop(address, (float(self.burst), now))
        left = min(float(self.burst), left + (now - since) * self.rate)
        self._left[address] = (left - cost if left >= cost else left, now)
        while len(self._left) > REMEMBERED:
            self._left.popitem(last=False)
        return 0.0 if left >= cost else (cost - left) / self.rate

    def charge(self, address: str, seconds: float) -> None:
        """An answer took so long to make: a quarter of a second in each is what an address may have for long. Whoever
        is held up by others pays a bounded price."""
        self.call(address, 0)
        left, since = self._left[address]
        self._left[address] = max(0.0, left - min(DEAREST, DEAR * max(0.0, seconds - FREE))), since

    def open(self, address: str, end: Callable[[], object] = lambda: None) -> Stream | None:
        """One more stream, which counts until `close`; None where it may not be opened. end: ends it: where there are
        too many, whoever has most of them loses the oldest, so that a few addresses do not keep out all others."""
        own = self._open.get(address, [])
        if len(own) >= self.each:
            return None
        if sum(map(len, self._open.values())) >= self.total:
            most = max(self._open.values(), key=len)
            if len(most) <= len(own) + 1:
                return None
            self._forget(ended := most[0])
            ended.end()
        stream = Stream(address, end)
        self._open.setdefault(address, []).append(stream)
        return stream

    def close(self, stream: Stream) -> None:
        """A stream has ended."""
        if stream in self._open.get(stream.address, ()):
            self._forget(stream)

    def _forget(self, stream: Stream) -> None:
        self._open[stream.address].remove(stream)
        if not self._open[stream.address]:
            del self._open[stream.address]

    @asynccontextmanager
    async def place(self, address: str) -> AsyncIterator[tuple[asyncio.Semaphore, asyncio.Semaphore]]:
        """Wait for one of the few places of an address, which is left when its answer was read; it gives the turn of
        the address, which is taken, and the turns of all, which are taken when everything of the call is here: both
        are left when the answer begins. Raises Refusal where its turn does not come."""
        fresh = asyncio.Semaphore(self.answers_each), asyncio.Semaphore(self.turns_each)
        answers, turns = self._own.setdefault(address, fresh)
        self._asking[address] += 1
        try:
            await self._wait(answers, turns)
            try:
                yield turns, self._turns
            finally:
                answers.release()
        finally:
            self._asking[address] -= 1
            if not self._asking[address]:
                del self._asking[address], self._own[address]

    @staticmethod
    async def _wait(answers: asyncio.Semaphore, turns: asyncio.Semaphore) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                await answers.acquire()
                try:
                    await turns.acquire()
                except BaseException:
                    answers.release()
                    raise
        except TimeoutError:
            words = "Other calls of this address have been in the way for too long; try again."
            raise Refusal(429, words) from None
