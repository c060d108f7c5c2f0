"""The messages of a Python module: all of its sentences, or those of the errors that it raises."""

import ast
import re
from collections.abc import Collection, Iterator

TOLD = {"UserError", "NoRoom", "TraceError", "Refusal", "NotCovered"}  # errors that are shown to a person
_WORDS = re.compile(r"[A-Za-z]{3,}")
_NOT_WORDS = re.compile(
    r"<\w|</|=>|%[sd(]|%\{|\bpage\.|\bprops\b|\bexport const|"
    r"^EXPLORER_|^data:|^event:|^id:|^// |'self'|'none'|globalThis"
)  # markup, scripts, formats of a log, names
_WORD = re.compile(r"[A-Z][a-z]+[.…]?")
_TAG = re.compile(r"</\w+>")
_MARKUP = re.compile(r'(?:>|aria-label=")([^<>"]+)(?=[<"])')  # what stands between tags, and names for screen readers
_HEADING = re.compile(r"^#+ |^- |^\d+\. ")
_LOGGING = {"info", "warning", "exception", "error", "debug"}


def messages(source: str, errors_only: bool = False) -> Iterator[str]:
    """Texts and f-strings with their places numbered from 0; a text of several paragraphs gives each of them."""
    tree = ast.parse(source)
    nodes = (node for raised in _raised(tree) for node in ast.walk(raised)) if errors_only else ast.walk(tree)
    skipped = {id(inner) for node in ast.walk(tree) for inner in _skipped(node)}
    for node in nodes:
        if id(node) not in skipped and (text := _text(node)):
            yield from filter(_worded, _MARKUP.findall(text) if _TAG.search(text) else paragraphs(text))


def phrases(source: str, functions: Collection[str]) -> Iterator[str]:
    """The messages of these functions of a module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and node.name in functions:
            yield from messages(ast.unparse(node))


def paragraphs(text: str) -> Iterator[str]:
    """The paragraphs, headings and items of a little Markdown, as they stand when they are shown."""
    for block in re.split(r"\n\s*\n|\n(?=#|- |\d+\. )|(?<=\n)(?=#)", text):
        heading = block.lstrip().startswith("#")
        head, _, rest = block.strip().partition("\n") if heading else ("", "", block)
        for part in (head, rest):
            if words := " ".join(_HEADING.sub("", part.strip()).split()):
                yield words


def _raised(tree: ast.AST) -> Iterator[ast.AST]:
    """The sentences of what a person is told; other errors speak to whoever writes code."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and ast.unparse(node.exc.func) in TOLD:
            yield from node.exc.args


def _skipped(node: ast.AST) -> Iterator[ast.AST]:
    """What is no message: documentation, the parts of an f-string, names of attributes and keys, what goes to a log,
    what a module exports."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield from node.values
    elif isinstance(node, ast.FormattedValue) and node.format_spec:
        yield node.format_spec
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _LOGGING:
        yield from node.args
    elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
        yield from ast.walk(node.value)
    elif isinstance(node, ast.keyword) and node.arg in ("elem_id", "elem_classes", "help", "pattern"):
        yield node.value


def _text(node: ast.AST) -> str | None:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if not isinstance(node, ast.JoinedStr):
        return None
    parts, places = [], 0
    for value in node.values:
        if isinstance(value, ast.Constant):
            parts.append(str(value.value))
        else:
            parts.append(f"{{{places}}}")
            places += 1
    return "".join(parts)


def _worded(text: str) -> bool:
    bare = re.sub(r"\{\d+\}", "", text)
    return bool(_WORDS.search(bare)) and bool(" " in text or _WORD.fullmatch(text)) and not _NOT_WORDS.search(text)
