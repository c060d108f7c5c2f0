"""README.md and the texts of `assets/docs`: reading them, and the parts of them that are generated from data.

    python -m explorer.papers.documents            writes those parts, in all texts or in the named files
    python -m explorer.papers.documents --check    only compares; exit status 1 if one is out of date

A part is between `<!-- name: generated ... -->` and `<!-- /name -->`. Edit the data and run the command again; a test
holds that they agree."""

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from engines import ASSETS
from explorer import papers
from explorer.arguments import Parser, made_anew, of_module
from explorer.figures.definitions import KINDS
from explorer.papers.tables import wrapped

DOCS = ASSETS / "docs"
PICTURES = DOCS / "pictures"
COMMENT = re.compile(r"<!--.*?-->\n?", re.DOTALL)
ORDER = (
    "using", "teaching", "models", "measuring", "watch", "own-method", "command-line", "hosting", "training", "design",
)  # fmt: skip


# --- reading


def documents() -> dict[str, str]:
    """Name -> title of every text of `assets/docs`, in the order of reading; a new one comes last."""
    paths = sorted(DOCS.glob("*.md"), key=lambda path: (path.stem not in ORDER, [*ORDER, path.stem].index(path.stem)))
    return {path.stem: _title(path) for path in paths}


def _title(path: Path) -> str:
    with path.open(encoding="utf-8") as file:
        return file.readline().removeprefix("# ").strip()


def document(name: str) -> str:
    """The Markdown of one of them, its generated parts as the data are now, without comments. Raises KeyError for a
    name that is none of them."""
    if name not in documents():
        raise KeyError(name)
    return COMMENT.sub("", filled((DOCS / f"{name}.md").read_text(encoding="utf-8")))


def section(name: str, head: str) -> str:
    """The part of a document under a heading, with the heading as one of third level. Where it is not installed, one
    sentence that says so: a page without a text is better than no page."""
    try:
        text = document(name)
    except (KeyError, OSError, UnicodeError):
        return f"### {head}\nThe text assets/docs/{name}.md is not installed.\n"
    match = re.search(rf"^## {re.escape(head)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return f"### {head}\n{match[1].strip() if match else f'assets/docs/{name}.md has no such part.'}\n"


# --- generated parts


PARTS: dict[str, Callable[[], str]] = {
    "papers": lambda: wrapped(papers.sentence()),
    "kinds": lambda: "\n".join(f"- **{kind}**: {text}" for kind, text in KINDS.items()),
    "docs": lambda: wrapped(" · ".join(f"[{title}](assets/docs/{name}.md)" for name, title in documents().items())),
}


def filled(text: str) -> str:
    """The document with each of its generated parts written anew. Raises ValueError for a part that is unknown, has no
    end or is there twice."""
    opened = re.findall(r"^<!-- (\w+): generated", text, re.MULTILINE)
    for name in opened:
        place = re.compile(rf"(<!-- {name}: [^>]*-->\n).*?(<!-- /{name} -->)", re.DOTALL)
        if name not in PARTS or len(place.findall(text)) != 1 or opened.count(name) > 1:
            raise ValueError(
                f"'{name}' is no generated part with one end '<!-- /{name} -->'; there is {', '.join(PARTS)}."
            )
        body = PARTS[name]()
        text = place.sub(lambda match, body=body: f"{match[1]}{body}\n{match[2]}", text)  # type: ignore[misc]
    return text


def _options(parser: Parser) -> None:
    parser.add_argument("--check", action="store_true", help="write nothing; exit status 1 if a part is out of date")
    parser.add_argument("files", nargs="*", metavar="FILE", type=Path, help="without one, README.md and assets/docs")


def main(argv: Sequence[str] | None = None) -> int:
    """Write the parts into the named files, all documents if none is named; with --check say whether they are up to
    date (exit status 1 if one is not)."""
    asked = of_module("explorer.papers.documents", __doc__, argv, _options)
    paths = asked.files or [ASSETS.parent / "README.md", *sorted(DOCS.glob("*.md"))]
    return made_anew({path: filled(path.read_text("utf-8")) for path in paths}, asked.check)


if __name__ == "__main__":
    sys.exit(main())
