"""A command that is told to end (SIGTERM, as by `timeout`, a scheduler or a container) ends as it does at Ctrl-C: what
was finished is kept."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def as_at_ctrl_c(wanted: bool = True) -> Iterator[None]:
    """Inside, the first SIGTERM does what SIGINT would, also where that is ignored, as for a job in the background of a
    script; a second one ends the process at once. Only the main thread may ask for it; elsewhere nothing changes."""
    if not wanted or threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        asked = signal.getsignal(signal.SIGINT)
        (asked if callable(asked) else signal.default_int_handler)(signal.SIGINT, frame)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL if before is None else before)  # None: not set from Python
