"""Connections of a public host on which nothing is asked or nothing is read: uvicorn keeps them for ever, and each
takes a file descriptor and what was to be read on it."""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections import Counter
from typing import Any

from explorer.page.clients import network, proxies

PATIENCE = 30.0  # seconds in which a request has to be there, its body not counted, and a piece of an answer be read
EACH = 250  # connections of one address, where no proxy is in between: more than it may have streams
TOTAL = 2000  # of all addresses
SPARE = 200  # file descriptors that are left for everything else
LOOK = 0.25  # seconds from one look to the next: in them far fewer come than there are descriptors
SENDING = "explorer.sending"  # in the scope of a request: since when a piece of its answer waits for its reader
log = logging.getLogger("decoding-explorer")


def descriptors() -> int:
    """How many files this process may have open; from now on as many as the system lets it have."""
    try:
        import resource
    except ImportError:  # not a Unix
        return 10**6
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):  # macOS names a limit that it does not take
        return soft if soft != resource.RLIM_INFINITY else 10**6
    return hard if hard != resource.RLIM_INFINITY else 10**6


class Connections:
    """Looks after the connections of one uvicorn server: ends those that ask nothing or take nothing of their answer
    for so many seconds, of one address all beyond `each`, and of all those beyond `total`; those that ask nothing
    first."""

    def __init__(
        self, server: Any, patience: float = PATIENCE, each: int = EACH, pause: float = LOOK, total: int = TOTAL
    ) -> None:
        self.server, self.patience, self.each, self.pause, self.total = server, patience, each, pause, total
        self._idle: weakref.WeakKeyDictionary[Any, float] = weakref.WeakKeyDictionary()  # since that moment

    def watch(self) -> None:
        """Look every few moments, in a thread of its own, until the server ends."""
        room = (descriptors() - SPARE) // 2  # a file that is read on one is another
        if room < self.total:
            log.warning(
                "this host may open %d files; let it open %d (ulimit -n)", 2 * room + SPARE, 2 * self.total + SPARE
            )
            self.total = max(1, room)
        threading.Thread(target=self._watch, name="connections", daemon=True).start()

    def _watch(self) -> None:
        while not self.server.should_exit:
            for one in self.superfluous(time.monotonic()):
                one.loop.call_soon_threadsafe(_end, one.transport)
            time.sleep(self.pause)

    def superfluous(self, now: float) -> list[Any]:
        """The connections to end at that moment."""
        every = tuple(self.server.server_state.connections)  # one step of the interpreter: the loop changes the set
        for one in every:
            if asks(one):
                self._idle.pop(one, None)
            else:
                self._idle.setdefault(one, now)
        ends = [one for one in every if now - min(self._idle.get(one, now), unread_since(one, now)) > self.patience]
        if not proxies():
            ends += self._beyond(every, ends)
        return ends + self._over(every, ends)

    def _over(self, every: tuple[Any, ...], ends: list[Any]) -> list[Any]:
        """Those beyond the total: of whoever has most that ask nothing, the one that waits longest, and again."""
        over = len(every) - len(ends) - self.total
        if over <= 0:
            return []
        ending = set(map(id, ends))
        waiting, working = dict[str, list[Any]](), dict[str, list[Any]]()
        for one in sorted(every, key=lambda one: self._idle.get(one, 0.0), reverse=True):
            if id(one) not in ending:
                address = network(one.client[0] if one.client else "")
                (waiting if one in self._idle else working).setdefault(address, []).append(one)
        found = list[Any]()
        for _ in range(over):
            some = waiting if any(waiting.values()) else working
            found.append(max(some.values(), key=len).pop())
        return found

    def _beyond(self, every: tuple[Any, ...], ends: list[Any]) -> list[Any]:
        if len(every) <= self.each:
            return []
        held, ending = Counter[str](), set(map(id, ends))
        found = []
        for one in sorted(every, key=lambda one: self._idle.get(one, -1.0)):  # at work first, then who waits longest
            if id(one) in ending:
                continue
            address = network(one.client[0] if one.client else "")
            held[address] += 1
            if held[address] > self.each:
                found.append(one)
        return found


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
