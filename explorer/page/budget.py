"""What one visitor may ask of a public host: calls by a token bucket, streams that are open at once; both counted under
the visitor's address, and streams over all visitors."""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Callable

BURST, RATE = 240, 12.0  # calls at once, and calls a second after them: a class of thirty behind one address
STREAMS_EACH, STREAMS = 120, 600  # open at once: of one address, of all; a page has two or three
REMEMBERED = 10_000  # addresses


class Budget:
    """Counts for one server. burst, rate: of the bucket of each address; each, total: streams. clock: seconds."""

    def __init__(
        self,
        burst: int = BURST,
        rate: float = RATE,
        each: int = STREAMS_EACH,
        total: int = STREAMS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.burst, self.rate, self.each, self.total, self.clock = burst, rate, each, total, clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # address -> (calls left, at that moment)
        self._open: Counter[str] = Counter()

    def call(self, address: str) -> float:
        """Take one call: 0 where there was one left, else the seconds until there is one."""
        now = self.clock()
        left, since = self._left.pop(address, (float(self.burst), now))
        left = min(float(self.burst), left + (now - since) * self.rate)
        self._left[address] = (left - 1 if left >= 1 else left, now)
        while len(self._left) > REMEMBERED:
            self._left.popitem(last=False)
        return 0.0 if left >= 1 else (1 - left) / self.rate

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
