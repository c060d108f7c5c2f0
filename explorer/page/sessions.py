"""What the server remembers of each open page: the traces that its players show and the run under way. Bounded, dropped
when the page closes."""

from __future__ import annotations

import gzip
import threading
import uuid
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Mapping
from typing import Any

from engines import Trace, UserError

MAX_SESSIONS = 64
KEPT_MESSAGES = 32
OPENED, OPENED_EACH = 64_000_000, 16_000_000  # packed bytes of traces that strangers keep here: all, one address


class Job:
    """One press of Run. `stop` asks it to end after the current step; `finished` is set once nothing more will come.

    `last` keeps the latest bus messages: Gradio drops what a cancelled event still yields, so Stop sends them again
    (known numbers are ignored). `begun` says that a first run could begin; until then the earlier players stay.
    `cleared`: the page has put them away; `queued` is what it was told first. `under_way`: it has gone on after its
    first message; what was stopped before that is never asked for more, so that nobody has to wait for it. `said`: the
    status line at its end, of a job that has one of its own."""

    def __init__(self, before: Job | None = None) -> None:
        if before:
            before.end()
        self.id = uuid.uuid4().hex[:12]
        self.stop = threading.Event()
        self.finished = threading.Event()
        self.last: deque[str] = deque(maxlen=KEPT_MESSAGES)
        self.begun = self.cleared = self.under_way = False
        self.queued: list[dict[str, Any]] = []
        self.said = ""

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *error: object) -> None:
        self.finished.set()

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
    """The traces by slot, and the job that runs or ran last.

    Traces are kept packed and read anew for each use: read they take ten to fifty times the bytes, and reading a
    recorded one takes a few milliseconds (one of two million characters 50 to 140)."""

    def __init__(self, traces: Mapping[int, Trace | bytes]) -> None:
        self.held = {slot: packed(trace) for slot, trace in traces.items()}  # what the players show
        self.opened: set[int] = set()  # slots of runs that a person opened, not yet taken into the controls
        self.asked = ""  # the prompt that the page itself sent for them; it may hold another one now
        self.spare: dict[int, bytes] = {}  # runs in no player, whose settings the slots out of sight are to take
        self.job: Job | None = None
        self.named: dict[str, str] = {}  # a model's own name -> what the person typed to load it
        self.sweeping: Job | None = None
        self.sweep: Any = None  # the latest one: what its dots open

    @property
    def traces(self) -> dict[int, Trace]:
        """What the players show, read for this call; changing it changes nothing here."""
        return {slot: unpacked(held) for slot, held in self.held.items()}

    def trace(self, slot: int) -> Trace | None:
        """What one player shows."""
        held = self.held.get(slot)
        return None if held is None else unpacked(held)

    def show(self, traces: Mapping[int, Trace | bytes]) -> None:
        """These, and nothing else, are on view."""
        self.held = {slot: packed(trace) for slot, trace in traces.items()}

    def keep(self, slot: int, trace: Trace | bytes) -> None:
        """One player shows this trace now; the others stay."""
        self.held[slot] = packed(trace)

    def take_opened(self) -> dict[int, Trace]:
        """The traces that a person opened since the last call and that are still on view, and those in no player."""
        slots, self.opened = self.opened, set()
        spare, self.spare = self.spare, {}
        opened = {slot: trace for slot in sorted(slots) if (trace := self.trace(slot)) is not None}
        return opened | {slot: unpacked(held) for slot, held in spare.items() if opened and slot not in self.held}

    def begin(self) -> Job:
        """A new job; one that still runs is told to stop."""
        self.job = Job(self.job)
        return self.job

    def begin_sweep(self) -> Job:
        """A new job beside the players' own; a sweep that still runs is told to stop."""
        self.sweeping = Job(self.sweeping)
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


def packed(trace: Trace | bytes) -> bytes:
    """A trace as it is kept here: compressed JSON. What is packed already is given back."""
    return trace if isinstance(trace, bytes) else gzip.compress(trace.to_json().encode(), 1)


def unpacked(held: bytes) -> Trace:
    """The trace of packed bytes."""
    return Trace.from_json(gzip.decompress(held))


def dispensable(idle: list[str], clients: Mapping[str, str], is_open: Callable[[str], bool]) -> str | None:
    """Which of these pages is forgotten first: one of whoever has most pages, of equals the first, so the oldest; pages
    that are open go last. clients: whose each page is, of all."""
    counts = Counter(clients.values())
    return max([key for key in idle if not is_open(key)] or idle, key=lambda key: counts[clients[key]], default=None)


class Sessions:
    """Sessions by Gradio's session hash. A new page starts with the opening traces. Where there are too many, the
    visitor who has most of them loses the one that was used least recently, but none in which something runs or
    waits, and none whose page is open as long as there is another.

    is_open: tells whether the page of a key is open; without it none is known to be."""

    def __init__(self, opening: Mapping[int, Trace]) -> None:
        self.is_open: Callable[[str], bool] = lambda key: False
        self._opening = {slot: packed(trace) for slot, trace in opening.items()}
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
            while len(self._all) > MAX_SESSIONS:
                clients = {page: whose for page, (whose, _) in self._all.items()}
                idle = [page for page, (_, other) in self._all.items() if page != key and not other.busy]
                if not (evicted := dispensable(idle, clients, self.is_open)):
                    break
                del self._all[evicted]
            return session

    def check_room(self, size: int, client: str) -> None:
        """Raises UserError where strangers' pages hold so much that a trace of so many packed bytes finds no room."""
        with self._lock:
            held = [(who, sum(map(len, session.held.values()))) for who, session in self._all.values()]
        if sum(n for who, n in held if who == client) + size > OPENED_EACH:
            raise UserError("your pages hold as many opened traces as one visitor may have here; close one of them.")
        if sum(n for _, n in held) + size > OPENED:
            raise UserError("this host holds as many opened traces as it can; try again in a few minutes.")

    @property
    def busy(self) -> bool:
        """Whether a run or a sweep goes on or waits on any page."""
        with self._lock:
            return any(session.busy for _, session in self._all.values())

    def __len__(self) -> int:
        """How many are kept."""
        return len(self._all)

    def drop(self, key: str | None) -> None:
        """Forget a page that was closed; its run stops."""
        with self._lock:
            dropped = self._all.pop(key or "", None)
        if dropped:
            dropped[1].end()
