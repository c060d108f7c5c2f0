"""What the server remembers of each open page: the traces that its players show and the run under way. Bounded, dropped
when the page closes. And what Gradio remembers of each, without what the page showed; and freed memory, which goes back
to the system.

Gradio copies the configuration of all components for every page and keeps in it each value that a handler was given or
answered, until long after the page was closed. It makes deep links of that, of which this page has none; a trace of two
million characters that was opened stayed there as four megabytes.

glibc keeps what was freed: in one arena for each thread that ever allocated (a server has dozens, and each may keep
what one large upload took), and below whatever lies at the end of an arena. Two arenas are enough for two threads that
compute, and `malloc_trim` hands back whole free pages wherever they lie. With another C library nothing is done."""

from __future__ import annotations

import ctypes
import gzip
import threading
import time
import uuid
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import gradio as gr
from gradio.state_holder import SessionState, StateHolder
from gradio.utils import LRUCache

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
                clients = {one: whose for one, (whose, _) in self._all.items()}
                idle = [one for one, (_, other) in self._all.items() if one != key and not other.busy]
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


REMEMBERED = 10_000  # sessions whose address is known
ARENAS = 2
EVERY = 10.0  # seconds between two looks
WORKED = 0.02  # processor seconds between two looks, behind which there may be something to give back
_ARENA_MAX = -8  # M_ARENA_MAX of malloc.h
_giving_back = threading.Event()


class Owners(LRUCache[str, str]):
    """Session -> address of the first call that named it."""


class Remembered(SessionState):
    """The components of one page and their state, but no values."""

    def __init__(self, blocks: gr.Blocks) -> None:
        # named as a page of no components, of which Gradio would compose the configuration at each page's first call
        super().__init__(SimpleNamespace(default_config=blocks.default_config, blocks={}))  # type: ignore[arg-type]
        self.config_values: dict[int, Any] = {}

    def __setitem__(self, key: int, value: Any) -> None:
        super().__setitem__(key, value)
        self.config_values.clear()

    def _update_config(self, key: int) -> None:
        """Nothing is kept."""

    def _update_value_in_config(self, key: int, value: Any) -> None:
        """Nothing is kept."""


class Holder(StateHolder):
    """Makes these for the pages of one server. Where there are too many, whoever has most of them loses the one that
    was used least recently, so that a newcomer with many names puts out nobody else's; pages that are open go last."""

    def __init__(self, owners: Owners, is_open: Callable[[str], bool]) -> None:
        super().__init__()
        self.owners, self.is_open = owners, is_open

    def update(self, session_id: str) -> None:
        """It was used now."""
        with self.lock:
            if session_id in self.session_data:
                self.session_data.move_to_end(session_id)
            clients = {session: self.owners.get(session, "") for session in self.session_data}
            others = [session for session in clients if session != session_id]
            if len(clients) > self.capacity and (evicted := dispensable(others, clients, self.is_open)):
                del self.session_data[evicted]
                self.time_last_used.pop(evicted, None)

    def __getitem__(self, session_id: str) -> SessionState:
        if session_id not in self:
            self.session_data.setdefault(session_id, Remembered(self.blocks))
        return super().__getitem__(session_id)


def keep_no_values(demo: gr.Blocks, owners: Owners, is_open: Callable[[str], bool] = lambda session: False) -> None:
    """Of a page that has been launched. is_open: whether that of a session is open."""
    demo.app.state_holder = Holder(owners, is_open)
    demo.app.state_holder.set_blocks(demo)


def give_back() -> None:
    """From now on, and for all pages of this process: few arenas, and freed memory given back every few seconds in
    which something was done."""
    libc = _glibc()
    if libc is None or _giving_back.is_set():
        return
    _giving_back.set()
    libc.mallopt(_ARENA_MAX, ARENAS)
    threading.Thread(target=_trim, args=(libc,), name="memory", daemon=True).start()


def _trim(libc: ctypes.CDLL) -> None:
    spent, before = 0.0, False
    while True:
        time.sleep(EVERY)
        worked = time.process_time() - spent > WORKED
        if worked or before:  # once more when it is over: what was in use the last time may be free by now
            libc.malloc_trim(0)  # without Python's lock: others go on
        spent, before = time.process_time(), worked


def _glibc() -> ctypes.CDLL | None:
    try:
        libc = ctypes.CDLL(None)
        return libc if libc.malloc_trim and libc.mallopt else None
    except (OSError, AttributeError, TypeError):  # another C library, or another system
        return None
