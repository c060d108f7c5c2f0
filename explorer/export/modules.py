"""The client's ES modules as classic scripts: each becomes a function of a registry (`assets/client/modules.js`), so
that a page works from disk, where browsers refuse modules, and a served page asks for one file in place of eighty."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

import tree_sitter_javascript
from tree_sitter import Language, Parser

if TYPE_CHECKING:
    from tree_sitter import Node

JAVASCRIPT = Language(tree_sitter_javascript.language())


class Module:
    """A module of that name, its place below the client's folder. Raises ValueError for one that uses a
    form that has no place in a function: a default, a package, `import.meta`, an export of what stands elsewhere. A
    mistake of syntax is left to the browser, which names it."""

    def __init__(self, name: str, text: str) -> None:
        self.name, self._text = name, text.encode()
        self.imports: list[str] = []
        """The names of the modules that it imports; those that it loads later are not among them."""
        self.classes: list[str] = []
        """The names of the classes that it exports."""
        self._exports: list[str] = []
        self._edits: list[tuple[int, int, str]] = []
        self._root = tree(text)
        if "</script" in text or "<!--" in text:
            raise ValueError(f"{name} holds text that would end a script in a page: '</script' or '<!--'")
        for node in self._root.children:
            if node.type == "import_statement":
                self._import(node)
            elif node.type == "export_statement":
                self._export(node)
        for node in _below(self._root) if "import(" in text or "import.meta" in text else ():
            if node.type == "meta_property":
                raise self._refused(node)
            if node.type == "import" and node.parent and node.parent.type == "call_expression":
                self._edits.append((node.start_byte, node.end_byte, "$load"))

    @cached_property
    def function(self) -> str:
        """It as a statement that defines it; `$use` and `$load` are what `import` is in a module."""
        body = self._text
        for begin, end, text in sorted(self._edits, reverse=True):
            body = body[:begin] + text.encode() + body[end:]
        exported = ", ".join(self._exports)
        return f'dxModules.define("{self.name}", ($use, $load) => {{\n{body.decode()}return {{ {exported} }};\n}});\n'

    def constant(self, name: str) -> Any:
        """What `export const NAME` declares in letters, as Python; None where it declares none. Raises ValueError where
        it is computed."""
        for export in self._root.children:
            declared = export.child_by_field_name("declaration") if export.type == "export_statement" else None
            for node in declared.named_children if declared else ():
                held = node.child_by_field_name("value")
                if held and _text(node.child_by_field_name("name")) == name:
                    return _literal(held)
        return None

    def _import(self, node: Node) -> None:
        source, clause = _text(node.child_by_field_name("source"))[1:-1], node.named_children[0]
        given = clause.named_children[0] if clause.type == "import_clause" else clause
        if given.type not in ("named_imports", "namespace_import") or not source.startswith("."):
            raise self._refused(node)
        name = posixpath.normpath(posixpath.join(posixpath.dirname(self.name), source))
        bound = _text(given).removeprefix("* as ").replace(" as ", ": ")
        self.imports.append(name)
        self._edits.append((node.start_byte, node.end_byte, f'const {bound} = $use("{name}");'))

    def _export(self, node: Node) -> None:
        declared = node.child_by_field_name("declaration")
        if declared is None:
            raise self._refused(node)
        named = [declared] if declared.child_by_field_name("name") else declared.named_children
        names = [name for child in named if (name := child.child_by_field_name("name"))]
        if any(name.type != "identifier" for name in names):
            raise self._refused(node)
        self._exports += map(_text, names)
        self.classes += map(_text, names if declared.type == "class_declaration" else ())
        self._edits.append((node.start_byte, declared.start_byte, ""))

    def _refused(self, node: Node) -> ValueError:
        return ValueError(f"{self.name} uses a form that no classic script can hold: {_text(node)!r}")


def tree(source: str) -> Node:
    """The syntax of a module."""
    return Parser(JAVASCRIPT).parse(source.encode()).root_node


def joined(names: Iterable[str], read: Callable[[str], Module], without: Iterable[str] = ()) -> str:
    """These modules, and all that they import, as statements for the registry. without: modules that are there, with
    all that those import."""
    there = {module.name for module in closure(without, read)}
    return "".join(module.function for module in closure(names, read) if module.name not in there)


def closure(names: Iterable[str], read: Callable[[str], Module]) -> list[Module]:
    """These modules and all that they import, each behind what it imports. Raises ValueError for a circle."""
    order: dict[str, Module] = {}

    def visit(name: str, above: tuple[str, ...]) -> None:
        if name in above:
            raise ValueError(f"the client's modules import each other in a circle: {' -> '.join((*above, name))}")
        if name not in order:
            module = read(name)
            for other in module.imports:
                visit(other, (*above, name))
            order[name] = module

    for name in names:
        visit(name, ())
    return [*order.values()]


def _literal(node: Node) -> Any:
    if node.type == "object" and all(pair.type == "pair" for pair in node.named_children):
        keys = [_text(pair.child_by_field_name("key")).strip('"') for pair in node.named_children]
        values = [pair.child_by_field_name("value") for pair in node.named_children]
        return {key: _literal(value) for key, value in zip(keys, values, strict=True) if value}
    if node.type == "array":
        return [_literal(item) for item in node.named_children]
    return json.loads(_text(node))


def _text(node: Node | None) -> str:
    return (node.text or b"").decode() if node else ""


def _below(node: Node) -> Iterator[Node]:
    for child in node.children:
        yield child
        yield from _below(child)
