"""What a method declares. One decorated generator per paper, for the registry, the driver and the page."""

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, get_args

import msgspec

from engines.core.kinds import KINDS
from engines.core.params import Param, Params, resolve
from engines.core.trace import GROUPS, Edit, Record, RecordInfo, Step, Unit, described
from engines.core.trace.records import MAX_RECORDS, check_names

Decode = Callable[..., Generator[Step, Edit | None, None]]


class LaneInfo(msgspec.Struct, frozen=True):
    """A score lane a method may fill: its unit and one sentence on what it is; "" where the paper's file has it."""

    unit: Unit
    meaning: str = ""


@dataclass(frozen=True)
class PartNeed:
    """A trained part of the picked model that a method asks for in `needs`, and the formats of published drafters that
    can stand in its place."""

    name: str
    formats: tuple[str, ...] = ()


def part(name: str, *formats: str) -> PartNeed:
    """In `needs`: the part of that name which was trained for the picked model (`engines.models.parts`), such as
    `needs={"target": "layered", "head": part("kangaroo")}`; the method finds it as `models.head`. formats: those of
    published drafters (`engines.load_drafter`) that it can draft with in place of that part."""
    return PartNeed(name, formats)


class MethodInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The declaration: everything the page, the command line and the docs say about a method.

    `needs` maps model roles to kinds (`engines.core.kinds`); the first role is the model a person picks, the others
    come from its companions. `parts` maps further roles to trained parts of the picked model, by their names;
    `drafters` those of them in whose place a published drafter can draft to its formats. `baseline` is the slug
    that its neutral parameters reduce it to; `lossless` claims the baseline's exact output at the defaults. Where
    that depends on parameters, `lossless_with` lists the values that it takes, each entry enough by itself, and
    `keeps` answers for given values. `records`: by name, the types of what it tells of its own; the player shows
    one with the view that asks for its name, or as a table where there is none. `signature`: the view of the player
    that shows the idea of the paper, and stands open in every player of a run; "" leaves the choice to what the run
    holds. `curve`: a parameter and its values, the safest first, where sweeping this plain method is what all
    others on its kind of model compare with. `beside`: roles of models that the run is only compared with: their
    calls stand beside its totals, as facts of a step. `optional`: roles of further models that it runs without
    where the picked model has no such companion. `paths`: parameters under which it writes several continuations at
    once; empty where it always does, None where it never does. `own`: a short phrase that follows the title
    wherever it is shown, where this was written from less than the paper's text or is another algorithm. `file`,
    `version`: the local file that it was loaded from and the sha256 of its text; empty for those that ship."""

    slug: str
    title: str
    family: str
    paper: str
    summary: str
    needs: dict[str, str]
    params: tuple[Param, ...]
    emits: frozenset[str]
    lanes: dict[str, LaneInfo] = {}
    records: dict[str, type[Record]] = {}
    baseline: str | None = None
    lossless: bool = False
    lossless_with: tuple[dict[str, Any], ...] = ()
    curve: tuple[str, tuple[float, ...]] | None = None
    signature: str = ""
    code: str = ""
    departures: str = "none"
    own: str = ""
    paths: dict[str, Any] | None = None
    beside: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()
    parts: dict[str, str] = {}
    drafters: dict[str, tuple[str, ...]] = {}
    costs: bool = False
    file: str = ""
    version: str = ""

    @property
    def described(self) -> dict[str, RecordInfo]:
        """What a header says of its records."""
        return {name: described(kind) for name, kind in self.records.items()}

    def keeps(self, params: Mapping[str, Any]) -> bool:
        """Whether it claims its baseline's output with these values of parameters, which may be text as on a command
        line; one left out has its default. Raises UserError for a value out of range."""
        if not self.lossless_with:
            return self.lossless
        values = {p.name: p.check(params[p.name]) if p.name in params else p.default for p in self.params}
        return _any_holds(self.lossless_with, values)

    @property
    def condition(self) -> str:
        """The values of parameters with which it is lossless, in words; "" where it always or never is."""
        entries = [
            ", ".join(f"{name}={value}" for name, value in condition.items()) for condition in self.lossless_with
        ]
        return " or ".join(entries)

    @property
    def own_file(self) -> str:
        """What the file that it was loaded from is called, or the folder that its `__init__.py` lies in; "" for those
        that ship."""
        path = PurePath(self.file)
        return f"{path.parent.name}/" if path.name == "__init__.py" else path.name

    @property
    def role(self) -> str:
        """The role of the model that a person picks."""
        return next(iter(self.needs))

    @property
    def kind(self) -> str:
        """The kind of board that it writes, which is what a model's record calls its kind: of a method that needs a
        layered model this is causal, for it writes what any causal method writes and can take over from one. Which
        models it can run on is what `needs` says."""
        return KINDS[self.needs[self.role]].board


@dataclass(frozen=True)
class Method:
    """A declaration with its generator `decode(model, prompt, p, run)`; several roles arrive as `models.<role>`."""

    info: MethodInfo
    decode: Decode
    check: Callable[[Params], None] | None = None  # raises UserError where parameters do not fit each other


def method(
    slug: str,
    *,
    title: str,
    family: str = "",
    paper: str = "",
    summary: str,
    needs: str | Mapping[str, str | PartNeed],
    params: Sequence[Param],
    emits: Collection[str],
    lanes: Mapping[str, LaneInfo | Unit] | None = None,
    records: Mapping[str, type[Record]] | None = None,
    baseline: str | None = None,
    lossless: bool | Mapping[str, Any] | Sequence[Mapping[str, Any]] = False,
    curve: tuple[str, tuple[float, ...]] | None = None,
    signature: str = "",
    code: str = "",
    departures: str = "",
    own: str = "",
    paths: Mapping[str, Any] | None = None,
    beside: Collection[str] = (),
    optional: Collection[str] = (),
    costs: bool = False,
    check: Callable[[Params], None] | None = None,
) -> Callable[[Decode], Method]:
    """Declare the decorated generator as a method. family: by default the folder that it ships in. lossless: whether it
    gives its baseline's output, or the values of parameters with which it does (of several such mappings each is
    enough). lanes: by name, a unit or a `LaneInfo`. Sentences may stand in the paper's file (`engines.core.sentences`).
    Raises ValueError for contradictions."""
    emits, own_records = _emitted(slug, emits, records or {})
    if len({p.name for p in params}) != len(params):
        raise ValueError(f"method '{slug}' declares a parameter twice")
    if curve and (curve[0] not in {p.name for p in params} or not curve[1]):
        raise ValueError(
            f"method '{slug}' has a curve over '{curve[0]}', which needs to be one of its parameters, with values"
        )
    _check_values(params, curve)
    resolve(params, paths)
    roles, parts, drafters = _roles(slug, needs)
    _check_beside(slug, roles, beside, optional)
    conditions = () if isinstance(lossless, bool) else _conditions(lossless, params, slug)
    info = MethodInfo(
        slug=slug,
        title=title,
        family=family,
        paper=paper,
        summary=summary,
        needs=roles,
        params=tuple(params),
        emits=emits,
        lanes=_lanes(slug, lanes or {}),
        records=own_records,
        baseline=baseline,
        lossless=_any_holds(conditions, {p.name: p.default for p in params}) if conditions else bool(lossless),
        lossless_with=conditions,
        curve=curve,
        signature=signature,
        code=code,
        departures=departures,
        own=own,
        paths=None if paths is None else dict(paths),
        beside=frozenset(beside),
        optional=frozenset(optional),
        costs=costs,
        parts=parts,
        drafters=drafters,
    )
    return lambda decode: Method(msgspec.structs.replace(info, family=family or _home(slug, decode)), decode, check)


def _home(slug: str, decode: Decode) -> str:
    """The folder of `engines/methods` that a method ships in. Raises ValueError for one that lies elsewhere."""
    module = decode.__module__.split(".")
    if module[:2] != ["engines", "methods"]:
        raise ValueError(f"method '{slug}' names no family; write family='own' in @method(...)")
    return module[2]


def _check_beside(slug: str, roles: Mapping[str, str], beside: Collection[str], optional: Collection[str]) -> None:
    """Raises ValueError where a run is compared with what is no further model of it, or may lack another one."""
    if not set(beside) < set(roles):
        raise ValueError(f"method '{slug}' compares with {sorted(beside)}; its models are {', '.join(roles)}")
    if not set(optional) <= set(list(roles)[1:]):
        raise ValueError(
            f"method '{slug}' may lack {sorted(optional)}; only a further model may be lacking: {list(roles)[1:]}"
        )


def _check_values(params: Sequence[Param], curve: tuple[str, tuple[float, ...]] | None) -> None:
    """Raises UserError for a default, or a value of the curve, that its parameter does not take."""
    for p in params:
        p.check(p.default)
        for value in curve[1] if curve and p.name == curve[0] else ():
            p.check(value)


def _emitted(
    slug: str, emits: Collection[str], given: Mapping[str, type[Record]]
) -> tuple[frozenset[str], dict[str, type[Record]]]:
    """The groups and the records of a method. Raises ValueError for groups that are not known, and for names and types
    that no record can have."""
    if unknown := set(emits) - GROUPS:
        raise ValueError(
            f"method '{slug}' emits unknown groups {sorted(unknown)}; known are {sorted(GROUPS)}; what is its own goes "
            "into records="
        )
    check_names(given, Step.__struct_fields__, f"method '{slug}'")
    if len(given) > MAX_RECORDS:
        raise ValueError(f"method '{slug}' declares {len(given)} records; at most {MAX_RECORDS} are taken")
    for name, kind in given.items():
        if not (isinstance(kind, type) and issubclass(kind, Record)):
            raise ValueError(
                f"method '{slug}' declares the record '{name}' as {kind!r}; give a class that derives from "
                "engines.kit.Record"
            )
    return frozenset(emits), dict(given)


def _lanes(slug: str, given: Mapping[str, LaneInfo | Unit]) -> dict[str, LaneInfo]:
    """The lanes, of which a unit alone may be given. Raises ValueError for one that is not known."""
    for name, spec in given.items():
        if isinstance(spec, str) and spec not in get_args(Unit):
            raise ValueError(
                f"method '{slug}' declares the lane '{name}' in '{spec[:60]}'; a unit is {', '.join(get_args(Unit))}"
            )
    return {name: LaneInfo(spec) if isinstance(spec, str) else spec for name, spec in given.items()}


def _conditions(
    given: Mapping[str, Any] | Sequence[Mapping[str, Any]], params: Sequence[Param], slug: str
) -> tuple[dict[str, Any], ...]:
    """The values with which a method is lossless, in the parameters' own types."""
    declared = {p.name: p for p in params}
    entries = [dict(condition) for condition in ([given] if isinstance(given, Mapping) else given)]
    if not entries or not all(entries) or any(name not in declared for condition in entries for name in condition):
        raise ValueError(f"method '{slug}' is lossless with values of parameters that it has, or says True or False")
    return tuple({name: declared[name].check(value) for name, value in condition.items()} for condition in entries)


