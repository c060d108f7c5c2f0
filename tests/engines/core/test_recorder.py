"""The recorder: facts in, a step out, at its detail and cost; and records, what a method tells of its own."""

import json
from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np
import pytest
import torch
from msgspec import Meta

import engines
from engines.core.meter import Meter
from engines.core.method import LaneInfo, Method, method
from engines.core.packing import FOCUS_LIMIT, TOP_K
from engines.core.params import Int, resolve
from engines.core.recorder import Recorder
from engines.core.trace import Detail, Edit, Memory, Packed, Span, Trace, TraceError, pack, pack_exact, records
from engines.kit import PackedTokens, Position, Probability, Record, TokenId, max_new_tokens
from tests.engines.fakes import TableCausal, TableMasked
from tests.engines.refusals import refuses

LANES = {"p": LaneInfo("probability", "."), "h": LaneInfo("nats", "."), "s": LaneInfo("score", ".")}
INFO = method(
    "fake", title="", family="fake", paper="", summary="", needs="masked", params=[Int("n", 1, 0, 9, help="")],
    emits=set(), lanes=LANES,
)(lambda *_: None).info  # fmt: skip


def recorder(detail="full", masked=True):
    model, meter = TableMasked(), Meter()
    return Recorder(
        INFO, resolve(INFO.params, {}), [1, 2], seed=0, detail=detail, meter=meter, tokenizer=model.tokenizer,
        mask_id=model.mask_id if masked else None,
    )  # fmt: skip


def test_the_board_follows_the_commits():
    run = recorder(masked=False)
    run.step(commits=([2, 3], [5, 6], "x"))
    run.step(commits=(torch.tensor([3]), torch.tensor([7]), ["y"], torch.tensor([0.1234567])))
    assert run.board == [1, 2, 5, 7]
    refuses(AssertionError, "gap", run.step, commits=([9], [1], "x"))


@pytest.mark.parametrize("detail", ["none", "light", "full"])
def test_detail_decides_what_is_computed(detail):
    run, asked = recorder(detail=detail), []

    def scores():
        asked.append("scores")
        return {"p": ([2], [0.5])}

    def candidates():
        asked.append("candidates")
        return [2], torch.arange(12.0)[None]

    assert run.canvas(4).tolist() == run.board == [1, 2, 11, 11, 11, 11]
    given = {"scores": scores, "candidates": candidates, "spans": [Span("block", 2, 4)]}
    step = run.step(commits=([2], [5], "x"), note="n", **given)
    assert asked == (["scores", "candidates"] if detail == "full" else [])
    assert detail != "full" or set(run.pieces) >= {1, 2, 11, 5, 10, 9, 8, 7}, "every token mentioned is known"
    assert run.board[2] == 5  # the board is kept whatever is recorded
    assert (step.commits is None) == (detail == "none") and bool(step.note) == (detail != "none")
    assert step.index == 0 and run.step().index == 1


def test_any_group_may_be_a_function_called_in_the_order_given():
    run, asked = recorder(), []

    def later(name, value):
        return lambda: asked.append(name) or value

    step = run.step(
        facts=later("facts", {"kept": 2}),
        memory=later("memory", [Memory([1], [2])]),
        intervals=later("intervals", []),
        spans=later("spans", [Span("block", 2, 4)]),
        scores=later("scores", {"p": ([2], [0.5])}),
    )
    assert asked == ["facts", "memory", "intervals", "spans", "scores"]
    assert (step.facts, len(step.memory), len(step.spans), len(step.scores)) == ({"kept": 2.0}, 1, 1, 1)
    for detail in ("none", "full"):
        refuses(TypeError, "a step has no 'commit'; run.step takes commits, removed,", recorder(detail).step, commit=())


def test_lanes_cover_their_positions_with_gaps():
    run = recorder()
    step = run.step(
        scores=lambda: {"p": (torch.tensor([5, 2]), torch.tensor([0.25, 1.0])), "h": ([], []), "s": ([3], [-4.0])},
        thresholds={"p": 0.9},
    )
    p, s = step.scores
    assert (p.name, p.start, p.threshold, s.start) == ("p", 2, 0.9, 3)
    assert np.allclose(p.values.array(), [1.0, np.nan, np.nan, 0.25], atol=0.002, equal_nan=True)
    assert s.values.array().tolist() == [-4.0]


