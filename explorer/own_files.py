"""The program's own data: a file that is missing or damaged is named, with what to do."""

from typing import Any

import msgspec

from engines import ASSETS, UserError, texts

RESTORE = "restore it with `git checkout -- assets`, or install the program again"


def own_text(name: str) -> str:
    """The text of a file of `assets`. Raises UserError."""
    try:
        return texts.decoded((ASSETS / name).read_bytes())
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or "it is not text"
        raise UserError(f"{ASSETS / name} cannot be read ({why}); {RESTORE}.") from None


def own_json(name: str, kind: Any = Any) -> Any:
    """The JSON of a file of `assets`, checked against `kind`. Raises UserError."""
    text = own_text(name)
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise UserError(f"{ASSETS / name} is damaged ({error}); {RESTORE}.") from None
