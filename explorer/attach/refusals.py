"""What a server cannot be asked or does not answer."""

from __future__ import annotations

from engines import UserError


class ServerError(UserError):
    """A server that cannot be reached, refuses, or breaks off. status: of its answer, 0 where there was none."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


class OutOfTime(ServerError):
    """The clock ran out."""


class HungUp(ServerError):
    """Whoever asked stopped or closed it."""
