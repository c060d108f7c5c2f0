"""The Markdown of `assets/docs` as HTML: headings, paragraphs, lists, tables, code, **bold**, *slanted*, links,
pictures. Every text is escaped; what is none of these stays the text that it is."""

import html
from collections.abc import Callable

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

from explorer.export.markup import Html, h, join, table
from explorer.papers.tables import anchor

READER = MarkdownIt("commonmark", {"html": False}).enable("table").disable(["html_block", "html_inline", "entity"])
Resolve = Callable[[str], str]  # the target of a link -> its address on this site; empty where there is none


def markdown(text: str, *, shift: int = 0, places: bool = False, resolve: Resolve = str) -> Html:
    """shift: how many levels headings move up. places: headings get the anchors that GitHub gives them."""

    def made(node: SyntaxTreeNode) -> Html:
        kind, inside = node.type, [made(child) for child in node.children]
        if kind == "text":
            return Html(html.escape(node.content, quote=False))
        if kind == "softbreak":
            return Html(" ")
        if kind == "heading":
            level = max(1, int(node.tag[1]) - shift)
            return h(f"h{level}", {"id": anchor(node.children[0].content)} if places else {}, *inside)
        if kind in ("fence", "code_block"):
            return h("pre", {"tabindex": "0"} if places else {}, node.content.removesuffix("\n"))
        if kind == "code_inline":
            return h("code", {}, node.content)
        if kind == "table":
            lines = [row.children for part in node.children for row in part.children]
            heads, *rows = [[made(cell.children[0]) for cell in line] for line in lines]
            return table(heads, rows)
        if kind in ("link", "image"):
            return _leading(node, join(*inside), resolve)
        hidden = kind in ("root", "inline") or node.hidden  # such as the paragraphs of a list without empty lines
        return join(*inside) if hidden else h(node.tag, {}, *inside)

    return made(SyntaxTreeNode(READER.parse(text)))


def _leading(node: SyntaxTreeNode, words: Html, resolve: Resolve) -> Html:
    """A link or a picture, whose words stand alone where it leads nowhere."""
    address = resolve(str(node.attrs.get("href") or node.attrs.get("src")))
    if not address:
        return words
    if node.type == "image":
        return h("img", {"src": address, "alt": node.content, "loading": "lazy"})
    return h("a", {"href": address, **({"rel": "noreferrer"} if address.startswith("https://") else {})}, words)


def prose(text: str) -> Html:
    """A part of a text, whose heading of third level is a head of the page."""
    return markdown(text, shift=1)
