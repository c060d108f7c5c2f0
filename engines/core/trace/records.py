"""Records: what a method tells of its own, under a name and in a form that the method declares.

A record type is a `Record`, a small struct beside the method's loop. A step carries its records as plain JSON objects,
and the header says once what each is and what its fields hold, so that a reader who does not know the method can check
and show them: tokens as text, positions as places on the board, numbers with their units."""

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from engines.core.trace.base import EXACT, Record, TraceError
from engines.core.trace.packed import Packed

NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
MAX_RECORDS = 32  # different names in a trace; each has a view of its own
MAX_BYTES = 2**22  # of one record in one step
MAX_FIELDS, MAX_PATH = 2**8, 200  # whose units a header tells, in all; characters of a path
DEEP = 16  # objects and lists within each other
PACKED = {"dtype", "shape", "data"}  # fields by which a packed array is known

# What a field of a record holds, where its type alone does not say it: any unit may be named in this way.
TokenId = Annotated[int, Meta(ge=0, le=EXACT, extra={"unit": "token"})]
Position = Annotated[int, Meta(ge=0, le=EXACT, extra={"unit": "position"})]
Probability = Annotated[float, Meta(extra={"unit": "probability"})]
NumBytes = Annotated[int, Meta(ge=0, le=EXACT, extra={"unit": "bytes"})]
PackedTokens = Annotated[Packed, Meta(extra={"unit": "token"})]  # -1: no token at this place

R = TypeVar("R", bound=Record)
Json = dict[str, Any]


class RecordInfo(Record):
    """What a header says of the records of a name. meaning: a sentence. units: what the numbers of a field are, by its
    path, such as {"tokens": "token", "tallies.confidence": "probability"}; lists add nothing to a path."""

    meaning: str = ""
    units: dict[str, str] = {}


@cache
def described(kind: type[Record]) -> RecordInfo:
    """What a header says of this type of records: the first sentence of its docstring and the units of its fields."""
    text = inspect.cleandoc(kind.__doc__ or "").split("\n\n")[0].replace("\n", " ")
    return RecordInfo(re.split(r"(?<=[.!?])\s", text)[0], dict(_units(msgspec.inspect.type_info(kind), "", ())))


def _units(kind: Any, path: str, above: tuple[Any, ...]) -> Iterator[tuple[str, str]]:
    inner = msgspec.inspect
    if isinstance(kind, inner.Metadata):
        if unit := (kind.extra or {}).get("unit"):
            yield path, str(unit)
        yield from _units(kind.type, path, above)
    elif isinstance(kind, inner.ListType | inner.VarTupleType):
        yield from _units(kind.item_type, path, above)
    elif isinstance(kind, inner.DictType) and not isinstance(kind.value_type, inner.StructType):
        yield from _units(kind.value_type, path, above)
    elif isinstance(kind, inner.UnionType):
        for member in kind.types:
            yield from _units(member, path, above)
    elif isinstance(kind, inner.StructType) and kind.cls is not Packed and kind.cls not in above:
        for field in kind.fields:
            name = f"{path}.{field.encode_name}" if path else field.encode_name
            yield from _units(field.type, name, (*above, kind.cls))


def packed_record(name: str, value: Any, kind: type[Record] | None) -> Json:
    """A record as a step carries it. kind: as declared; None for any. Raises ValueError where the value does not fit:
    another type, a field of another type, or too many bytes."""
    wanted = kind or Record
    if not isinstance(value, wanted):
        raise ValueError(f"record '{name}' is declared as {wanted.__name__} and was given {type(value).__name__}")
    try:
        plain: Json = msgspec.to_builtins(value)
        msgspec.convert(plain, type(value))
        plain = _lists(plain) if _holds_tuples(type(value)) else plain
    except TypeError as error:
        raise ValueError(
            f"record '{name}' holds what is no plain number, text, list or packed array ({error}); write float(x), "
            "x.tolist() or pack(x)"
        ) from None
    except msgspec.ValidationError as error:
        raise ValueError(f"record '{name}' does not fit its declaration {type(value).__name__}: {error}") from None
    if (size := len(msgspec.json.encode(plain))) > MAX_BYTES:
        raise ValueError(f"record '{name}' has {size:,} bytes; a step takes {MAX_BYTES:,} of each record")
    return plain


