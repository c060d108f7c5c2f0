"""What one visitor may ask of a public host: calls by a token bucket, calls that are answered at once, streams that are
open at once; all counted under the visitor's address, the last two over all visitors as well."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

BURST, RATE = 240, 12.0  # calls at once, and calls a second after them: a class of thirty behind one address
STREAMS_EACH, STREAMS = 120, 600  # open at once: of one address, of all; a page has two or three
TURNS_EACH, TURNS = 2, 4  # calls answered at once, of one address, of all; each may hold four long traces unpacked
REMEMBERED = 10_000  # addresses


class Budget:
    """Counts for one server. burst, rate: of the bucket of each address; each, total: streams; turns_each, turns: calls
    answered at once. clock: seconds."""

    def __init__(
        self,
        burst: int = BURST,
        rate: float = RATE,
        each: int = STREAMS_EACH,
        total: int = STREAMS,
        turns_each: int = TURNS_EACH,
        turns: int = TURNS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.turns_each, self._turns = turns_each, asyncio.Semaphore(turns)
        self._own: dict[str, asyncio.Semaphore] = {}
        self._asking: Counter[str] = Counter()
        self.burst, self.rate, self.each, self.total, self.clock = burst, rate, each, total, clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # address -> (calls left, at that moment)
        self._open: Counter[str] = Counter()

    def call(self, address: str, cost: int = 1) -> float:
        """Take a call, or so many: 0 where they were left, else the seconds until they are."""
        now = self.clock()
        left, since = self._left.pop(address, (float(self.burst), now))
        left = min(float(self.burst), left + (now - since) * self.rate)
        self._left[address] = (left - cost if left >= cost else left, now)
        while len(self._left) > REMEMBERED:
            self._left.popitem(last=False)
        return 0.0 if left >= cost else (cost - left) / self.rate

    def open(self, address: str) -> bool:
        """Whether one more stream may be opened; then it counts until `close`."""
        if self._open[address] >= self.each or self._open.total() >= self.total:
            return False
        self._open[address] += 1
        return True

    def close(self, address: str) -> None:
        """A stream has ended."""
        self._open[address] -= 1
        if self._open[address] <= 0:
            del self._open[address]

    @asynccontextmanager
    async def place(self, address: str) -> AsyncIterator[asyncio.Semaphore]:
        """Wait for one of the few places of an address; it gives the turns of all, which are taken when everything of
        the call is here."""
        own = self._own.setdefault(address, asyncio.Semaphore(self.turns_each))
        self._asking[address] += 1
        try:
            async with own:
                yield self._turns
        finally:
            self._asking[address] -= 1
            if not self._asking[address]:
                del self._asking[address], self._own[address]
