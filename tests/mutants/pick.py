"""Small faults, picked by a seed: one token of a line is another one. The same code gives the same faults."""

import ast
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SEED = 33
SWAPPED = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "+"),
    ast.FloorDiv: ("//", "*"),
    ast.Div: ("/", "*"),
    ast.And: ("and", "or"),
    ast.Or: ("or", "and"),
}
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any", "argmax": "argmin", "floor": "ceil", "ceil": "floor"}
SCRIPT = [
    (" === ", " !== "), (" !== ", " === "), (" < ", " <= "), (" <= ", " < "), (" > ", " >= "), (" >= ", " > "),
    (" + ", " - "), (" - ", " + "), (" && ", " || "), (" || ", " && "), ("Math.min(", "Math.max("),
    ("Math.max(", "Math.min("), (" += ", " -= "), (" ?? ", " && "), ("(!", "("),
]  # fmt: skip

# Of each part of the program: where it lies, and how many faults it gets; "decode": one in each function of that name.
PARTS = {
    "run": ("engines/driver/run.py engines/core/meter.py engines/core/measure.py", 14),
    "recorder": ("engines/core/recorder.py engines/core/packing.py engines/core/validation.py", 12),
    "takeover": (
        "engines/driver/takeover.py engines/driver/fork.py engines/driver/replay.py engines/driver/roles.py",
        14,
    ),
    "paths": ("engines/core/paths.py engines/core/trees.py engines/core/sampling.py engines/core/masks.py", 18),
    "drafts": (
        "engines/methods/speculative/_*.py engines/methods/heads/_*.py engines/methods/speculative/*/[!_]*.py",
        24,
    ),
    "registry": (
        "engines/core/registry.py engines/core/method.py engines/core/params.py engines/core/method_file.py",
        12,
    ),
    "metrics": ("explorer/figures/*.py", 20),
    "reading": ("engines/core/trace/*.py engines/core/trace/groups/*.py", 12),
    "decode": ("engines/methods/*/*.py engines/methods/*/*/__init__.py", 0),
    "player": ("assets/client/player/*.js assets/client/views/*.js", 12),
    "page": ("explorer/page/*.py explorer/page/handlers/*.py", 9),
    "command line": ("explorer/cli/*.py", 7),
    "exporters": ("explorer/export/*.py", 6),
    "importers": ("explorer/importers/*.py explorer/attach/*.py", 6),
}


@dataclass
class Fault:
    """One token of one line that is another one. `line` counts from 1; `old` and `new` are the whole line."""

    part: str
    file: str
    function: str
    line: int
    old: str
    new: str

    @property
    def name(self) -> str:
        """Its place and what it does, in a word that stays while the line does."""
        return f"{self.file}:{self.function}: {self.old.strip()} -> {self.new.strip()}"


def faults(root: Path) -> list[Fault]:
    """All of them, by part."""
    return [fault for part in PARTS for fault in _of_part(root, part)]


def kept(root: Path, table: Path) -> list[Fault]:
    """The faults of a table (results.tsv) that can still be written: known by the file and the text of the line, since
    a seed picks others as soon as the code moves."""
    found = []
    with table.open(encoding="utf-8", newline="") as file:
        rows = [line.rstrip("\n").split("\t") for line in file][1:]
    for part, name, line, *_, was, now in rows:
        path = root / name
        texts = path.read_text("utf-8").split("\n") if path.exists() else []
        places = [number for number, text in enumerate(texts, 1) if text.strip() == was]
        if places:
            place = min(places, key=lambda number: abs(number - int(line)))
            old = texts[place - 1]
            found.append(Fault(part, name, "", place, old, old.replace(was, now)))
    return found


# The page's JavaScript whose laws are asked under node, and how many faults each part gets.
SCRIPTS = {
    "run": ("assets/client/player/run.js", 6),
    "clock": ("assets/client/player/clock.js", 6),
    "address": ("assets/client/page/address.js", 6),
    "chips": ("assets/client/page/chips.js", 5),
    "lecture": ("assets/client/page/lecture.js assets/client/page/lectureview.js", 6),
    "form": ("assets/client/page/form.js assets/client/page/fields.js assets/client/page/kept.js", 5),
    "layouts": ("assets/client/player/layout.js assets/client/views/*layout.js", 6),
}


