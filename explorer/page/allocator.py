"""Memory that was freed goes back to the system.

glibc keeps it: in one arena for each thread that ever allocated (a server has dozens, and each may keep what one large
upload took), and below whatever lies at the end of an arena. Two arenas are enough for two threads that compute, and
`malloc_trim` hands back whole free pages wherever they lie. Where the C library is another one, nothing is done."""

from __future__ import annotations

import ctypes
import threading
import time

ARENAS = 2
EVERY = 10.0  # seconds between two looks
WORKED = 0.02  # processor seconds between two looks, behind which there may be something to give back
_ARENA_MAX = -8  # M_ARENA_MAX of malloc.h
_watching = threading.Event()


def watch() -> None:
    """From now on, and for all pages of this process: few arenas, and freed memory given back every few seconds in
    which something was done."""
    libc = _glibc()
    if libc is None or _watching.is_set():
        return
    _watching.set()
    libc.mallopt(_ARENA_MAX, ARENAS)
    threading.Thread(target=_trim, args=(libc,), name="allocator", daemon=True).start()


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
