"""How an answer ended: the server's own reason, and its words for what went wrong. Nothing in them is trusted."""

from collections.abc import Mapping
from typing import Any

from explorer.importers.build import DEEPEST, short
from explorer.importers.choices import numbered

CUT = "The server closed the answer before its end."
BROKEN = {"abort", "aborted", "cancelled", "canceled", "error", "insufficient_system_resource"}  # reasons to end
FINE = {"0", "200", "ok", "success"}  # codes that say that nothing is wrong


def ending(finish: str, error: str) -> tuple[str, str]:
    """(reason, message) of an answer with this finish reason, "" where it has none, and the server's own words for what
    went wrong."""
    if error:
        return "failed", f"The server broke off: {error}."
    if not finish:
        return "failed", CUT
    if finish.lower() in BROKEN:
        return "failed", f"The server broke off with '{short(finish)}'."
    return "complete", ""


def finished(finish: str) -> str:
    """A sentence on the server's own word for why an answer ended."""
    return f"The server ended with '{short(finish)}'."


def failure(body: Mapping[str, Any]) -> str:
    """What an event says went wrong; nothing where it is none that fails. `error` may stand in any event, or in its
    choice; the other words mean one in an event without an answer alone."""
    choices = numbered(body).values()
    if error := next((fault for place in (body, *choices) if (fault := place.get("error"))), None):
        return complaint({"error": error}) or short(str(error))
    if choices or "content" in body or isinstance(body.get("meta_info"), dict):
        return ""
    coded = "message" in body or "msg" in body
    code = body.get("error_code") or (body.get("code") if coded else None)
    wrong = bool(code) and str(code).lower() not in FINE
    wrong |= any(body.get(name) for name in ("error_msg", "error_message", "errors", "detail"))
    wrong |= body.get("object") == "error" or (coded and body.get("success") is False)
    return (complaint(body) or short(f"error {code or ''}")) if wrong else ""


def complaint(body: Any) -> str:
    """The words of an answer for what went wrong; "" where it has none."""
    return short(_said(body, 0))


def _said(error: Any, depth: int) -> str:
    if isinstance(error, str):
        return error
    if depth > DEEPEST:
        return ""
    if isinstance(error, list):
        return "; ".join(message for inner in error[:8] if (message := _said(inner, depth + 1)))
    if not isinstance(error, dict):
        return ""
    names = ("error", "errors", "detail", "message", "error_msg", "error_message", "msg", "text", "error_type")
    return next((message for name in names if (message := _said(error.get(name), depth + 1))), "")
