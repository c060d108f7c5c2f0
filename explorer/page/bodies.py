"""What a request may bring: a bounded body, looked at before anybody parses it."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

VALUES, DEPTH = 2000, 20  # of a call's JSON: commas and brackets, brackets within each other; texts not looked into
TEXT = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)', re.DOTALL)  # an open one ends with the body: linear time
PATIENCE = 60.0  # seconds in which a body has to be here
NO_SIGNS = bytes(set(range(256)) - set(b"[]{},"))
HALF = re.compile(rb"\\u[dD][89a-fA-F]")  # an escape of half a character, which may be whole with the next one
NAME = re.compile(r"[\w-]{1,64}")


class Refusal(Exception):
    """A status and one sentence for the client."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def bounded(receive: Any, limit: int) -> Any:
    """A receive that raises Refusal behind so many bytes."""
    seen = 0

    async def checked() -> Any:
        nonlocal seen
        message = await receive()
        if message["type"] == "http.request":
            seen += len(message.get("body", b""))
            if seen > limit:
                raise Refusal(413, f"The request is larger than {limit:,} bytes.")
        return message

    return checked


async def whole(receive: Any, limit: int) -> tuple[Any, str]:
    """A receive that gives the whole body at once, checked, and the session that it names. Raises Refusal."""
    checked, parts, more = bounded(receive, limit), list[bytes](), True
    try:
        async with asyncio.timeout(PATIENCE):
            while more:
                message = await checked()
                if message["type"] != "http.request":
                    return _first(message, receive), ""
                parts.append(message.get("body", b""))
                more = message.get("more_body", False)
    except TimeoutError:
        raise Refusal(408, f"The request was not here after {PATIENCE:g} seconds.") from None
    body = b"".join(parts)
    session = check_body(body)
    return _first({"type": "http.request", "body": body, "more_body": False}, receive), session


def _first(message: Any, receive: Any) -> Any:
    waiting = [message]

    async def again() -> Any:
        return waiting.pop() if waiting else await receive()

    return again


def check_body(body: bytes) -> str:
    """The session that it names; "" for none.

    Raises Refusal for a call that no page makes: more or deeper values than it sends (Gradio walks through them on the
    event loop), a file by its path or address (Gradio would fetch it), a session or event whose name is none (Gradio
    keeps it), half of a character (no answer can hold it)."""
    if b"\0" in body:  # JSON in another encoding, where a quote is no quote
        raise Refusal(400, "The request is not JSON in UTF-8.")
    signs = TEXT.sub(b"", body).translate(None, delete=NO_SIGNS)
    if len(signs) > 2 * VALUES:
        raise Refusal(400, f"The request holds more than {VALUES:,} values.")
    depth = 0
    for sign in signs:
        depth += (sign in b"[{") - (sign in b"]}")
        if depth > DEPTH:
            raise Refusal(400, f"The request is nested more than {DEPTH} deep.")
    try:
        told = json.loads(body) if body else {}
    except (ValueError, RecursionError):
        return ""  # Gradio says what is wrong with it
    if HALF.search(body) and not _whole_characters(told):
        raise Refusal(400, "The request holds half of a character (a lone surrogate); take it out.")
    for key in ("session_hash", "event_id"):
        name = told.get(key) if isinstance(told, dict) else None
        if name is not None and not (isinstance(name, str) and NAME.fullmatch(name)):
            raise Refusal(400, f"{key} is no name of letters, digits and hyphens of at most 64 characters.")
    if _names_file(told):
        raise Refusal(400, "The request names a file, and no file is taken here.")
    return str(told.get("session_hash") or "") if isinstance(told, dict) else ""


def _whole_characters(told: Any) -> bool:
    """Whether all its texts can be answered with: Gradio repeats a wrong value in an answer, which then has no end."""
    try:
        json.dumps(told, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _names_file(told: Any) -> bool:
    """Whether some object is what Gradio takes for a file: one with `meta`, which nothing of this page has."""
    waiting = [told]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            if "meta" in value:
                return True
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
    return False
