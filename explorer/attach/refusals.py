"""What a server cannot be asked or does not answer, and its own words for it, fit for a sentence."""

from __future__ import annotations

from typing import Any

from engines import UserError

SAID = 200  # characters of a server's own complaint


class ServerError(UserError):
    """A server that cannot be reached, refuses, or breaks off. status: of its answer, 0 where there was none."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


class OutOfTime(ServerError):
    """The clock ran out."""


class HungUp(ServerError):
    """Whoever asked stopped or closed it."""


def complaint(body: Any) -> str:
    """What an answer says went wrong; "" where it says nothing."""
    found = body.get("error", body.get("detail", body.get("message"))) if isinstance(body, dict) else None
    if isinstance(found, dict):
        found = found.get("message")
    return short(found) if isinstance(found, str) else ""


def short(text: str) -> str:
    """At most `SAID` characters of foreign words, on one line."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return (line if len(line) <= SAID else line[:SAID] + "…").rstrip(".")
