"""Records: what a method tells of its own, declared in its file, packed, checked and carried by one mechanism."""

from __future__ import annotations

import json
from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np
import pytest
from msgspec import Meta

import engines
from engines.core.method import Method
from engines.core.registry import check_records
from engines.core.trace import Detail, Trace, TraceError, records
from engines.kit import (
    Int,
    Packed,
    PackedTokens,
    Position,
    Probability,
    Record,
    Recorder,
    TokenId,
    UserError,
    max_new_tokens,
    method,
    pack,
    pack_exact,
)
from tests.engines.fakes import TableCausal


class Hop(Record):
    """One floor."""

    floor: int
    confidence: Probability


class Hops(Record):
    """Where each draft left the network. More is not said."""

    position: Position
    tokens: list[TokenId]
    hops: list[Hop] = []
    cost: Annotated[float, Meta(extra={"unit": "seconds"})] = 0.0
    seen: PackedTokens | None = None
    map: Packed | None = None
    by_name: dict[str, Probability] = {}

    def __post_init__(self) -> None:
        if len(self.hops) > len(self.tokens):
            raise ValueError("hops: more floors than tokens")


class Early(Record):
    """Kept where little is."""

    KEPT_FROM: ClassVar[Detail] = "light"

    n: int


def hops(at: int, token: int) -> Hops:
    shades = pack(np.linspace(0, 1, 6).reshape(2, 3), 0.0, 1.0)
    return Hops(at, [token], [Hop(2, 0.5)], 0.25, pack_exact(np.array([[token, -1]])), shades, {"a": 0.5})


def made(slug: str = "with-hops", record: Any = None, declared: Any = None, **more: Any) -> Method:
    """Greedy decoding that tells of hops."""

    @method(
        slug,
        title="Hops",
        family="own",
        paper="",
        summary="A test.",
        needs="causal",
        params=[max_new_tokens(), Int("n", 1, 1, 9, help="Nothing.")],
        emits={"commits"},
        records={"hops": Hops, "early": Early} if declared is None else declared,
        **more,
    )
    def decode(model: Any, prompt: list[int], p: Any, run: Recorder) -> Any:
        ids, cache = prompt, model.new_cache(len(prompt) + p.max_new_tokens)
        for _ in range(p.max_new_tokens):
            token = int(model.extend(ids[cache.length :], cache, last_only=True).logits[0].argmax())
            given = {"hops": lambda at=ids, token=token: hops(len(at), token), "early": Early(p.n)}
            yield run.step(commits=([len(ids)], [token], "greedy"), records=given if record is None else record)
            ids = [*ids, token]

    return decode


@pytest.fixture
def run_of(monkeypatch: pytest.MonkeyPatch) -> Any:
    def run(one: Method, **options: Any) -> Trace:
        monkeypatch.setitem(engines.core.registry.registry().methods, one.info.slug, one)
        params = {"max_new_tokens": 3} | options.pop("params", {})
        return engines.run(one.info.slug, TableCausal(), [1, 2], params=params, **options)

    return run


def test_a_record_is_kept_typed_and_survives_the_round_trip(run_of: Any) -> None:
    trace = run_of(made())
    assert Trace.from_json(trace.to_json()) == trace
    found = trace.steps[1].record("hops", Hops)
    assert found == hops(trace.steps[1].commits.positions[0], trace.steps[1].commits.tokens[0])
    assert found.map.array()[0, 2] == pytest.approx(0.4, abs=1e-2)
    assert trace.steps[1].record("nothing", Hops) is None
    with pytest.raises(TraceError, match="the record 'hops' does not fit Early"):
        trace.steps[1].record("hops", Early)


def test_the_header_says_what_its_fields_hold(run_of: Any) -> None:
    told = run_of(made()).header.records["hops"]
    assert told.meaning == "Where each draft left the network."
    assert told.units == {
        "position": "position", "tokens": "token", "hops.confidence": "probability", "cost": "seconds",
        "seen": "token", "by_name": "probability",
    }  # fmt: skip


def test_detail_says_what_is_kept(run_of: Any) -> None:
    assert [set(run_of(made(), detail=d).steps[0].records) for d in ("none", "light", "full")] == [
        set(), {"early"}, {"hops", "early"}
    ]  # fmt: skip


