"""Dots in real Python files: the standard library of this Python, cut where a member of an imported module or of
something made from one is about to be named.

What may stand there is asked of the static analyser (`engines.tools.completion`), before any model is. A place counts
where it knows; how many it was asked about is told, too. The result depends on the Python that runs this."""

import ast
import random
import sysconfig
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from engines.tools.completion import Analyser

SHORTEST, LONGEST = 200, 2400  # characters of a prompt
PATIENCE = 60.0  # seconds for a place: which ones count must not depend on how busy the machine is
SKIPPED = {"encodings", "test", "tests", "idlelib", "lib2to3", "site-packages", "ensurepip", "turtledemo", "pydoc_data"}


@dataclass(frozen=True)
class Dereference:
    """A file up to a dot, the name that its author wrote there, and those that exist there."""

    file: str
    line: int
    prompt: str
    name: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class Dereferences:
    """Prompts, one per file. asked: places that the analyser was asked about to find them; wrong: places where it knew
    names and the author's was none of them, which are left out."""

    prompts: list[Dereference]
    asked: int
    wrong: int


def dereferences(n: int, seed: int = 0) -> Dereferences:
    """`n` prompts, or fewer where the library has no more. Raises UserError where the analyser is not installed."""
    rng, asked, wrong = random.Random(seed), 0, 0
    prompts: list[Dereference] = []
    with Analyser({}) as analyser:
        files = sorted(library())
        rng.shuffle(files)
        for file in files:
            places = list(_places(file))
            if len(prompts) == n or not places:
                continue
            line, prompt, name = rng.choice(places)
            names = analyser.members(prompt, PATIENCE, dunder=True).names
            plain = [member for member in names if not member.startswith("__")]
            asked += 1
            wrong += bool(plain) and name not in plain
            if name in plain:
                prompts.append(Dereference(file.relative_to(_home()).as_posix(), line, prompt, name, names))
    return Dereferences(prompts, asked, wrong)


def library() -> Iterator[Path]:
    """The files of the standard library, without its tests and programs."""
    for path in _home().rglob("*.py"):
        parts = path.relative_to(_home()).parts
        if not SKIPPED & set(parts) and not any("config-" in part for part in parts):
            yield path


def _home() -> Path:
    return Path(sysconfig.get_path("stdlib"))


def _places(file: Path) -> Iterator[tuple[int, str, str]]:
    """(line, text up to the dot, name behind it) of every member of something imported, near the top of a file."""
    try:
        with tokenize.open(file) as opened:
            text = opened.read()
        tree = ast.parse(text)
    except (SyntaxError, UnicodeDecodeError, ValueError):
        return
    imported = {
        (alias.asname or alias.name).split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    starts = [0]
    for row in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(row.encode()))
    raw = text.encode()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _root(node.value) in imported and not node.attr.startswith("__"):
            end = starts[(node.end_lineno or 1) - 1] + (node.end_col_offset or 0) - len(node.attr.encode())
            prompt = raw[:end].decode()
            if prompt.endswith(".") and SHORTEST <= len(prompt) <= LONGEST:
                yield node.end_lineno or 1, prompt, node.attr


def _root(node: ast.expr) -> str:
    """The name that a chain of members, calls and items begins with."""
    while isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""
