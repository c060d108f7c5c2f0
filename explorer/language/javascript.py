"""The messages of a JavaScript module: what is tagged with `tr`."""

import re
from collections.abc import Iterator

TAG = "tr`"
_COMMENT = re.compile(r"^[ \t]*(?://|/?\*).*\n", re.MULTILINE)  # whole lines: others may be in a text
_ESCAPE = re.compile(r"\\(\n|u\{?[0-9a-fA-F]+\}?|.)", re.DOTALL)


def messages(source: str) -> Iterator[str]:
    """Each template behind `tr`, its places numbered from 0 as the player's words.js does it."""
    source = _COMMENT.sub("", source)
    for match in re.finditer(r"(?<![\w$])" + re.escape(TAG), source):
        yield _template(source, match.end())


def _template(source: str, at: int) -> str:
    """The text of the template that begins at `at`, behind its backtick."""
    parts, places = [], 0
    while source[at] != "`":
        if source.startswith("${", at):
            parts.append(f"{{{places}}}")
            places += 1
            at = _expression(source, at + 2)
        elif source[at] == "\\":
            escape = _ESCAPE.match(source, at)
            assert escape is not None
            parts.append({"\n": "", "n": "\n"}.get(escape[1], escape[1]))
            at = escape.end()
        else:
            parts.append(source[at])
            at += 1
    return "".join(parts)


def _expression(source: str, at: int) -> int:
    """Where the expression of a place ends: behind its closing brace."""
    depth = 0
    while depth or source[at] != "}":
        if source[at] == "`":
            at = _skip_template(source, at + 1)
            continue
        if source[at] in "\"'":
            at = _skip_string(source, at)
            continue
        depth += {"{": 1, "}": -1}.get(source[at], 0)
        at += 1
    return at + 1


def _skip_template(source: str, at: int) -> int:
    while source[at] != "`":
        at = _expression(source, at + 2) if source.startswith("${", at) else at + 1 + (source[at] == "\\")
    return at + 1


def _skip_string(source: str, at: int) -> int:
    quote, at = source[at], at + 1
    while source[at] != quote:
        at += 1 + (source[at] == "\\")
    return at + 1
