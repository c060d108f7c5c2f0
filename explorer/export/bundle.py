"""The player's modules for pages that must work from disk, where browsers refuse modules: as classic scripts that hold
the core and the views that the shown runs need. And the list of the views, which the player looks up.

    python -m explorer.export.bundle     writes assets/player/views.js from the views' own files; a test compares it
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import cache

import msgspec

from explorer import ASSETS

PLAYER = ASSETS / "player"
ENTRIES = ("player.js", "toolbar.js")
WIDEST = 120

_IMPORT = re.compile(r'^import \{\s+([\w,\s]+?),?\s+\} from "(\./|\.\./)([\w/.-]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:const|class|function) (\w+))", re.MULTILINE)
_LOAD = "import(`./views/${file}.js`)"
_NOT_CARRIED = 'Promise.reject(new Error("this page does not carry that view"))'
_LEFT_OVER = re.compile(r"^\s*(?:import\b(?!\()|export\b)|\bimport\.meta\b|\bimport\(|</script|<!--", re.MULTILINE)
_DECLARED = re.compile(r"^export const view = (\{.*?\});\n", re.MULTILINE | re.DOTALL)


class View(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A view as its file declares it. `file`: the module's name. `name`: its class. `title`: its heading, "" for none.
    `place`: what stands higher has the smaller number; "toolbar" is below the controls. `needs`: it is drawn for every
    run if this is empty, else for a run that has one of these groups; "masked" is a board that begins masked, "growing"
    one that begins empty, "end" a run that is over, and "a+b" asks for both."""

    file: str
    name: str
    title: str
    place: int | str
    needs: tuple[str, ...]

    def wanted(self, offers: set[str]) -> bool:
        """Whether a run that offers these things is shown with it; the player decides the same in loader.js."""
        return not self.needs or any(offers.issuperset(need.split("+")) for need in self.needs)


@cache
def views() -> tuple[View, ...]:
    """All views in their places. Raises ValueError for a file whose declaration cannot be read."""
    found = []
    for path in sorted((PLAYER / "views").glob("*.js")):
        if declared := _DECLARED.search(path.read_text("utf-8")):
            plain = re.sub(r"(?<=[{,])\s*(\w+):", r'"\1":', declared[1])
            try:
                fields = json.loads(re.sub(r",\s*\}", "}", plain))
                found.append(msgspec.convert({"file": path.stem, **fields}, View))
            except (ValueError, msgspec.ValidationError) as error:
                raise ValueError(f"{path.name} declares its view in a form that cannot be read: {error}") from error
    return tuple(sorted(found, key=lambda view: (isinstance(view.place, str), view.place)))


def module() -> str:
    """The text of views.js, in the formatter's form."""
    made = "// Made by `python -m explorer.export.bundle` from the views' own files. Do not edit."
    return "\n".join([made, "", "export const VIEWS = [", *(_entry(view) for view in views()), "];", ""])


def _entry(view: View) -> str:
    fields = [f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in msgspec.to_builtins(view).items()]
    line = f"  {{ {', '.join(fields)} }},"
    return line if len(line) <= WIDEST else "\n".join(["  {", *(f"    {field}," for field in fields), "  },"])


def offers(trace: str) -> set[str]:
    """What a trace, given as JSON, has to show: the groups that its steps fill, "masked" or "growing", and "end"."""
    read = json.loads(trace)
    groups = [group for step in read.get("steps", ()) for group in (*step.items(), *step.get("records", {}).items())]
    found = {name for name, value in groups if isinstance(value, dict | list) and value}
    masked = read["header"].get("canvas") is not None
    return found | {"masked" if masked else "growing"} | ({"end"} if read.get("end") else set())


def views_of(traces: Iterable[str]) -> tuple[str, ...]:
    """The files of the views that these traces, given as JSON, are shown with; without any, those of every run."""
    known = [offers(trace) for trace in traces] or [set()]
    return tuple(view.file for view in views() if any(view.wanted(one) for one in known))


@cache
def styles() -> str:
    """The styles of the player and of all its views."""
    return "".join((PLAYER / name).read_text("utf-8") for name in ("player.css", "more.css"))


@cache
def bundle(carried: tuple[str, ...] | None = None) -> str:
    """The core with the views of these files (None: all) as one classic script: each module in a function of its own,
    so that no two names can meet, in the object `modules` by its path."""
    files = [view.file for view in views()] if carried is None else carried
    order = closure([*ENTRIES, *(f"views/{file}.js" for file in files)])
    return '"use strict";\nconst modules = {};\n' + "".join(map(_wrapped, order)) + "".join(map(_carry, files))


@cache
def view_script(file: str) -> str:
    """One view as a classic script that is loaded behind `bundle`; what it shares with others is there once."""
    core = set(closure(ENTRIES))
    mine = [name for name in closure([f"views/{file}.js"]) if name not in core]
    return '"use strict";\n' + "".join(_wrapped(name).replace("] = (", "] ??= (", 1) for name in mine) + _carry(file)


def _carry(file: str) -> str:
    return f'modules["loader.js"].carry("{file}", modules["views/{file}.js"]);\n'


def closure(entries: Iterable[str]) -> list[str]:
    """These modules and all that they import, each behind what it imports. Raises ValueError for a circle."""
    order: list[str] = []

    def visit(name: str, above: tuple[str, ...]) -> None:
        if name in above:
            raise ValueError(f"the player's modules import each other in a circle: {' -> '.join((*above, name))}")
        if name not in order:
            for _, prefix, target in _IMPORT.findall(_source(name)):
                visit(_resolve(name, prefix, target), (*above, name))
            order.append(name)

    for entry in entries:
        visit(entry, ())
    return order


def _source(name: str) -> str:
    return (PLAYER / name).read_text("utf-8")


def _resolve(importer: str, prefix: str, target: str) -> str:
    folder = importer.rpartition("/")[0] if prefix == "./" else ""
    return f"{folder}/{target}" if folder else target


def _wrapped(name: str) -> str:
    source = _source(name)
    exported = [match[1] for match in _EXPORT.finditer(source)]
    body = _IMPORT.sub(
        lambda m: f'const {{ {m[1].replace(" as ", ": ")} }} = modules["{_resolve(name, m[2], m[3])}"];\n', source
    )
    body = _EXPORT.sub("", body).replace(_LOAD, _NOT_CARRIED)
    if fault := _LEFT_OVER.search(body):
        raise ValueError(f"{name} uses a form that the exporter cannot carry over: {fault[0].strip()!r}")
    return f'modules["{name}"] = (() => {{\n{body}return {{ {", ".join(exported)} }};\n}})();\n'


if __name__ == "__main__":
    from explorer.arguments import of_module

    of_module("explorer.export.bundle", __doc__)
    (PLAYER / "views.js").write_text(module(), encoding="utf-8")
