"""What the server remembers of each open page: the traces that its players show and the run under way. Bounded, dropped
when the page closes."""

from __future__ import annotations

import threading
import uuid
from collections import Counter, OrderedDict, deque
from typing import Any

from engines import Trace, UserError

MAX_SESSIONS = 64
KEPT_MESSAGES = 32
OPENED, OPENED_EACH = 64_000_000, 16_000_000  # characters of opened traces that strangers keep here: all, one address


class Job:
    """One press of Run. `stop` asks it to end after the current step; `finished` is set once nothing more will come.

    `last` keeps the latest bus messages: Gradio drops what a cancelled event still yields, so Stop sends them again
    (known numbers are ignored). `begun` says that a first run could begin; until then the earlier players stay.
    `cleared`: the page has put them away; `queued` is what it was told first. `under_way`: it has gone on after its
    first message; what was stopped before that is never asked for more, so that nobody has to wait for it."""

    def __init__(self) -> None:
        self.id = uuid.uuid4().hex[:12]
        self.stop = threading.Event()
        self.finished = threading.Event()
        self.last: deque[str] = deque(maxlen=KEPT_MESSAGES)
        self.begun = self.cleared = self.under_way = False
        self.queued: list[dict[str, Any]] = []

    def end(self) -> None:
        """Ask it to end; one that waits for its first turn has ended then."""
        self.stop.set()
        if not self.under_way:
            self.finished.set()

    def go_on(self) -> bool:
        """Its turn has come. False where it was stopped before."""
        self.under_way = True
        return not self.stop.is_set()


class Session:
    """The traces by slot, and the job that runs or ran last."""

    def __init__(self, traces: dict[int, Trace]) -> None:
        self.traces = dict(traces)
        self.opened: dict[
            int, Trace
        ] = {}  # by slot: runs that a person opened and whose settings the controls have not taken yet
        self._characters: dict[int, tuple[int, int]] = {}  # slot -> (which trace was opened there, its characters)
        self.job: Job | None = None
        self.named: dict[str, str] = {}  # a model's own name -> what the person typed to load it
        self.sweeping: Job | None = None
        self.sweep: Any = None  # the latest one: what its dots open

    def keep(self, slot: int, trace: Trace, characters: int) -> None:
        """A person opened a trace of so many characters."""
        self.traces[slot] = trace
        self.opened = {slot: trace}
        self._characters[slot] = id(trace), characters

    @property
    def characters(self) -> int:
        """Of the opened traces that are still shown."""
        return sum(n for slot, (which, n) in self._characters.items() if id(self.traces.get(slot)) == which)

    def begin(self) -> Job:
        """A new job; one that still runs is told to stop."""
        if self.job:
            self.job.end()
        self.job = Job()
        return self.job

    def begin_sweep(self) -> Job:
        """A new job beside the players' own; a sweep that still runs is told to stop."""
        if self.sweeping:
            self.sweeping.end()
        self.sweeping = Job()
        return self.sweeping

    def end(self) -> None:
        """Whatever runs is told to stop."""
        for job in (self.job, self.sweeping):
            if job:
                job.end()

    @property
    def busy(self) -> bool:
        """Whether a run or a sweep of it has not ended."""
        return any(job and not job.finished.is_set() for job in (self.job, self.sweeping))

    @property
    def running(self) -> Job | None:
        """The job, while it has not ended."""
        return self.job if self.job and not self.job.finished.is_set() else None


class Sessions:
    """Sessions by Gradio's session hash. A new page starts with the opening traces. Where there are too many, the
    visitor who has most of them loses the one that was used least recently, but none in which something runs or
    waits."""

    def __init__(self, opening: dict[int, Trace]) -> None:
        self._opening = opening
        self._all: OrderedDict[str, tuple[str, Session]] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, key: str | None, client: str = "") -> Session:
        """The session of that hash; made at first use. A caller without a hash gets one that nobody else sees and that
        is not kept. client: who asks, such as an address."""
        if not key:
            return Session(self._opening)
        with self._lock:
            client, session = self._all.pop(key) if key in self._all else (client, Session(self._opening))
            self._all[key] = client, session
            while len(self._all) > MAX_SESSIONS and (idle := self._dispensable(key)):
                del self._all[idle]
            return session

    def _dispensable(self, newest: str) -> str | None:
        """The key of the session that goes first."""
        counts = Counter(client for client, _ in self._all.values())
        idle = [key for key, (_, session) in self._all.items() if key != newest and not session.busy]
        return max(idle, key=lambda key: counts[self._all[key][0]], default=None)  # of equals the first, so the oldest

    def check_room(self, characters: int, client: str) -> None:
        """Raises UserError where strangers have opened so many traces that one of so many characters finds no room."""
        with self._lock:
            held = [(who, session.characters) for who, session in self._all.values()]
        if sum(n for who, n in held if who == client) + characters > OPENED_EACH:
            raise UserError("your pages hold as many opened traces as one visitor may have here; close one of them.")
        if sum(n for _, n in held) + characters > OPENED:
            raise UserError("this host holds as many opened traces as it can; try again in a few minutes.")

    def __len__(self) -> int:
        """How many are kept."""
        return len(self._all)

    def drop(self, key: str | None) -> None:
        """Forget a page that was closed; its run stops."""
        with self._lock:
            found = self._all.pop(key or "", None)
        if found:
            found[1].end()