def _any_holds(conditions: Sequence[Mapping[str, Any]], values: Mapping[str, Any]) -> bool:
    return any(all(values[name] == value for name, value in condition.items()) for condition in conditions)


def _roles(
    slug: str, needs: str | Mapping[str, str | PartNeed]
) -> tuple[dict[str, str], dict[str, str], dict[str, tuple[str, ...]]]:
    """(role -> kind of model, role -> name of a part, role -> formats of drafters). Raises ValueError for a kind that
    is not known, or a part without a model."""
    given = {KINDS[needs].role if needs in KINDS else "model": needs} if isinstance(needs, str) else dict(needs)
    models = {role: need for role, need in given.items() if isinstance(need, str)}
    if unknown := set(models.values()) - set(KINDS):
        raise ValueError(f"method '{slug}' needs unknown kinds of models {sorted(unknown)}; known are {sorted(KINDS)}")
    if not models or next(iter(given)) not in models:
        raise ValueError(f"method '{slug}' needs a model in its first role; a part belongs to the model before it")
    parts = {role: need for role, need in given.items() if isinstance(need, PartNeed)}
    formats = {role: need.formats for role, need in parts.items() if need.formats}
    return models, {role: need.name for role, need in parts.items()}, formats


def arguments(info: MethodInfo, **values: Any) -> dict[str, Any]:
    """The given values that this method declares; used where one setting goes to several methods (the page's length,
    the contract tests)."""
    names = {p.name for p in info.params}
    return {name: value for name, value in values.items() if name in names}