def test_its_tokens_are_in_the_table_and_are_looked_up_when_it_is_read(run_of: Any) -> None:
    trace = run_of(made(record={"hops": Hops(2, [7])}))
    assert 7 in {piece.id for piece in trace.pieces}
    read = json.loads(trace.to_json())
    for path, value, said in [
        ("tokens", [77], "uses token 77"),
        ("seen", msgspec.to_builtins(pack_exact(np.array([[77, -1]]))), "uses token 77"),
        ("position", 10**9, "names position 1000000000"),
        ("map", {"dtype": "u1", "shape": [9, 9], "data": "AA=="}, "does not have 1 bytes"),
        ("map", {"dtype": "u9", "shape": [1], "data": "AA=="}, "a packed array of a record"),
    ]:
        changed = json.loads(json.dumps(read))
        changed["steps"][0]["records"]["hops"][path] = value
        with pytest.raises(TraceError, match=said):
            Trace.from_json(json.dumps(changed))


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"hop": Early(1)}, r"record 'hop' is not declared; add it to records=\{'hop': ...\}"),
        ({"hops": Early(1)}, "record 'hops' is declared as Hops and was given Early"),
        ({"hops": [1]}, "record 'hops' is declared as Hops and was given list"),
        ({"hops": Hops("two", [1])}, r"record 'hops' does not fit its declaration Hops: Expected `int`, got `str`"),
        ({"hops": Hops(1, [1], map=np.zeros(2))}, "record 'hops' holds what is no plain number, text, list or packed"),
        ({"hops": Hops(1, [-5])}, r"record 'hops' does not fit its declaration Hops: Expected `int` >= 0"),
    ],
)
def test_what_does_not_fit_its_declaration_is_refused(run_of: Any, record: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        run_of(made(record=record))


def test_a_record_has_a_size(run_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "MAX_BYTES", 20)
    with pytest.raises(ValueError, match=r"record 'hops' has \d+ bytes; a step takes 20"):
        run_of(made())


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({"tree": Hops}, "names a record 'tree', which is a group of every trace"),
        ({"forwards": Hops}, "names a record 'forwards', which is a group of every trace"),
        ({"../x": Hops}, "names a record '../x'; a name has at most 40 small letters"),
        ({"hops": dict}, "declares the record 'hops' as <class 'dict'>; give a class that derives from"),
        ({f"r{i}": Hops for i in range(33)}, "declares 33 records; at most 32"),
    ],
)
def test_a_declaration_that_cannot_be_is_refused(declared: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        made(declared=declared)


def test_two_methods_may_share_a_record_and_not_only_its_name() -> None:
    class Other(Record):
        floor: int

    known = {"with-hops": made()}
    check_records(made("second").info, known)
    with pytest.raises(ValueError, match=r"'second' declares the record 'hops' with the fields floor; 'with-hops' has"):
        check_records(made("second", declared={"hops": Other}).info, known)


def test_a_record_that_nobody_knows_is_kept_as_it_is(run_of: Any) -> None:
    trace = json.loads(run_of(made()).to_json())
    odd = {"deep": [{"a": [1, 2.5, None, "x"]}], "tokens": [10**6], "n": -1}
    trace["steps"][2].setdefault("records", {})["stranger"] = odd
    read = Trace.from_json(json.dumps(trace))
    assert read.steps[2].records["stranger"] == odd
    assert json.loads(read.to_json()) == trace and Trace.from_json(read.to_json()) == read


def test_a_header_that_names_too_much_is_refused(run_of: Any) -> None:
    trace = json.loads(run_of(made()).to_json())
    for units, said in [
        ({f"f{i}": "token" for i in range(257)}, "names the units of 257 fields; at most 256"),
        ({"a." * 101: "token"}, "of a field with 202 characters; at most 200"),
    ]:
        trace["header"]["records"] = {"hops": {"units": units}}
        with pytest.raises(TraceError, match=said):
            Trace.from_json(json.dumps(trace))


def test_lists_within_lists_and_objects_that_are_no_array_are_walked(run_of: Any) -> None:
    """A stranger's object may have fields of these names and mean something else."""
    record = {"rows": [[3, [4, -1]], 5], "by": {"x": 6}, "odd": {"dtype": 1, "shape": 2, "data": 3, "more": 4}}
    found = records.held(record, [["rows"], ["by"], ["odd", "more"], ["nothing", "at"], ["rows", "deeper"]])
    assert found == [3, 4, 5, 6, 4] and list(records.arrays(record)) == []


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ({"commits": {}}, "names a record 'commits', which is a group of every trace"),
        ({"A b": {}}, "names a record 'A b'"),
        ({f"r{i}": {} for i in range(33)}, r"names 3\d records; at most 32"),
        ({"deep": json.loads('{"a":' * 20 + "1" + "}" * 20)}, "more than 16 objects and lists within each other"),
        ({"list": [1]}, "not a valid trace: Expected `object`, got `array`"),
    ],
)
def test_what_no_trace_holds_is_refused(run_of: Any, records: Any, said: str) -> None:
    trace = json.loads(run_of(made()).to_json())
    trace["steps"][0]["records"] = records
    with pytest.raises(TraceError, match=said):
        Trace.from_json(json.dumps(trace))