def test_candidates_are_the_best_and_no_more_than_the_limit():
    z = torch.randn(FOCUS_LIMIT + 20, 30, generator=torch.Generator().manual_seed(0))
    found = recorder().step(candidates=lambda: (list(range(len(z))), z)).candidates
    assert found.positions == list(range(FOCUS_LIMIT)) and found.tokens.shape == [FOCUS_LIMIT, TOP_K]
    assert (found.tokens.array() == z[:FOCUS_LIMIT].topk(TOP_K).indices.numpy()).all()
    assert np.allclose(found.probabilities.array(), z[:FOCUS_LIMIT].softmax(-1).topk(TOP_K).values, atol=0.003)


def test_costs_are_the_meters_and_start_anew():
    run = recorder()
    run._meter.call("model", "cpu", 7, lambda: None)
    first, second = run.step(), run.step()
    assert (first.forwards, first.tokens_fed, second.forwards, second.tokens_fed) == ({"model": 1}, 7, {}, 0)
    run.resume()  # work beside the models is an interval of the run's clock
    began = run._start + 0.25
    (found,) = run.interval("tool", began, began + 0.5, "asked")
    assert (found.track, found.label, found.measured) == ("tool", "asked", True)
    assert (found.start, found.end) == (pytest.approx(0.25), pytest.approx(0.75))
    assert recorder(detail="none").interval("tool", 0.0, 1.0) == []


def test_edits_change_board_parameters_and_what_is_forbidden():
    run = recorder()
    x = run.canvas(4)
    x = run.apply_edit(engines.Edit(force={2: 7}, remask=[3], forbid={4: [1]}, params={"n": "3"}), x)
    assert x.tolist() == [1, 2, 7, 11, 11, 11] and run.params.n == 3 and run._meter.forbidden == {4: {1}}
    step = run.step(commits=([5], [6], "x", [0.5]))
    written = step.commits
    found = list(zip(written.positions, written.causes, written.probabilities, strict=True))
    assert found == [(2, "forced", None), (3, "remasked", None), (5, "x", 0.5)]
    assert run.apply_edit(None, x) is x and run.step().commits is None
    for edit, words in (
        (engines.Edit(params={"m": 1}), "unknown parameter"),
        (engines.Edit(params={"n": 99}), "from 0 to 9"),
        (engines.Edit(force={1: 1}), "cannot be edited"),
    ):
        refuses(engines.UserError, words, run.check_edit, edit)


def test_places_go_and_come_before_anything_is_written():
    run = recorder()
    x = run.canvas(4)  # 1 2 . . . .
    run.step(commits=([2, 3, 4], [5, 6, 7], "x"))
    step = run.step(commits=([3, 5], [8, 11], "x"), removed=[3], inserted=[3, 5])  # 6 goes, 8 and a mask come
    assert run.board == [1, 2, 5, 8, 7, 11, 11]
    assert (step.commits.removed, step.commits.inserted) == ([3], [3, 5])
    step = run.step(removed=torch.tensor([2, 5]))
    assert run.board == [1, 2, 8, 7, 11] and (step.commits.positions, step.commits.removed) == ([], [2, 5])
    refuses(ValueError, "position 1 cannot be removed; the board has 2 to 4 behind the prompt", run.step, removed=[1])
    refuses(ValueError, "position 3 is inserted, but nothing is written there", run.step, inserted=[3])
    run.apply_edit(Edit(force={4: 9, 2: 4}), x)  # a forced token moves with what moves in the same step
    step = run.step(commits=([3], [7], "x"), removed=[2], inserted=[3])
    assert run.board == [1, 2, 7, 7, 9] and step.commits.causes == ["forced", "x"]


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


def made(slug: str = "with-hops", record: Any = None, declared: Any = None) -> Method:
    """Greedy decoding that tells of hops."""

    @method(
        slug, title="Hops", family="own", paper="", summary="A test.", needs="causal",
        params=[max_new_tokens(), Int("n", 1, 1, 9, help="Nothing.")], emits={"commits"},
        records={"hops": Hops, "early": Early} if declared is None else declared,
    )  # fmt: skip
    def decode(model: Any, prompt: list[int], p: Any, run: Any) -> Any:
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


