"""The messages of a JavaScript module: what is tagged with `tr`."""

from collections.abc import Iterator

from tree_sitter import Node, Query, QueryCursor

from explorer.export.modules import JAVASCRIPT, tree

_TAGGED = Query(
    JAVASCRIPT,
    """(
      (call_expression
        [(identifier) @tag (member_expression property: (property_identifier) @tag)]
        (template_string) @text)
      (#eq? @tag "tr"))""",
)
_ESCAPED = {"\n": "", "n": "\n"}  # a line end that is left out, and one that is meant


def messages(source: str) -> Iterator[str]:
    """Each template behind `tr`, its places numbered from 0 as the player's words.js does it."""
    nodes = QueryCursor(_TAGGED).captures(tree(source)).get("text", ())
    return (_text(node) for node in sorted(nodes, key=lambda node: node.start_byte))


def _text(template: Node) -> str:
    parts, places = [], 0
    for node in template.named_children:
        text = (node.text or b"").decode()
        if node.type == "template_substitution":
            text, places = f"{{{places}}}", places + 1
        elif node.type == "escape_sequence":
            text = _ESCAPED.get(text[1:], text[1:])
        parts.append(text)
    return "".join(parts)
