"""Plain values as the text of a JavaScript module, as its formatter would write them."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping
from typing import Any


def literal(value: Any, depth: int) -> str:
    """A value as JavaScript. An object's fields and a list's lists stand in lines of their own, a long text is broken
    at a space."""
    inner = "  " * (depth + 1)
    if isinstance(value, Mapping):
        lines = [f"{inner}{name}: {literal(item, depth + 1)}," for name, item in value.items()]
    elif isinstance(value, (list, tuple)) and any(isinstance(item, (list, tuple)) for item in value):
        lines = [f"{inner}{literal(item, depth + 1)}," for item in value]
    elif isinstance(value, str):
        return f" +\n{inner}".join(json.dumps(part, ensure_ascii=False) for part in _broken(value))
    else:
        return json.dumps(value, ensure_ascii=False)
    opening, closing = "{}" if isinstance(value, Mapping) else "[]"
    return "\n".join([opening, *lines, "  " * depth + closing])


def _broken(text: str, room: int = 100) -> list[str]:
    """The parts of a text, cut behind spaces so that none is longer than `room` characters."""
    return textwrap.wrap(text, room, drop_whitespace=False, replace_whitespace=False, break_on_hyphens=False)
