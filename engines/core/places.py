"""A path that a person typed, where the program's own data lies, and where what can be made again is kept."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engines.core.errors import UserError

ASSETS = Path(__file__).resolve().parents[2] / "assets"  # the program's own data
LONGEST, NAME = 4096, 255  # bytes of a path, and of one name in it, that a file system takes


def cache_home() -> Path:
    """The folder of what can be made again: below $XDG_CACHE_HOME or ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "decoding-explorer"


def assets() -> Path:
    """The folder of models, parts, stores and tasks: `ASSETS`, or what the variable DECODING_EXPLORER_ASSETS names."""
    given = os.environ.get("DECODING_EXPLORER_ASSETS")
    return Path(given) if given else ASSETS


def kept(name: str) -> dict[str, Any]:
    """What a file of that name holds in there as JSON; nothing where it is missing or damaged."""
    return _read(name) or {}


def is_damaged(name: str) -> bool:
    """Whether a file of that name is there and cannot be read, or holds no JSON object."""
    return _read(name) is None


def _read(name: str) -> dict[str, Any] | None:
    """What the file holds, nothing where it is missing; None where it is damaged."""
    try:
        content = json.loads((cache_home() / name).read_text())
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def keep(name: str, held: Mapping[str, Any]) -> None:
    """Write such a file whole; where that cannot be, what it held is made again."""
    file = cache_home() / name
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(f".{os.getpid()}")
        part.write_text(json.dumps(held, indent=0))
        os.replace(part, file)
    except OSError:
        return


def expanded(given: str) -> Path:
    """The path, with ~ filled in. Raises UserError for what can be no path: a home that is not there, a name that is
    too long, a NUL."""
    raw = os.fsencode(given) if given.isprintable() else given.encode("utf-8", "replace")
    if "\0" in given or len(raw) > LONGEST or max(map(len, raw.split(b"/"))) > NAME:
        raise UserError(
            f"'{given[:60]}' can be no path: {len(raw):,} bytes, of which a name may have {NAME}; give a shorter one."
        )
    try:
        return Path(given).expanduser()
    except RuntimeError:
        raise UserError(f"'{given[:60]}' begins with the home of a user who is not known here; write it out.") from None
