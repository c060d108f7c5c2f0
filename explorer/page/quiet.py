"""One line in the log for what a visitor sent wrong, in place of the traceback that Gradio prints; faults of our own
code keep theirs."""

from __future__ import annotations

import logging
import sys
import traceback
from pathlib import Path
from types import SimpleNamespace, TracebackType

import gradio.queueing
import gradio.routes

from engines import UserError

OURS = tuple(str(Path(__file__).resolve().parents[2] / part) for part in ("engines", "explorer"))
SAID = 200  # characters of a complaint, which may quote what was sent
log = logging.getLogger("decoding-explorer")


def install() -> None:
    """From now on Gradio's routes and its queue report failures here."""
    short = SimpleNamespace(**{**vars(traceback), "print_exc": report})
    gradio.routes.traceback = short  # type: ignore[attr-defined]
    gradio.queueing.traceback = short  # type: ignore[attr-defined]


def report() -> None:
    """Log the exception that is handled now."""
    kind, error, trace = sys.exc_info()
    if error is None or kind is None:
        return
    if passed_ours(trace) and not isinstance(error, UserError):
        log.error("a handler failed", exc_info=error)
        return
    said = " ".join(str(error).encode("ascii", "backslashreplace").decode().split())[:SAID]
    log.warning("a request was refused: %s: %s", kind.__name__, "".join(c for c in said if c.isprintable()))


def passed_ours(trace: TracebackType | None) -> bool:
    """Whether it went through a handler of ours, and not only through the checks that Gradio makes before one. The
    guard and the packing are around every request, so they do not count."""
    files = (frame.filename for frame in traceback.extract_tb(trace))
    return any(file.startswith(OURS) and not file.endswith(("guard.py", "early.py", "clients.py")) for file in files)
