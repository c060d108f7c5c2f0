"""The player's modules for pages that must work from disk, where browsers refuse modules: as classic scripts that hold
the core and the views that the shown runs need. And the list of the views, which the player looks up.

    python -m explorer.export.bundle     writes assets/player/views.js from the views' own files; a test compares it
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import msgspec

import engines
from engines import ASSETS
from explorer.figures.definitions import script

PLAYER = ASSETS / "player"
ENTRIES = ("player.js", "toolbar.js")
SCENES = "page/offline.js"  # the page's own module that others carry
OWN = "../own/"  # where the page serves views that lie beside a person's own method files, from player/views
RECORDS = "records"  # among the things that a trace has to show: any of a method's own
TABLE = "record"  # the view of a record that has none
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
    one that begins empty, "end" a run that is over, "spans.fed", "intervals.bytes" and "routing.expert" those of a
    kind, and "a+b" asks for both."""

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
    found = [view for path in sorted((PLAYER / "views").glob("*.js")) if (view := _declared(path))]
    return tuple(sorted(found, key=lambda view: (isinstance(view.place, str), view.place)))


def _declared(path: Path, prefix: str = "") -> View | None:
    """The view of a file; None where it declares none."""
    declared = _DECLARED.search(path.read_text("utf-8"))
    if not declared:
        return None
    plain = re.sub(r"(?<=[{,])\s*(\w+):", r'"\1":', declared[1])
    try:
        fields = json.loads(re.sub(r",\s*\}", "}", plain))
        return msgspec.convert({"file": prefix + path.stem, **fields}, View)
    except (ValueError, msgspec.ValidationError) as error:
        raise ValueError(f"{path.name} declares its view in a form that cannot be read: {error}") from error


def own_files() -> dict[str, Path]:
    """The views beside a person's own method files, by the record that each shows: `hops.js` beside a file that
    declares the record `hops`."""
    methods = [info for info in engines.list_methods() if info.file]
    beside = {name: Path(info.file).with_name(f"{name}.js") for info in methods for name in info.records}
    return {name: path for name, path in beside.items() if path.is_file() and name not in _shown_records()}


def own_views() -> tuple[View, ...]:
    """Those views. Raises UserError for a file that declares none."""
    found = []
    for name, path in own_files().items():
        try:
            view = _declared(path, OWN)
        except (ValueError, OSError) as error:
            raise engines.UserError(f"{error}.") from None
        if view is None or not view.wanted({name}):
            raise engines.UserError(
                f"'{path}' declares no view of the record '{name}'; write export const view = "
                f'{{ name: "Hops", title: "Hops", place: 30, needs: ["{name}"] }}; above its class.'
            )
        if f"export class {view.name} " not in path.read_text("utf-8"):
            raise engines.UserError(f"'{path}' exports no class {view.name}, which its view names; write export class.")
        found.append(view)
    return tuple(found)


def _shown_records() -> set[str]:
    return {part for view in views() for need in view.needs for part in need.split("+")}


def module() -> str:
    """The text of views.js, in the formatter's form."""
    made = "// Made by `python -m explorer.export.bundle` from the views' own files. Do not edit."
    row = "const view = (file, name, title, place, ...needs) => ({ file, name, title, place, needs });"
    return "\n".join([made, "", row, "", "export const VIEWS = [", *(_entry(view) for view in views()), "];", ""])


def _entry(view: View) -> str:
    given = (view.file, view.name, view.title, view.place, *view.needs)
    values = [json.dumps(value, ensure_ascii=False) for value in given]
    line = f"  view({', '.join(values)}),"
    return line if len(line) <= WIDEST else "\n".join(["  view(", *(f"    {value}," for value in values), "  ),"])


def offers(trace: str) -> set[str]:
    """What a trace, given as JSON, has to show: the groups that its steps fill, "masked" or "growing", and "end"."""
    read = json.loads(trace)
    groups = [group for step in read.get("steps", ()) for group in (*step.items(), *step.get("records", {}).items())]
    found = {name for name, value in groups if isinstance(value, dict | list) and value}
    masked = read["header"].get("canvas") is not None
    kinds = [(name, step.get(name, ())) for step in read.get("steps", ()) for name in ("spans", "intervals", "routing")]
    found |= {f"{name}.{one.get('kind')}" for name, group in kinds for one in group}
    found |= {RECORDS} if any(step.get("records") for step in read.get("steps", ())) else set()
    return found | {"masked" if masked else "growing"} | ({"end"} if read.get("end") else set())


def views_of(traces: Iterable[str]) -> tuple[str, ...]:
    """The files of the views that these traces, given as JSON, are shown with; without any, those of every run."""
    known = [offers(trace) for trace in traces] or [set()]
    files = [view.file for view in (*views(), *own_views()) if any(view.wanted(one) for one in known)]
    return (*files, TABLE) if any(RECORDS in one for one in known) else tuple(files)