def test_a_record_is_kept_typed_and_survives_the_round_trip(run_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = run_of(made())
    assert Trace.from_json(trace.to_json()) == trace
    found = trace.steps[1].record("hops", Hops)
    assert found == hops(trace.steps[1].commits.positions[0], trace.steps[1].commits.tokens[0])
    assert found.map.array()[0, 2] == pytest.approx(0.4, abs=1e-2)
    assert trace.steps[1].record("nothing", Hops) is None
    refuses(TraceError, "the record 'hops' does not fit Early", trace.steps[1].record, "hops", Early)
    told = trace.header.records["hops"]
    assert told.meaning == "Where each draft left the network."
    assert told.units == {
        "position": "position", "tokens": "token", "hops.confidence": "probability", "cost": "seconds",
        "seen": "token", "by_name": "probability",
    }  # fmt: skip
    kept = [set(run_of(made(), detail=d).steps[0].records) for d in ("none", "light", "full")]
    assert kept == [set(), {"early"}, {"hops", "early"}]
    monkeypatch.setattr(records, "MAX_BYTES", 20)
    refuses(ValueError, r"record 'hops' has \d+ bytes; a step takes 20", run_of, made())


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
        refuses(TraceError, said, Trace.from_json, json.dumps(changed))


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
    refuses(ValueError, said, run_of, made(record=record))


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
    refuses(ValueError, said, made, declared=declared)


def test_a_record_that_nobody_knows_is_kept_as_it_is_and_walked(run_of: Any) -> None:
    trace = json.loads(run_of(made()).to_json())
    odd = {"deep": [{"a": [1, 2.5, None, "x"]}], "tokens": [10**6], "n": -1}
    trace["steps"][2].setdefault("records", {})["stranger"] = odd
    read = Trace.from_json(json.dumps(trace))
    assert read.steps[2].records["stranger"] == odd
    assert json.loads(read.to_json()) == trace and Trace.from_json(read.to_json()) == read
    record = {"rows": [[3, [4, -1]], 5], "by": {"x": 6}, "odd": {"dtype": 1, "shape": 2, "data": 3, "more": 4}}
    found = records.held(record, [["rows"], ["by"], ["odd", "more"], ["nothing", "at"], ["rows", "deeper"]])
    assert found == [3, 4, 5, 6, 4] and list(records.arrays(record)) == []


@pytest.mark.parametrize(
    ("of_step", "of_header", "said"),
    [
        ({"commits": {}}, {}, "names a record 'commits', which is a group of every trace"),
        ({"A b": {}}, {}, "names a record 'A b'"),
        ({f"r{i}": {} for i in range(33)}, {}, r"names 3\d records; at most 32"),
        ({"deep": json.loads('{"a":' * 20 + "1" + "}" * 20)}, {}, "more than 16 objects and lists within each other"),
        ({"list": [1]}, {}, "not a valid trace: Expected `object`, got `array`"),
        ({}, {f"f{i}": "token" for i in range(257)}, "names the units of 257 fields; at most 256"),
        ({}, {"a." * 101: "token"}, "of a field with 202 characters; at most 200"),
    ],
)
def test_what_no_trace_holds_is_refused(run_of: Any, of_step: Any, of_header: Any, said: str) -> None:
    trace = json.loads(run_of(made()).to_json())
    trace["steps"][0]["records"], trace["header"]["records"] = of_step, {"hops": {"units": of_header}}
    refuses(TraceError, said, Trace.from_json, json.dumps(trace))


@pytest.mark.usefixtures("registry_unchanged")
def test_a_record_of_another_method_s_name_has_its_fields(tmp_path: Any) -> None:
    (tmp_path / "clash.py").write_text(CLASH, "utf-8")
    refuses(engines.UserError, "fields n; 'ffs' has one of that", engines.load_method_file, tmp_path / "clash.py")


CLASH = """
from engines.kit import Record, max_new_tokens, method


class Mine(Record):
    n: int


@method(
    "clash", title="Clash", family="own", paper="", summary="A record of another name.", needs="causal",
    params=[max_new_tokens()], emits={"commits"}, records={"vote": Mine},
)
def decode(model, prompt, p, run):
    yield run.step()
"""
