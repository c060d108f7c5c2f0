"""Connections of a public host on which nothing is asked: uvicorn keeps them for ever, and each takes a file
descriptor."""

from __future__ import annotations

import threading
import time
import weakref
from collections import Counter
from typing import Any

from explorer.page.clients import network, proxies

PATIENCE = 30.0  # seconds in which a request has to be there, its body not counted
EACH = 250  # connections of one address, where no proxy is in between: more than it may have streams
LOOK = 2.0  # seconds from one look to the next


class Connections:
    """Looks after the connections of one uvicorn server: ends those that ask nothing for so many seconds, and of one
    address all beyond `each`, those that ask nothing first."""

    def __init__(self, server: Any, patience: float = PATIENCE, each: int = EACH, pause: float = LOOK) -> None:
        self.server, self.patience, self.each, self.pause = server, patience, each, pause
        self._idle: weakref.WeakKeyDictionary[Any, float] = weakref.WeakKeyDictionary()  # since that moment

    def watch(self) -> None:
        """Look every few seconds, in a thread of its own, until the server ends."""
        threading.Thread(target=self._watch, name="connections", daemon=True).start()

    def _watch(self) -> None:
        while not self.server.should_exit:
            for one in self.superfluous(time.monotonic()):
                one.loop.call_soon_threadsafe(one.transport.close)
            time.sleep(self.pause)

    def superfluous(self, now: float) -> list[Any]:
        """The connections to end at that moment."""
        every = tuple(self.server.server_state.connections)  # one step of the interpreter: the loop changes the set
        for one in every:
            if asks(one):
                self._idle.pop(one, None)
            else:
                self._idle.setdefault(one, now)
        ends = [one for one in every if now - self._idle.get(one, now) > self.patience]
        return ends if proxies() else [*ends, *self._beyond(every, ends)]

    def _beyond(self, every: tuple[Any, ...], ends: list[Any]) -> list[Any]:
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
