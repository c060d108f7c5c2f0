"""What a study declares, how it is found, and how it is run: one file of `engines/studies` each.

@study("dice", title="Dice", paper="", summary="Sums of two dice.", inputs=[Int("sides", 6, 2, 20, help="...")])
def dice(p: Params, progress: Progress) -> Study:
    return Study(tables=[...])
"""

import datetime
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import msgspec

from engines.core.errors import UserError
from engines.core.machine import machine
from engines.core.params import Param, Params, resolve
from engines.core.registry import Broken, declared_in_modules
from engines.core.study.record import Study, check_study
from engines.core.version import versions

STUDIES = Path(__file__).resolve().parents[2] / "studies"
Partial = Callable[[Callable[[], Study]], None]


class Progress(Protocol):
    """How a study tells how far it is: parts done, of all. found: makes a study of what is there by now, where that can
    be shown; it is called later, or not at all, so it holds on to nothing that changes."""

    def __call__(self, done: int, total: int, make_study: Callable[[], Study] | None = None) -> None:
        """See the class."""


Compute = Callable[[Params, Progress], Study]


class StudyInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The declaration: everything the page, the command line and the docs say about a study. runs_models: it decodes or
    measures on this machine, which may take minutes; else it is arithmetic."""

    slug: str
    title: str
    paper: str
    summary: str
    inputs: tuple[Param, ...]
    departures: str = "none"
    runs_models: bool = False


@dataclass(frozen=True)
class DeclaredStudy:
    """A declaration with its function. check raises UserError where inputs do not fit each other."""

    info: StudyInfo
    compute: Compute
    check: Callable[[Params], None] | None = None


def study(
    slug: str,
    title: str,
    paper: str,
    *,
    summary: str,
    inputs: Sequence[Param],
    departures: str = "none",
    runs_models: bool = False,
    check: Callable[[Params], None] | None = None,
) -> Callable[[Compute], DeclaredStudy]:
    """Declare the decorated function as a study. Raises ValueError where the declaration contradicts itself."""
    names = [p.name for p in inputs]
    if len(set(names)) != len(names) or {"progress", "partial"} & {*names}:
        raise ValueError(f"study '{slug}' declares an input twice, or one called 'progress' or 'partial'")
    for p in inputs:
        p.check(p.default)
    info = StudyInfo(
        slug=slug,
        title=title,
        paper=paper,
        summary=summary,
        inputs=tuple(inputs),
        departures=departures,
        runs_models=runs_models,
    )
    return lambda compute: DeclaredStudy(info, compute, check)


@lru_cache(maxsize=1)
def _registry() -> tuple[dict[str, DeclaredStudy], tuple[Broken, ...]]:
    """Walk `engines/studies/*.py` once per process; files with a leading underscore are helpers."""
    studies = dict[str, DeclaredStudy]()

    def add(declared: list[DeclaredStudy]) -> None:
        if not declared:
            raise ValueError("declares no study")
        for declaration in declared:
            if declaration.info.slug in studies:
                raise ValueError(f"slug '{declaration.info.slug}' is taken")
            studies[declaration.info.slug] = declaration

    return studies, tuple(declared_in_modules(STUDIES, "engines.studies", DeclaredStudy, add))


def list_studies() -> list[StudyInfo]:
    """The declarations of all working studies."""
    return [declaration.info for declaration in _registry()[0].values()]


def broken_studies() -> list[Broken]:
    """Study files that do not load, with the reason."""
    return list(_registry()[1])


def get_study(slug: str) -> DeclaredStudy:
    """The study of that slug. Raises UserError with the known ones."""
    studies = _registry()[0]
    if slug not in studies:
        raise UserError(f"unknown study '{str(slug)[:60]}'; choose one of {', '.join(studies) or 'none'}.")
    return studies[slug]


def run_study(
    name: str | DeclaredStudy,
    inputs: Mapping[str, Any],
    progress: Callable[[int, int], None] | None = None,
    partial: Partial | None = None,
) -> Study:
    """Compute a study. progress(parts done, of all) is called where it takes long; before it partial(make), where what
    is there by now can be shown: make() is that as a whole record, with a note that says so. Raises UserError for bad
    inputs."""
    declaration = get_study(name) if isinstance(name, str) else name
    p = resolve(declaration.info.inputs, inputs, what=f"study '{declaration.info.slug}'")
    if declaration.check:
        declaration.check(p)
    began = time.perf_counter()

    def report(done: int, total: int, make_study: Callable[[], Study] | None = None) -> None:
        if make_study is not None and partial is not None:
            partial(
                lambda: _complete(
                    declaration, p, make_study(), began, [f"Stopped or under way: {done} of {total} parts."]
                )
            )
        if progress is not None:
            progress(done, total)

    return _complete(declaration, p, declaration.compute(p, report), began)


def _complete(declaration: DeclaredStudy, p: Params, computed: Study, began: float, notes: Sequence[str] = ()) -> Study:
    """What a study gave, checked, with all that does not depend on it."""
    check_study(computed)
    return msgspec.structs.replace(
        computed,
        notes=[*notes, *computed.notes],
        study=declaration.info.slug,
        title=declaration.info.title,
        paper=declaration.info.paper,
        inputs=dict(vars(p)),
        departures=declaration.info.departures,
        versions=dict(versions()),
        machine=machine(model.device for model in computed.models),
        made_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        seconds=round(time.perf_counter() - began, 3),
    )
