"""The parts of the README that are generated from data: `python -m explorer.features README.md` (with --check only compares).

A part stands between `<!-- name: generated ... -->` and `<!-- /name -->`. Edit the data and run the command again; a test holds that they agree.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

from explorer import papers

WIDTH = 150


def wrapped(text: str) -> str:
    """A paragraph at the width of the README."""
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)


PARTS: dict[str, Callable[[], str]] = {"papers": lambda: wrapped(papers.sentence())}


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
