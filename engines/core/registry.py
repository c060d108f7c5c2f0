"""Finds the methods: imports each file or folder in the families' folders, and reports a broken one."""

import importlib
import pkgutil
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import TypeVar

from engines.core.errors import UserError
from engines.core.extra import extra_methods
from engines.core.kinds import KINDS
from engines.core.method import Method, MethodInfo
from engines.core.method_file import PACKAGE, declared_in
from engines.core.sentences import paper_files, with_sentences
from engines.core.trace import IMPORTED, WATCHED, described

T = TypeVar("T")
METHODS = Path(__file__).resolve().parents[1] / "methods"


@dataclass(frozen=True)
class Broken:
    """A file of methods or studies that could not be imported or declares nothing, with the reason."""

    module: str
    reason: str


@dataclass(frozen=True)
class Registry:
    """All methods by slug, in the order of families and declarations, and the broken ones."""

    methods: dict[str, Method]
    broken: tuple[Broken, ...]


def declared_in_modules(folder: Path, package: str, kind: type[T], add: Callable[[list[T]], None]) -> list[Broken]:
    """Hand `add` what each module of a folder declares of a kind, but for helpers (`_...`). Returns those that fail."""
    broken: list[Broken] = []
    for module in pkgutil.iter_modules([str(folder)]):
        if module.name.startswith("_"):
            continue
        name = f"{package}.{module.name}"
        try:
            add([value for value in vars(importlib.import_module(name)).values() if isinstance(value, kind)])
        except Exception as error:  # a broken file must show, whatever is wrong with it
            where = traceback.extract_tb(error.__traceback__)[-1]
            broken.append(Broken(name, f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"))
    return broken


@lru_cache(maxsize=1)
def registry() -> Registry:
    """Walk the modules and packages of `engines/methods/<family>`, and the extra folder if there is one, once per
    process. A method that needs several files is a package whose `__init__.py` has the declaration and the loop. Raises
    UserError for an extra folder that is not there."""
    methods: dict[str, Method] = {}
    broken: list[Broken] = []
    papers = cache(paper_files)
    families = sorted(p for p in METHODS.iterdir() if p.is_dir() and (p / "__init__.py").exists())
    for family in families:

        def add(declared: list[Method], family: str = family.name) -> None:
            if all(map(_can_be_tried, declared)) or not declared:
                _add([with_sentences(method, papers) for method in declared], family, methods)

        broken += declared_in_modules(family, f"engines.methods.{family.name}", Method, add)
    for path in extra_methods():
        try:
            _add(declared_in(path, papers), path.parents[path.name == PACKAGE].name, methods)
        except (UserError, ValueError) as error:
            broken.append(Broken(str(path), str(error)))
    broken += [Broken(file, fault) for file, fault in papers().strange(methods)]
    return Registry(methods, tuple(broken))


def _can_be_tried(method: Method) -> bool:
    """Whether a model of each kind that it needs ships: one that nobody can run at once is not offered yet."""
    return all(KINDS[kind].example for kind in method.info.needs.values())


def _add(declared: list[Method], family: str, methods: dict[str, Method]) -> None:
    if not declared:
        raise ValueError("declares no method")
    for method in declared:
        if method.info.family != family:
            raise ValueError(f"'{method.info.slug}' says family '{method.info.family}' but is in the folder '{family}'")
        if method.info.slug in methods:
            raise ValueError(f"slug '{method.info.slug}' is taken")
        check_records(method.info, methods)
        methods[method.info.slug] = method


def check_records(info: MethodInfo, others: Mapping[str, Method]) -> None:
    """Raises ValueError where another method has a record of the same name and another form: the player finds the view
    of a record by its name."""
    for name, kind in info.records.items():
        for other in others.values():
            theirs = other.info.records.get(name, kind)
            same = kind is theirs or (
                kind.__struct_fields__ == theirs.__struct_fields__ and described(kind) == described(theirs)
            )
            if not same and other.info.slug != info.slug:
                raise ValueError(
                    f"'{info.slug}' declares the record '{name}' with the fields {', '.join(kind.__struct_fields__)}; "
                    f"'{other.info.slug}' has one of that name with others; choose another name"
                )


def get_method(slug: str) -> Method:
    """The method of that slug. Raises UserError with the known slugs."""
    methods = registry().methods
    if slug == WATCHED:
        raise UserError(
            "this run was watched in a loop that has no engine here, so it cannot be run again; watch that loop again, "
            "or fork the run with a method that takes over from its board."
        )
    if slug == IMPORTED:
        raise UserError(
            "this run was read from a record or from a server, whose program has no engine here, so it can be neither "
            "repeated nor forked; run a method of ours on the same prompt and compare it with this one."
        )
    if slug not in methods:
        raise UserError(f"unknown method '{str(slug)[:60]}'; choose one of {', '.join(methods)}.")
    return methods[slug]


def list_methods() -> list[MethodInfo]:
    """The declarations of all working methods."""
    return [m.info for m in registry().methods.values()]


def broken_methods() -> list[Broken]:
    """Method files that do not load, with the reason."""
    return list(registry().broken)
