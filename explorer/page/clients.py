"""Who asks: the address that a visitor's share of the host is counted under."""

from __future__ import annotations

import os
from typing import Any

FULL = "queue_full"  # Gradio's name for what is answered with status 503
WAITING_EACH = 4  # runs of one address that may wait on a public host


def client_of(request: Any) -> str:
    """The address of the visitor behind a request (Starlette's, or Gradio's of an event).

    Behind EXPLORER_TRUSTED_PROXIES proxies (1 on a Space, else 0) it is what the outermost of them wrote into
    X-Forwarded-For; what stands to the left of that is the visitor's own claim and is not read."""
    peer = getattr(getattr(request, "client", None), "host", "") or ""
    told = request.headers.get("x-forwarded-for", "") if proxies() else ""
    named = [one.strip() for one in told.split(",") if one.strip()]
    return named[-min(proxies(), len(named))] if named else peer


def proxies() -> int:
    """How many proxies in front of this server are trusted. Raises SystemExit for a setting that is no number."""
    text = os.environ.get("EXPLORER_TRUSTED_PROXIES", "").strip() or ("1" if os.environ.get("SPACE_ID") else "0")
    if not (text.isascii() and text.isdigit() and len(text) < 3):
        raise SystemExit(f"EXPLORER_TRUSTED_PROXIES={text[:40]} is not allowed; give a number from 0 to 99.")
    return int(text)


def share(queue: Any, most: int = WAITING_EACH) -> None:
    """Let at most `most` events of one address wait in a queue of Gradio; the next one is refused with a sentence."""
    push = queue.push

    async def pushed(body: Any, request: Any, username: str | None) -> Any:
        waiting = [event for one in queue.event_queue_per_concurrency_id.values() for event in one.queue]
        if sum(client_of(event.request) == client_of(request) for event in waiting) >= most:
            return False, f"{most} of your runs wait already; the next can be started when one of them is done.", FULL
        return await push(body, request, username)

    queue.push = pushed