def test_a_method_file_of_before_records_runs_as_it_is(tmp_path: Any) -> None:
    """Its groups were arguments of `run.step` and stood in `emits`; its structs came from the kit."""
    file = tmp_path / "older.py"
    file.write_text(OLDER, "utf-8")
    try:
        (info,) = engines.load_method_file(file)
        trace = engines.run(info.slug, TableCausal(), [1, 2], params={"max_new_tokens": 2})
        assert trace.steps[0].records["truncation"]["tokens"] == [1, 2] and "truncation" in trace.header.records
        assert info.params[1].help == "Nothing." and trace.steps[0].intervals[0].track == "target"
        assert Trace.from_json(trace.to_json()) == trace
    finally:
        engines.core.registry.registry().methods.pop("older", None)


OLDER = """
from engines.kit import Float, Truncation, max_new_tokens, method


@method(
    "older", title="Older", family="own", paper="", summary="A file of an earlier version.", needs="causal",
    params=[max_new_tokens(), Float("part", 0.2, 0.0, 1.0, sees="Nothing.")],
    signature="thermometer", emits={"commits", "truncation", "lanes"},
)
def decode(model, prompt, p, run):
    ids, cache = prompt, model.new_cache(len(prompt) + p.max_new_tokens)
    for _ in range(p.max_new_tokens):
        token = int(model.extend(ids[cache.length :], cache, last_only=True).logits[0].argmax())
        cut = Truncation(len(ids), [1, 2], [0.5, 0.25], [0.5, 0.75], 2, 0, 0.75, "mass", "probability", 0.7)
        yield run.step(commits=([len(ids)], [token], "greedy"), truncation=lambda: cut, lanes=run.calls())
        ids = [*ids, token]
"""


def test_an_own_file_with_a_name_that_is_taken_is_refused(tmp_path: Any) -> None:
    file = tmp_path / "clash.py"
    text = OLDER.replace('"truncation", "lanes"}', '"note"}, records={"vote": Mine}').replace("Truncation,", "Record,")
    file.write_text(text.replace("@method", "class Mine(Record):\n    n: int\n\n\n@method"), "utf-8")
    with pytest.raises(UserError, match=r"declares the record 'vote' with the fields n; 'ffs' has one of that name"):
        engines.load_method_file(file)


@pytest.mark.parametrize("detail", ["none", "full"])
def test_what_no_step_takes_is_refused_at_any_detail(run_of: Any, detail: str) -> None:
    """Older names are taken, a slip of the pen is not."""

    @method(
        "slips", title="Slips", family="own", paper="", summary="A test.", needs="causal", params=[max_new_tokens()],
        emits={"commits"},
    )  # fmt: skip
    def decode(model: Any, prompt: list[int], p: Any, run: Recorder) -> Any:
        model.extend(prompt, model.new_cache(9), last_only=True)
        yield run.step(comits=([2], [3], "greedy"))

    with pytest.raises(TypeError, match=r"run\.step\(\) takes no 'comits'; a record goes into records="):
        run_of(decode, detail=detail)


class Pairs(Record):
    """Intervals."""

    wins: list[tuple[float, float] | None] = []
    costs: tuple[int, ...] = ()


def test_tuples_of_a_record_come_back_as_they_were_kept():
    plain = records.packed_record("pairs", Pairs([(0.0, 0.5), None], (1, 2)), Pairs)
    assert plain == {"wins": [[0.0, 0.5], None], "costs": [1, 2]} == json.loads(msgspec.json.encode(plain))
    assert records.typed({"pairs": plain}, "pairs", Pairs) == Pairs([(0.0, 0.5), None], (1, 2))
