"""Small typed Python: classes and functions from a one-line specification, for methods that watch types."""

import ast
import random
import re

from engines.tasks.base import Task, first_difference

CLASSES = (
    "Account Animal Book Boat Box Car City Game House Lamp Order Person Point Robot Room Shop Song Team Train Tree"
).split()
FIELDS = {
    "int": "age count height length level number pages price score size speed weight width year".split(),
    "str": "author city colour label name owner street title".split(),
    "bool": "active closed hidden open ready sold".split(),
}
REDUCERS = ("sum", "max", "min")


def _code_class(name: str, fields: list[tuple[str, str]]) -> str:
    inside = "".join(f"\n        self.{f} = {f}" for f, _ in fields)
    return f"class {name}:\n    def __init__(self, {', '.join(f'{f}: {t}' for f, t in fields)}) -> None:{inside}"


def _code_function(what: str, name: str, field: str, kind: str) -> str | None:
    """A function on an object of class `name`; None where the operation does not fit the field's type."""
    obj = name.lower()
    if what == "get":
        return f"def get_{field}({obj}: {name}) -> {kind}:\n    return {obj}.{field}"
    if what == "set":
        return f"def set_{field}({obj}: {name}, {field}: {kind}) -> None:\n    {obj}.{field} = {field}"
    if what == "double" and kind == "int":
        return (
            f"def double_{field}({obj}: {name}) -> int:\n    {obj}.{field} = {obj}.{field} * 2\n    return "
            f"{obj}.{field}"
        )
    if what == "is" and kind == "bool":
        return f"def is_{field}({obj}: {name}) -> bool:\n    return {obj}.{field}"
    return None


def _code_reduce(how: str, field: str, name: str) -> str:
    obj = name.lower()
    return f"def {how}_{field}({obj}s: list[{name}]) -> int:\n    return {how}({obj}.{field} for {obj} in {obj}s)"


def _fields(rng: random.Random, n: int) -> list[tuple[str, str]]:
    pool = [(f, kind) for kind, names in FIELDS.items() for f in names]
    return rng.sample(pool, n)


def _program(rng: random.Random, n: int) -> tuple[str, str]:
    name, fields = rng.choice(CLASSES), _fields(rng, n)
    declared = f"{name}({', '.join(f'{f}: {t}' for f, t in fields)})"
    field, kind = rng.choice(fields)
    choice = rng.choice(["class", "class", "get", "set", "double", "is", "over"])
    if choice == "over" and kind == "int":
        how = rng.choice(REDUCERS)
        return f"{how} {field} over list of {declared}", _code_reduce(how, field, name)
    code = _code_function(choice, name, field, kind)
    if code is None:
        return f"class {declared}", _code_class(name, fields)
    return f"{choice} {field} of {declared}", code


DECLARED = r"(?P<name>[A-Z]\w*)\((?P<fields>\w+: (?:int|str|bool)(?:, \w+: (?:int|str|bool))*)\)"


def _read(text: str) -> str | None:
    asked = re.fullmatch(rf"(?:(?P<what>\w+) (?P<field>\w+) (?P<over>of|over list of)|class) {DECLARED}", text.strip())
    if not asked:
        return None
    fields = dict(part.split(": ") for part in asked["fields"].split(", "))
    if asked["what"] is None:
        return _code_class(asked["name"], list(fields.items()))
    if asked["field"] not in fields:
        return None
    if asked["over"] != "of":
        fits = asked["what"] in REDUCERS and fields[asked["field"]] == "int"
        return _code_reduce(asked["what"], asked["field"], asked["name"]) if fits else None
    return _code_function(asked["what"], asked["name"], asked["field"], fields[asked["field"]])


def _wrong(text: str, answer: str, output: str) -> int | None:
    """Right if Python reads both as the same program, whatever the layout."""
    try:
        same = ast.dump(ast.parse(output.strip())) == ast.dump(ast.parse(answer))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        same = False
    if same:
        return None
    place = first_difference(answer, output)
    return max(0, len(output.split()) - 1) if place is None else place


PROGRAMS = (
    Task("python", "A small typed Python class or function", "code", (1, 4), "fields", _program, _read, wrong=_wrong),
)
