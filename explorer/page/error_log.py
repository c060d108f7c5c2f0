"""One line in the log for what a visitor sent wrong, in place of the traceback that Gradio prints, and one sentence for
whoever sent it, to whom Gradio says nothing; faults of our own code keep their traceback."""

import logging
import sys
import traceback
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import Any

import gradio.queueing
import gradio.routes
import gradio.utils
from gradio.exceptions import Error
from starlette.responses import JSONResponse

from engines import UserError

OURS = tuple(str(Path(__file__).resolve().parents[2] / part) for part in ("engines", "explorer"))
SAID = 200  # characters of a complaint, which may quote what was sent
FAILED = "the server failed at this call; its log says what happened."
UNFIT = "a value of this call is not what it takes ({}); /gradio_api/info lists what each takes."
Payload = dict[str, bool | str | float | None]
log = logging.getLogger("decoding-explorer")
_gradios = gradio.utils.error_payload


def install() -> None:
    """From now on Gradio's routes and its queue report failures here."""
    short = SimpleNamespace(**{**vars(traceback), "print_exc": report})
    gradio.routes.traceback = short  # type: ignore[attr-defined]
    gradio.queueing.traceback = short  # type: ignore[attr-defined]
    gradio.utils.error_payload = gradio.queueing.error_payload = payload
    gradio.routes.JSONResponse = Answer  # type: ignore[misc]


def report() -> None:
    """Log the exception that is handled now."""
    kind, error, trace = sys.exc_info()
    if error is None or kind is None:
        return
    if passed_ours(trace) and not isinstance(error, UserError):
        log.error("a handler failed", exc_info=error)
        return
    log.warning("a request was refused: %s: %s", kind.__name__, _complaint(error))


def payload(error: BaseException | None, show_error: bool) -> Payload:
    """What a call is answered that failed: a handler's own words where it gave some, else who is at fault."""
    if error is None or isinstance(error, Error):
        return _gradios(error, show_error)
    if isinstance(error, UserError):
        return {"error": str(error), "visible": True}
    reason = _complaint(error).partition(". ")[0].rstrip(".")
    return {"error": FAILED if passed_ours(error.__traceback__) else UNFIT.format(reason), "visible": True}


class Answer(JSONResponse):
    """What a call beside the queue is answered: Gradio says 500 for whatever it refuses, too."""

    def __init__(self, content: Any, status_code: int = 200, **more: Any) -> None:
        refused = status_code == 500 and isinstance(content, dict) and content.get("error") not in (None, FAILED)
        super().__init__(content, 400 if refused else status_code, **more)


def _complaint(error: BaseException) -> str:
    message = " ".join(str(error).encode("ascii", "backslashreplace").decode().split())[:SAID]
    return "".join(c for c in message if c.isprintable())


def passed_ours(trace: TracebackType | None) -> bool:
    """Whether it went through a handler of ours, and not only through the checks that Gradio makes before one. The
    guard and the packing are around every request, so they do not count."""
    files = (frame.filename for frame in traceback.extract_tb(trace))
    return any(
        file.startswith(OURS) and not file.endswith(("guard.py", "compression.py", "visitor_address.py"))
        for file in files
    )