@cache
def _holds_tuples(kind: type[Record]) -> bool:
    return "TupleType(" in repr(msgspec.inspect.type_info(kind))  # of fixed length and of any


def _lists(value: Any) -> Any:
    """Tuples as lists, as they come back from JSON."""
    if isinstance(value, dict):
        return {name: _lists(child) for name, child in value.items()} if not value.keys() >= PACKED else value
    return [_lists(child) for child in value] if isinstance(value, list | tuple) else value


def typed(records: Mapping[str, Json], name: str, kind: type[R]) -> R | None:
    """The record of that name as `kind`, None where there is none. Raises TraceError where it has another form."""
    if name not in records:
        return None
    try:
        return msgspec.convert(records[name], kind)
    except msgspec.ValidationError as error:
        raise TraceError(f"the record '{name}' does not fit {kind.__name__}: {error}") from None


def check_names(names: Iterable[str], taken: Iterable[str], where: str) -> None:
    """Raises ValueError for names that no record can have, such as those of the schema's own groups."""
    for name in names:
        if not NAME.fullmatch(name):
            raise ValueError(
                f"{where} names a record {name[:60]!r}; a name has at most 40 small letters, digits and _, a letter "
                "first"
            )
        if name in taken:
            raise ValueError(f"{where} names a record '{name}', which is a group of every trace; choose another name")


def arrays(record: Json) -> Iterator[Packed]:
    """The packed arrays of a record, found by their form. Raises TraceError where one has a wrong form."""
    for value in _values(record, 0):
        if _is_packed(value):
            yield _packed(value)


def places(infos: Mapping[str, RecordInfo], unit: str) -> dict[str, list[list[str]]]:
    """Where the records of each name hold `unit`, such as "token": paths, name by name."""
    return {
        name: paths
        for name, info in infos.items()
        if (paths := [path.split(".") for path, field_unit in info.units.items() if field_unit == unit])
    }


def held(record: Json, paths: Iterable[Sequence[str]]) -> list[int]:
    """The whole numbers at these paths of a record, through lists; those below 0 are no value."""
    numbers: list[int] = []
    reached: dict[tuple[str, ...], list[Any]] = {(): [record]}  # several paths begin alike
    for path in paths:
        at: tuple[str, ...] = ()
        for name in path:
            before, at = reached[at], (*at, name)
            if at not in reached:
                reached[at] = _flat([node[name] for node in before if isinstance(node, dict) and name in node])
        values = list(reached[at])
        for value in [node for node in values if isinstance(node, dict)]:
            values += _packed(value).array().ravel().tolist() if _is_packed(value) else value.values()
        numbers += [n for n in values if type(n) is int and n >= 0]
    return numbers


def _flat(values: list[Any]) -> list[Any]:
    """What stands in lists within each other, in order."""
    while any(isinstance(value, list) for value in values):
        values = [inner for value in values for inner in (value if isinstance(value, list) else [value])]
    return values


def _is_packed(value: Any) -> bool:
    return isinstance(value, dict) and PACKED <= value.keys() <= {*PACKED, "lo", "hi"}


def _values(value: Any, deep: int) -> Iterator[Any]:
    if deep > DEEP:
        raise TraceError(f"a record has more than {DEEP} objects and lists within each other")
    yield value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for child in inner:
        if isinstance(child, dict | list):
            yield from _values(child, deep + 1)


def _packed(value: Json) -> Packed:
    try:
        return msgspec.convert(value, Packed)
    except msgspec.ValidationError as error:
        raise TraceError(f"a packed array of a record: {error}") from None
