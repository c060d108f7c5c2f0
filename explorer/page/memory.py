"""What Gradio remembers of each page, without what the page showed; and freed memory, which goes back to the system.

Gradio copies the configuration of all components for every page and keeps in it each value that a handler was given or
answered, until long after the page was closed. It makes deep links of that, of which this page has none; a trace of two
million characters that was opened stayed there as four megabytes.

glibc keeps what was freed: in one arena for each thread that ever allocated (a server has dozens, and each may keep
what one large upload took), and below whatever lies at the end of an arena. Two arenas are enough for two threads that
compute, and `malloc_trim` hands back whole free pages wherever they lie. With another C library nothing is done."""

import ctypes
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import gradio as gr
from gradio.state_holder import SessionState, StateHolder
from gradio.utils import LRUCache

from explorer.page.sessions import dispensable

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
