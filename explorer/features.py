"""The parts of the README that are generated from data: `python -m explorer.features README.md` (with --check only compares).

A part stands between `<!-- name: generated ... -->` and `<!-- /name -->`. Edit the data and run the command again; a test holds that they agree.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Literal

import msgspec

from explorer import ASSETS, papers

WIDTH = 150
FILE = ASSETS / "features.json"
MARKS = {"yes": "● yes", "partly": "◐ partly", "no": "○ no"}


class Feature(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Something that people ask of such a tool, whether it is here, where, and the test that proves it."""

    group: str
    feature: str
    state: Literal["yes", "partly", "no"]
    where: str = ""
    test: str = ""


def features() -> list[Feature]:
    """All features, in the order of the file. Raises msgspec.ValidationError with the place of the fault."""
    return msgspec.json.decode(FILE.read_bytes(), type=list[Feature])


def table() -> str:
    """The features as a table of the README, a line for each group in front of its own."""
    found = features()
    lines = ["| feature | state | where |", "|---|---|---|"]
    for group, held in groupby(found, key=lambda one: one.group):
        lines.append(f"| **{group}** | | |")
        lines += [f"| {one.feature} | {MARKS[one.state]} | {one.where or '–'} |" for one in held]
    n = {state: sum(one.state == state for one in found) for state in MARKS}
    head = f"{len(found)} things that people ask of such a tool: {n['yes']} are here, {n['partly']} partly, {n['no']} not."
    return wrapped(f"{head} The test that proves each stands beside it in `assets/features.json`.") + "\n\n" + "\n".join(lines)


def wrapped(text: str) -> str:
    """A paragraph at the width of the README."""
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)


PARTS: dict[str, Callable[[], str]] = {"papers": lambda: wrapped(papers.sentence()), "features": table}


def filled(text: str) -> str:
    """The document with every generated part written anew. Raises ValueError where a part has no place."""
    for name, made in PARTS.items():
        place = re.compile(rf"(<!-- {name}: [^>]*-->\n).*?(<!-- /{name} -->)", re.DOTALL)
        if len(place.findall(text)) != 1:
            raise ValueError(f"the document needs one place '<!-- {name}: generated -->' ... '<!-- /{name} -->'.")
        body = made()
        text = place.sub(lambda found, body=body: f"{found[1]}{body}\n{found[2]}", text)  # type: ignore[misc]
    return text


def main(argv: list[str]) -> int:
    """Write the parts into the named file; with --check say whether it is up to date (exit status 1 if not)."""
    check, names = "--check" in argv, [name for name in argv if name != "--check"]
    path = Path(names[0] if names else "README.md")
    old = path.read_text(encoding="utf-8")
    new = filled(old)
    if check:
        print(f"{path} {'is up to date' if new == old else 'is not what the data say; run this command without --check'}")
        return int(new != old)
    path.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
