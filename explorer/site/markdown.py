"""The Markdown of `assets/docs` as HTML: headings, paragraphs, lists, tables, code, **bold**, *slanted*, links,
pictures. Every text is escaped; what is none of these stays the text that it is."""

import html
import re
from collections.abc import Callable, Iterator

from explorer.export.markup import Html, h, join, table
from explorer.papers.tables import anchor

HEAD = re.compile(r"(#{1,4}) (.+)")
ITEM = re.compile(r"(?:[-*]|\d+\.) +(.*)")
INLINE = re.compile(
    r"`(?P<code>[^`]+)`|\*\*(?P<bold>.+?)\*\*|\*(?P<slanted>[^*]+)\*|(?P<picture>!)?\[(?P<words>[^\]]*)\]\((?P<to>[^)\s]+)\)"
)
Resolve = Callable[[str], str]  # the target of a link -> its address on this site; empty where there is none


def markdown(text: str, *, shift: int = 0, places: bool = False, resolve: Resolve = str) -> Html:
    """shift: how many levels headings move up. places: headings get the anchors that GitHub gives them."""
    out: list[Html] = []
    for block in _blocks(text):
        if head := HEAD.fullmatch(block[0]):
            level = max(1, len(head[1]) - shift)
            out.append(h(f"h{level}", {"id": anchor(head[2])} if places else {}, inline(head[2], resolve)))
        elif block[0].startswith("```"):
            out.append(h("pre", {"tabindex": "0"} if places else {}, "\n".join(block[1:])))
        elif block[0].startswith("    "):
            out.append(h("pre", {"tabindex": "0"} if places else {}, "\n".join(line[4:] for line in block)))
        elif block[0].startswith("|"):
            cells = ([cell.strip() for cell in line.strip().strip("|").split("|")] for line in block)
            rows = [[inline(cell, resolve) for cell in row] for row in cells]
            out.append(table(rows[0], rows[2:]))
        elif ITEM.match(block[0]):
            kind = "ol" if block[0][0].isdigit() else "ul"
            out.append(h(kind, {}, [h("li", {}, inline(bullet, resolve)) for bullet in _items(block)]))
        else:
            out.append(h("p", {}, inline(" ".join(block), resolve)))
    return join(*out)


def prose(text: str) -> Html:
    """A part of a text, whose heading of third level is a head of the page."""
    return markdown(text, shift=1)


def _blocks(text: str) -> Iterator[list[str]]:
    """Lines that belong together: a heading alone, code up to its fence, else up to an empty line or another kind."""
    block: list[str] = []
    for line in [*text.split("\n"), ""]:
        code = bool(block) and block[0].startswith("```")
        if code and line.startswith("```"):
            yield block
            block = []
        elif code:
            block.append(line)
        elif block and (not line.strip() or _kind(line) not in ("", _kind(block[0]))):
            yield block
            block = [line] if line.strip() else []
        elif line.strip():
            block.append(line)
        if len(block) == 1 and HEAD.fullmatch(block[0]):
            yield block
            block = []


def _kind(line: str) -> str:
    """What a line begins; empty for one that may go on with what is before it."""
    return next((start for start in ("```", "|", "#") if line.startswith(start)), "item" if ITEM.match(line) else "")


def _items(block: list[str]) -> Iterator[str]:
    parts: list[str] = []
    for line in block:
        if item := ITEM.match(line):
            if parts:
                yield " ".join(parts)
            parts = [item[1]]
        else:
            parts.append(line.strip())
    yield " ".join(parts)


def inline(text: str, resolve: Resolve = str) -> Html:
    """Code, emphasis and links within a line."""
    out, at = [], 0
    for match in INLINE.finditer(text):
        out.append(html.escape(text[at : match.start()], quote=False))
        out.append(_marked(match, resolve))
        at = match.end()
    return Html("".join([*out, html.escape(text[at:], quote=False)]))


def _marked(match: re.Match[str], resolve: Resolve) -> str:
    if match["code"] is not None:
        return h("code", {}, match["code"])
    if match["bold"] is not None:
        return h("strong", {}, inline(match["bold"], resolve))
    if match["slanted"] is not None:
        return h("em", {}, inline(match["slanted"], resolve))
    address = resolve(match["to"])
    away = {"rel": "noreferrer"} if address.startswith("https://") else {}
    if address and match["picture"]:
        return h("img", {"src": address, "alt": match["words"], "loading": "lazy"})
    words = inline(match["words"], resolve)
    return h("a", {"href": address, **away}, words) if address else words
