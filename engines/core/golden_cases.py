"""Checking engines against recorded or exactly enumerated cases: folders of JSON files, one topic each.

A checker registers for a file's topic with `@checks("name")`; files without one are reported as not covered. Those of
our own golden data lie in the repository, not in the wheel: a folder of modules that import each other relatively."""

import importlib
import importlib.util
import json
import math
import pkgutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Literal

import msgspec

from engines.core.devices import loaded_with
from engines.core.errors import UserError

Case = Mapping[str, Any]
Checker = Callable[
    [Case, Mapping[str, Any], Path], str | None
]  # (case, whole file, folder) -> first mismatch, None if equal
CHECKERS = Path(__file__).parents[2] / "tests/golden/checkers"  # in a checkout
_checkers: dict[str, Checker] = {}
_sections: dict[str, tuple[str, ...]] = {}  # topic -> the lists of its file, where they are not called `cases`


_asked: ContextVar[Mapping[str, Any]] = ContextVar("asked", default={})  # noqa: B039 - nobody changes it


class NotCovered(Exception):
    """Raised by a checker, with the reason, for a case whose method, rule or parameter we do not have."""


class FileReport(msgspec.Struct):
    """What came of one file. `cases` stand in it, `covered` of them were run, `mismatch` is the first fault, `left_out`
    says why the first of the others was not run."""

    file: str
    state: Literal["passed", "failed", "not covered"]
    cases: int = 0
    covered: int = 0
    mismatch: str = ""
    left_out: str = ""


def checks(*topics: str, sections: tuple[str, ...] = ("cases",)) -> Callable[[Checker], Checker]:
    """Register a checker for the files of these names (without .json). sections: the lists of cases in them; a case
    is told which one it stands in by its field `section`."""

    def register(checker: Checker) -> Checker:
        for topic in topics:
            _checkers[topic], _sections[topic] = checker, sections
        return checker

    return register


def loading(**own: Any) -> dict[str, Any]:
    """How a checker loads a model: with its own options, but for those that `verify` was asked for."""
    return loaded_with(own, _asked.get())


def verify(
    folder: str | Path, *, checkers: str | Path | None = None, loading: Mapping[str, Any] | None = None
) -> list[FileReport]:
    """Run every case of every JSON file below `folder`. checkers: the folder of their modules, by default that of the
    checkout; those that registered already count, too. loading: options of `load_model` for the checkpoints of the
    cases, which win over the checkers' own. Raises UserError where there are no files, or no checkers."""
    folder = Path(folder)
    if not folder.is_dir():
        raise UserError(f"'{folder}' is not a folder; give one that holds golden JSON files.")
    jsons = (f for f in folder.rglob("*.json") if f.is_file() and "stubs" not in f.parts and f.name != "card.json")
    files = sorted(f for f in jsons if not (f.parent / "config.json").is_file())  # of a checkpoint, and no cases
    if not files:
        raise UserError(f"'{folder}' holds no golden JSON files.")
    _load_checkers(None if checkers is None else Path(checkers))
    asked = _asked.set(loading or {})
    try:
        return [verify_file(f, folder) for f in files]
    finally:
        _asked.reset(asked)


def verify_file(file: Path, root: Path) -> FileReport:
    """Run the cases of one file."""
    name = str(file.relative_to(root))
    topic = file.parent.name if file.stem.startswith("cases") else file.stem  # `cases...`: as all files of a format
    checker = _checkers.get(topic)
    try:
        data = json.loads(file.read_bytes())
        known = _sections.get(topic, ("cases",))
        sections = [name for name in known if name in data] or known  # a file may lack some, not all of them
        cases = [case for name in sections for case in listed(name, data[name] if checker else data.get(name, []))]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return FileReport(name, "failed", mismatch=f"unreadable: {type(error).__name__}: {error}")
    report = FileReport(name, "not covered", cases=len(cases))
    for case in cases if checker else ():
        assert checker is not None
        try:
            mismatch = checker(case, data, file.parent)
        except NotCovered as reason:
            report.left_out = report.left_out or f"{case.get('id', '?')}: {str(reason) or 'its kind is unknown'}"
            continue
        except Exception as error:  # a case that crashes the engine is a failed case, and the next ones still run
            mismatch = f"{type(error).__name__}: {error}"
        report.covered += 1
        if mismatch and not report.mismatch:
            report.mismatch = f"{case.get('id', '?')}: {mismatch}"
    if report.covered:
        report.state = "failed" if report.mismatch else "passed"
    return report


def listed(section: str, cases: Any) -> list[Case]:
    """The cases of a section, each with its name. Raises TypeError for what is no list of objects."""
    if not isinstance(cases, list) or not all(isinstance(case, Mapping) for case in cases):
        raise TypeError(f"'{section}' is not a list of objects")
    return [{**case, "section": section} for case in cases]


def _load_checkers(folder: Path | None) -> None:
    """Import the modules of a folder as a package of their own. Raises UserError for a folder without modules, and
    where none is given, none is there and nobody has registered a checker."""
    where = folder or CHECKERS
    names = sorted(module.name for module in pkgutil.iter_modules([str(where)]))
    if not names and folder is not None:
        raise UserError(f"'{folder}' holds no Python modules; give the folder of the checkers.")
    if not names and not _checkers:
        raise UserError(
            "the checkers of the golden data are not part of an installation; clone the repository and give its folder "
            "tests/golden/checkers (--checkers), or register your own with `@engines.checks`."
        )
    package = f"golden_checkers_{abs(hash(str(where.resolve())))}"
    if package not in sys.modules:
        init = where / "__init__.py"
        spec = importlib.util.spec_from_file_location(package, init, submodule_search_locations=[str(where)])
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[package] = module
        if init.is_file() and spec.loader is not None:
            spec.loader.exec_module(module)
    for name in names:
        try:
            importlib.import_module(f"{package}.{name}")
        except Exception as error:  # whatever a person's own module does
            raise UserError(
                f"the checker {where / name}.py cannot be imported: {type(error).__name__}: {error}; mend it, or take "
                "it out of the folder."
            ) from error


def differ(name: str, got: Any, expected: Any, tolerance: float = 1e-9) -> str | None:
    """The first place where two nested values differ, floats within `tolerance`; None if they agree."""
    return next(_differences(name, got, expected, tolerance), None)


def _differences(name: str, got: Any, expected: Any, tolerance: float) -> Iterator[str]:
    if isinstance(expected, Mapping):
        for key, value in expected.items():
            if not isinstance(got, Mapping) or key not in got:
                yield f"{name}.{key} is missing"
            else:
                yield from _differences(f"{name}.{key}", got[key], value, tolerance)
    elif isinstance(expected, list):
        if not isinstance(got, (list, tuple)) or len(got) != len(expected):
            yield f"{name} is {_short(got)}, expected {_short(expected)}"
            return
        for i, (a, b) in enumerate(zip(got, expected, strict=True)):
            yield from _differences(f"{name}[{i}]", a, b, tolerance)
    elif isinstance(expected, float) and isinstance(got, (int, float)):
        if not math.isclose(got, expected, rel_tol=0, abs_tol=tolerance):
            yield f"{name} is {got}, expected {expected}"
    elif got != expected:
        yield f"{name} is {_short(got)}, expected {_short(expected)}"


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 80 else text[:77] + "..."