def scripts(root: Path, seed: int) -> list[Fault]:
    """Forty faults in the page's JavaScript."""
    found = []
    for part, (patterns, number) in SCRIPTS.items():
        files = sorted({path for pattern in patterns.split() for path in root.glob(pattern)})
        sites = [(path.relative_to(root).as_posix(), *site) for path in files for site in _sites(path)]
        for file, _, line, old, new in sorted(random.Random(f"{seed} {part}").sample(sites, number)):
            found.append(Fault(part, file, "", line, old, new))
    return found


def _of_part(root: Path, part: str) -> Iterator[Fault]:
    patterns, number = PARTS[part]
    files = sorted({path for pattern in patterns.split() for path in root.glob(pattern)})
    drawn = random.Random(f"{SEED} {part}")
    sites = [(path.relative_to(root).as_posix(), *site) for path in files for site in _sites(path)]
    if part == "decode":
        own = sorted({(file, function) for file, function, *_ in sites if function == "decode"})
        chosen = [drawn.choice([site for site in sites if site[:2] == one]) for one in own]
    else:
        chosen = drawn.sample(sites, min(number, len(sites)))
    for file, function, line, old, new in sorted(chosen):
        yield Fault(part, file, function, line, old, new)


def _sites(path: Path) -> list[tuple[str, int, str, str]]:
    """(function, line, old line, new line) of each fault that a file can get."""
    lines = path.read_text("utf-8").split("\n")
    return sorted(set(_script(lines) if path.suffix == ".js" else _python(lines)))


def _script(lines: list[str]) -> Iterator[tuple[str, int, str, str]]:
    for number, text in enumerate(lines, 1):
        code = text.split("//")[0]
        if code.lstrip().startswith(("*", "/*", "import", "export {")):
            continue
        for old, new in SCRIPT:
            for found in re.finditer(re.escape(old), code):
                if not any(code[: found.start()].count(quote) % 2 for quote in "\"'`"):
                    yield "", number, text, text[: found.start()] + new + text[found.end() :]


def _python(lines: list[str]) -> Iterator[tuple[str, int, str, str]]:
    tree = ast.parse("\n".join(lines))
    for function in ast.walk(tree):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for statement in function.body:
                for number, start, end, new in _changes(statement, lines):
                    text = lines[number - 1].encode()  # ast counts bytes
                    changed = (text[:start] + new.encode() + text[end:]).decode()
                    yield function.name, number, lines[number - 1], changed


def _changes(statement: ast.stmt, lines: list[str]) -> Iterator[tuple[int, int, int, str]]:
    """(line, first byte, end, text instead) below a statement; what is only said in an error is left alone."""
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.FunctionDef, ast.Raise, ast.Assert, ast.JoinedStr, ast.AnnAssign)):
            continue
        waiting += ast.iter_child_nodes(node)
        match node:
            case ast.Compare(left=left, ops=[op, *_], comparators=[right, *_]) if type(op) in SWAPPED:
                yield from _between(left, right, op, lines)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in SWAPPED:
                yield from _between(left, right, op, lines)
            case ast.BoolOp(op=op, values=[left, right, *_]):
                yield from _between(left, right, op, lines)
            case ast.Constant(value=bool(value)):
                yield node.lineno, node.col_offset, node.end_col_offset or 0, str(not value)
            case ast.Constant(value=int(value)):
                yield node.lineno, node.col_offset, node.end_col_offset or 0, str(value + 1)
            case ast.UnaryOp(op=ast.Not(), operand=operand) if node.lineno == operand.lineno:
                spaced = lines[node.lineno - 1].encode()[node.col_offset + 3 :].startswith(b" ")
                yield node.lineno, node.col_offset, node.col_offset + 3 + spaced, ""  # a parenthesis behind it stays
            case ast.Call(func=ast.Name(id=name) as called) if name in NAMES:
                yield called.lineno, called.col_offset, called.end_col_offset or 0, NAMES[name]
            case ast.Call(func=ast.Attribute(attr=name) as called) if name in NAMES:
                end = called.end_col_offset or 0
                if called.end_lineno == called.value.end_lineno:
                    yield called.end_lineno or 0, end - len(name), end, NAMES[name]


def _between(left: ast.expr, right: ast.expr, op: ast.AST, lines: list[str]) -> Iterator[tuple[int, int, int, str]]:
    if left.end_lineno != right.lineno:
        return
    old, new = SWAPPED[type(op)]
    start, end = left.end_col_offset or 0, right.col_offset
    text = lines[right.lineno - 1].encode()[start:end].decode()
    if (at := text.find(old)) >= 0:
        yield right.lineno, start + at, start + at + len(old), new
