"""Reading a loop that writes left to right."""

from __future__ import annotations

from typing import Any

from engines.core.errors import UserError
from engines.watching.turn import Reading


class CausalReader:
    """The calls of one module or several."""

    def __init__(self, main: str, full: bool, prompt: list[int] | None) -> None:
        raise UserError("loops that write left to right cannot be watched yet.")

    def before(self, call: Any, cache: Any) -> None:
        """Before a forward."""

    def after(self, call: Any, logits: Any, cache: Any) -> None:
        """After it."""

    def readings(self, outputs: list[list[int]] | None) -> list[Reading]:
        """What was read."""
        return []
