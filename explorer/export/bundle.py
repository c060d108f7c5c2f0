"""What the browser is given: the player with the views that the shown runs need, as classic scripts, for pages that
must work from disk; and the list of the views, which the player looks up."""

import json
import posixpath
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import msgspec

import engines
from engines import ASSETS
from explorer.export.modules import Module, joined
from explorer.figures.definitions import inert, script

CLIENT = ASSETS / "client"
PLAYER = ("player/player.js", "player/toolbar.js")
SCENES = "page/offline.js"  # the page's own module that others carry
OWN = "../own/"  # where views that lie beside a person's own method files stand, seen from the client's views
RECORDS = "records"  # among the things that a trace has to show: any of a method's own
TABLE = "record"  # the view of a record that has none


class View(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A view as its file declares it. `file`: the module's name. `name`: its class, the one that the module exports
    unless it says another. `title`: its heading, "" for none. `place`: what stands higher has the smaller number;
    "toolbar" is below the controls. `needs`: it is drawn for every run if this is empty, else for a run that has one of
    these groups; "masked" is a board that begins masked, "growing" one that begins empty, "end" a run that is over,
    "spans.fed", "intervals.bytes" and "routing.expert" those of a kind, and "a+b" asks for both."""

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
    paths = sorted((CLIENT / "views").glob("*.js"))
    known = [view for path in paths if (view := _declared(path.stem, module_of(f"views/{path.name}")))]
    return tuple(sorted(known, key=lambda view: (isinstance(view.place, str), view.place)))


def _declared(file: str, module: Module) -> View | None:
    """The view of a module; None where it declares none."""
    try:
        declared = module.constant("view")
        return declared and msgspec.convert({"file": file, "name": "".join(module.classes[:1]), **declared}, View)
    except (ValueError, msgspec.ValidationError) as error:
        raise ValueError(f"{module.name} declares its view in a form that cannot be read: {error}") from error


def own_files() -> dict[str, Path]:
    """The views beside a person's own method files, by the record that each shows: `hops.js` beside a file that
    declares the record `hops`."""
    methods = [info for info in engines.list_methods() if info.file]
    beside = {name: Path(info.file).with_name(f"{name}.js") for info in methods for name in info.records}
    shown = {part for view in views() for need in view.needs for part in need.split("+")}
    return {name: path for name, path in beside.items() if path.is_file() and name not in shown}


def own_views() -> tuple[View, ...]:
    """Those views. Raises UserError for a file that declares none."""
    declared = []
    for name, path in own_files().items():
        try:
            view = _declared(OWN + name, module_of(f"own/{name}.js"))
        except (ValueError, OSError) as error:
            raise engines.UserError(f"{error}.") from None
        if view is None or not view.wanted({name}):
            raise engines.UserError(
                f"'{path}' declares no view of the record '{name}'; write export const view = "
                f'{{ name: "Hops", title: "Hops", place: 30, needs: ["{name}"] }}; above its class.'
            )
        if f"export class {view.name} " not in path.read_text("utf-8"):
            raise engines.UserError(f"'{path}' exports no class {view.name}, which its view names; write export class.")
        declared.append(view)
    return tuple(declared)


def offers(trace: str) -> set[str]:
    """What a trace, given as JSON, has to show: the groups that its steps fill, "masked" or "growing", and "end"."""
    read = json.loads(trace)
    groups = [group for step in read.get("steps", ()) for group in (*step.items(), *step.get("records", {}).items())]
    shown = {name for name, value in groups if isinstance(value, dict | list) and value}
    masked = read["header"].get("canvas") is not None
    kinds = [(name, step.get(name, ())) for step in read.get("steps", ()) for name in ("spans", "intervals", "routing")]
    shown |= {f"{name}.{part.get('kind')}" for name, group in kinds for part in group}
    shown |= {RECORDS} if any(step.get("records") for step in read.get("steps", ())) else set()
    return shown | {"masked" if masked else "growing"} | ({"end"} if read.get("end") else set())


def views_of(traces: Iterable[str]) -> tuple[str, ...]:
    """The files of the views that these traces, given as JSON, are shown with; without any, those of every run."""
    known = [offers(trace) for trace in traces] or [set()]
    files = [view.file for view in (*views(), *own_views()) if any(view.wanted(offered) for offered in known)]
    return (*files, TABLE) if any(RECORDS in offered for offered in known) else tuple(files)


@cache
def styles(*parts: str) -> str:
    """The styles of these parts of the client, those of the player and its views first."""
    folders = (CLIENT / part for part in ("player", "views", *parts))
    sheets = (sorted(f.glob("*.css"), key=lambda path: (path.stem != path.parent.name, path.stem)) for f in folders)
    return "".join(path.read_text("utf-8") for every in sheets for path in every)


def module_of(name: str) -> Module:
    """The client's module of that name; `own/hops.js` lies beside a person's own method file. Raises ValueError for one
    that a script cannot hold."""
    if name.startswith("own/"):
        return Module(name, own_files()[Path(name).stem].read_text("utf-8"))
    return _shipped(name)


@cache
def _shipped(name: str) -> Module:
    return Module(name, (CLIENT / name).read_text("utf-8"))


def registry() -> str:
    """What stands before all modules: where they are defined."""
    return '"use strict";\n' + (CLIENT / "modules.js").read_text("utf-8")


def given() -> str:
    """What stands before the player's modules: where they are defined, what receipts are written with, and the views,
    each as [file, name, title, place, needs]."""
    known = inert([msgspec.structs.astuple(view) for view in views()])
    return f"{registry()}{script()}globalThis.dxViews = {known};\n"


def bundle(carried: tuple[str, ...] | None = None) -> str:
    """The player with the views of these files (None: all that ship) as one classic script. Views of a person's own are
    announced in it, and come in scripts of their own (`own_scripts`)."""
    files = tuple(view.file for view in views()) if carried is None else carried
    known = [msgspec.to_builtins(view) | {"record": Path(view.file).stem} for view in own_views() if view.file in files]
    added = json.dumps(known).replace("<", "\\u003c")
    names = [*PLAYER, *(module_name(file) for file in files if not file.startswith(OWN))]
    announced = f'dxModules.use("player/loader.js").add({added});\n' if known else ""
    return given() + joined(names, module_of) + announced


def own_scripts(carried: tuple[str, ...]) -> list[str]:
    """Those of these views that are a person's own, each as a script behind `bundle`: a mistake in one leaves the page
    as it is, with the record's table in its place. Raises UserError for a view that cannot be carried."""
    try:
        return [view_script(file) for file in carried if file.startswith(OWN)]
    except ValueError as error:
        raise engines.UserError(f"{error}.") from None


def view_script(file: str) -> str:
    """One view as a classic script that is loaded behind `bundle`; what it shares with others is defined once."""
    return script_of([module_name(file)])


def script_of(names: Iterable[str], without: Iterable[str] = PLAYER) -> str:
    """These modules with what they import as a script behind one that has those of `without`."""
    return '"use strict";\n' + joined(names, module_of, without)


def module_name(file: str) -> str:
    """The name of a view's module."""
    return posixpath.normpath(f"views/{file}.js")


@cache
def scenes_script() -> str:
    """The voice of scenes and lecture mode as a classic script that is loaded behind `bundle`."""
    return script_of([SCENES])


@cache
def scenes_styles() -> str:
    """Their styles, where no page of ours names the colours."""
    names = ("page", "panel", "raised", "text", "muted", "line", "accent", "on-accent", "warn")
    named = ";".join(f"--dx-{name}:var(--{name})" for name in names)
    sheets = "".join((CLIENT / "page" / name).read_text("utf-8") for name in ("stage.css", "lecture.css"))
    return f".scene,.lecture,.lecture-door{{{named}}}\n{sheets}"