@cache
def styles() -> str:
    """The styles of the player and of all its views."""
    return "".join((PLAYER / name).read_text("utf-8") for name in ("player.css", "more.css", "pictures.css"))


def bundle(carried: tuple[str, ...] | None = None) -> str:
    """The core with the views of these files (None: all that ship) as one classic script: each module in a function of
    its own, so that no two names can meet, in the object `modules` by its path. Views of a person's own are announced
    in it, and come in scripts of their own (`own_scripts`)."""
    files = tuple(view.file for view in views()) if carried is None else carried
    known = [msgspec.to_builtins(view) | {"record": Path(view.file).stem} for view in own_views() if view.file in files]
    added = json.dumps(known).replace("<", "\\u003c")
    shipped = _bundle(tuple(file for file in files if not file.startswith(OWN)))
    return f'{shipped}modules["loader.js"].add({added});\n' if known else shipped


def own_scripts(carried: tuple[str, ...]) -> list[str]:
    """Those of these views that are a person's own, each as a script behind `bundle`: a mistake of syntax in one leaves
    the page as it is, with the record's table in its place. Raises UserError for a view that cannot be carried."""
    return [view_script(file) for file in carried if file.startswith(OWN)]


@cache
def _bundle(files: tuple[str, ...]) -> str:
    order = closure([*ENTRIES, *map(_module, files)])
    begin = f'"use strict";\n{script()}const modules = {{}};\n'
    return begin + "".join(map(_wrapped, order)) + "".join(map(_carry, files))


def view_script(file: str) -> str:
    """One view as a classic script that is loaded behind `bundle`; what it shares with others is there once."""
    return _view_script.__wrapped__(file) if file.startswith(OWN) else _view_script(file)


@cache
def _view_script(file: str) -> str:
    core = set(closure(ENTRIES))
    mine = [name for name in closure([_module(file)]) if name not in core]
    return '"use strict";\n' + "".join(_wrapped(name).replace("] = (", "] ??= (", 1) for name in mine) + _carry(file)


@cache
def scenes_script() -> str:
    """The voice of scenes and lecture mode as a classic script that is loaded behind `bundle`."""
    core = set(closure(ENTRIES))
    mine = [name for name in closure([SCENES]) if name not in core]
    return '"use strict";\n' + "".join(map(_wrapped, mine))


@cache
def scenes_styles() -> str:
    """Their styles, where no page of ours names the colours."""
    names = ("page", "panel", "raised", "text", "muted", "line", "accent", "on-accent", "warn")
    named = ";".join(f"--dx-{name}:var(--{name})" for name in names)
    sheets = "".join((ASSETS / "page" / name).read_text("utf-8") for name in ("stage.css", "lecture.css"))
    return f".scene,.lecture,.lecture-door{{{named}}}\n{sheets}"


def _module(file: str) -> str:
    return posixpath.normpath(f"views/{file}.js")


def _carry(file: str) -> str:
    return f'modules["loader.js"].carry("{file}", modules["{_module(file)}"]);\n'


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
    folder, _, file = name.rpartition("/")
    if folder == "page":
        return (ASSETS / name).read_text("utf-8")
    return (own_files()[file.removesuffix(".js")] if folder == "own" else PLAYER / name).read_text("utf-8")


def _resolve(importer: str, prefix: str, target: str) -> str:
    folder = importer.rpartition("/")[0] if prefix == "./" else ""
    return f"{folder}/{target}" if folder else target.removeprefix("player/")


def _wrapped(name: str) -> str:
    source = _source(name)
    exported = [match[1] for match in _EXPORT.finditer(source)]
    body = _IMPORT.sub(
        lambda m: f'const {{ {m[1].replace(" as ", ": ")} }} = modules["{_resolve(name, m[2], m[3])}"];\n', source
    )
    body = _EXPORT.sub("", body).replace(_LOAD, _NOT_CARRIED)
    if fault := _LEFT_OVER.search(body):
        kind = engines.UserError if name.startswith("own/") else ValueError
        raise kind(f"{name} uses a form that the exporter cannot carry over: {fault[0].strip()!r}")
    made = f'modules["{name}"] = (() => {{\n{body}return {{ {", ".join(exported)} }};\n}})();\n'
    if not name.startswith("own/"):
        return made
    return f'try {{\n{made}}} catch (error) {{\nconsole.error(error);\nmodules["{name}"] = {{}};\n}}\n'


if __name__ == "__main__":
    from explorer.arguments import of_module

    of_module("explorer.export.bundle", __doc__)
    (PLAYER / "views.js").write_text(module(), encoding="utf-8")
