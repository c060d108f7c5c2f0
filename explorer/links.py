"""Links that open runs: `?run=ID,ID&step=N&of=K&clock=forwards&lane=NAME`, `?gallery=NAME`, or
`?scene=NAME`. Everything in a link is checked like any input."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from engines import UserError

SLOTS = 4  # players of a page
MAX_QUERY = 2000  # characters
MAX_STEP = 10**6
CLOCKS = ("steps", "forwards", "seconds", "work")


@dataclass(frozen=True)
class Link:
    """What a query asks for: names of kept or recorded runs in the order of the players, or a scene; where to go."""

    names: tuple[str, ...]
    view: dict[str, Any]
    scene: str = ""


def parts_of(query: object) -> dict[str, str]:
    """What a query says, by name. Raises UserError for one that cannot be read."""
    if not isinstance(query, str) or len(query) > MAX_QUERY:
        raise UserError(f"the address is longer than {MAX_QUERY} characters; copy it again.")
    try:
        return {
            name: values[-1].strip() for name, values in parse_qs(query.removeprefix("?"), max_num_fields=20).items()
        }
    except ValueError:
        raise UserError("the address has more than 20 parts; copy it again.") from None


def read_query(query: object) -> Link | None:
    """The link in a query; None if it names no run. Raises UserError for one that cannot be followed."""
    parts = parts_of(query)
    names = tuple(name.strip() for key in ("run", "gallery") for name in parts.get(key, "").split(",") if name.strip())
    scene = "" if names else parts.get("scene", "")
    if not names and not scene:
        return None
    if len(names) > SLOTS:
        raise UserError(f"the link names {len(names)} runs; at most {SLOTS} are shown at once.")
    view: dict[str, Any] = {}
    if clock := parts.get("clock"):
        if clock not in CLOCKS:
            raise UserError(f"clock={clock[:40]} in the link is not known; choose one of {', '.join(CLOCKS)}.")
        view["clock"] = clock
    for name, most in (("step", MAX_STEP), ("of", len(names) or SLOTS)):
        if text := parts.get(name):
            if not (text.isascii() and text.isdigit() and len(text) < 8 and int(text) <= most):
                raise UserError(f"{name}={text[:40]} in the link is not allowed; give a whole number up to {most:,}.")
            view[name] = int(text)
    if lane := parts.get("lane"):
        view["lane"] = lane[:80]
    return Link(names, view, scene)
