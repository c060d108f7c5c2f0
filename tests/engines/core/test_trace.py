"""The trace: what is packed comes back, what is none is refused with TraceError alone, as is one of another version."""

import base64
import contextlib
import gzip
import json
import random
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import engines
from engines.core import packing
from engines.core.trace import (
    SCHEMA_VERSION,
    Commits,
    GuessSource,
    Packed,
    TraceError,
    Tree,
    pack,
    pack_exact,
    read_trace,
    reading,
)
from tests.engines.fakes import TableCausal, TableMasked
from tests.engines.refusals import refuses


@pytest.fixture(scope="module")
def masked_trace():
    params = {"max_new_tokens": 12, "block_length": 4}
    return engines.run("creditdecoding", TableMasked(eos_ids=(9,)), [1, 2], params=params)


@pytest.fixture
def data(masked_trace):
    """What its JSON holds."""
    return json.loads(masked_trace.to_json())


def test_floats_come_back_within_half_a_step_and_integers_exactly():
    for shape in ((0,), (1,), (7,), (3, 4), (2, 0)):
        values = np.random.default_rng(0).normal(size=shape).astype(np.float32)
        packed = pack(values)
        assert packed.array().shape == shape and (pack_exact(values).array() == values).all()
        assert np.allclose(packed.array(), values, atol=(packed.hi - packed.lo) / 508 + 1e-6)
    assert pack(np.array([0.0, 1.0, -5.0, 5.0]), 0.0, 1.0).array().tolist() == [0, 1, 0, 1]
    for values in ([0, 65535], [-1, 3], [65536], [2**31 - 1, -(2**31)], []):
        assert pack(np.array(values, dtype=np.int64)).array().tolist() == values
    got = pack(np.array([np.nan, 0.25, np.inf, 0.75, -np.inf], dtype=np.float32)).array()
    assert np.isnan(got[[0, 2, 4]]).all() and np.allclose(got[[1, 3]], [0.25, 0.75], atol=1e-3)
    assert np.isnan(pack(np.array([np.nan])).array()).all()


@pytest.mark.parametrize(
    ("dtype", "shape", "data"),
    [
        ("u1", [10**9, 10**9], ""),
        ("f4", [2**53] * 20_000, "AAAA"),
        ("u1", [0, 10**30], ""),
        ("u1", [1] * 100, "AA=="),
        ("u2", [1], "AA=="),
        ("u1", [1], "not base64!"),
        ("u1", [1], "é"),
        ("u1", [], ""),
    ],
)
def test_arrays_that_do_not_fit_their_bytes_are_refused(dtype, shape, data):
    refuses(TraceError, "", Packed(dtype, shape, data).array)


def test_contradictions_are_refused():
    refuses(ValueError, "equally many", Commits, [0, 1], [3], ["x"])
    refuses(ValueError, "parent", Tree, 0, [-1, 2, 1], [1, 2, 3], [True] * 3, ["root"] * 3, [])
    refuses(ValueError, "parent", Tree, 0, [0], [1], [True], ["root"], [])
    refuses(ValueError, "linked to guess 1 of a source that has 1", GuessSource, "table", tokens=[3], links=[(1, 1)])
    with pytest.raises(ValueError, match="linked to a row that is none of the 0 below the root"):
        Tree(0, [-1], [1], [True], ["root"], [], guessed_from=[GuessSource("head", links=[(1, -1)])])
    refuses(ValueError, "tails has 2 entries for 1 rows", Tree, 0, [-1], [1], [True], ["root"], [], tails=[1, 1])


@pytest.mark.parametrize("output", [[], [1, 2], [1, 9, 5, 11, 9], [11, 11], [11, 9], [9], [11, 3, 11]])
def test_every_id_is_counted_once(masked_trace, output):
    end = msgspec.structs.replace(masked_trace.end, output_ids=output)
    sums = msgspec.structs.replace(masked_trace, end=end).totals
    assert sums.tokens + sums.end_tokens + sums.padding + sums.masks_left == len(output)
    assert sums.forwards == sum(sums.forwards_by_role.values())


def set_at(data, path, value):
    *above, last = [int(key) if key.isdigit() else key for key in path.split(".")]
    for key in above:
        data = data[key]
    data[last] = value


def array(dtype, shape, data):
    return {"dtype": dtype, "shape": shape, "data": base64.b64encode(data).decode()}


BRANCH = {"id": 0, "parent": -1, "tokens": [77], "score": 0}
TREE = {"start": 0, "tokens": [1], "accepted": [True], "why": ["root"], "emitted": []}
CIRCLE = TREE | {"parents": [-1, 1], "tokens": [1, 1], "accepted": [True] * 2, "why": ["root"] * 2}
BAD = [  # what is set, and what to
    ("header.schema", 4),
    ("header.prompt_ids", None),
    ("header.prompt_ids", [-1]),
    ("header.prompt_ids", [77]),
    ("header.evil", 1),
    ("header.canvas", 10**15),
    ("header.canvas", 1),
    ("end.output_ids.0", 77),
    ("end.reason", "bored"),
    ("end.wall_seconds", -1),
    ("steps.0.evil", 1),
    ("steps.0.index", 1),
    ("steps.0.commits.positions.0", -1),
    ("steps.0.commits.positions.0", 10**6),
    ("steps.0.commits.positions.0", 10**30),
    ("steps.0.commits.tokens.0", 77),
    ("steps.0.model_seconds", 1e308),
    ("steps.0.tokens_fed", 10**30),
    ("steps.0.scores.0.start", 10**6),
    ("steps.0.scores.0.unit", "bananas"),
    ("steps.0.scores.0.values", array("u1", [1, 1], b"\0")),
    ("steps.0.scores.0.values.data", "*"),
    ("steps.0.candidates.tokens", array("u1", [12, 5], b"\xff" * 60)),
    ("steps.0.candidates.tokens", array("f4", [12, 5], b"\0\0\x80\x7f" * 60)),
    ("steps.0.candidates.tokens", array("i4", [12, 5], b"\xff" * 240)),
    ("steps.0.candidates.probabilities.data", "*"),
    ("steps.0.spans", [{"kind": "x", "start": 0, "end": 10**6}]),
    ("steps.0.spans", [{"kind": "x", "start": 10**15, "end": 0}]),
    ("steps.0.routing", [{"kind": "expert", "position": 10**9, "layer": 0, "chosen": []}]),
    ("steps.0.media", {"codes": {"dtype": "u2", "shape": [2, 2], "data": "*"}}),
    ("steps.0.media", {"codes": array("u2", [1], b"\0\0")}),
    ("steps.0.tree", TREE | {"start": 10**9, "parents": [-1]}),
    ("steps.0.tree", CIRCLE),
    ("steps.0.branches", [BRANCH]),
    ("steps.0.facts", [1]),
]


@pytest.mark.parametrize(("path", "value"), BAD)
def test_hostile_values_are_refused(data, path, value):
    set_at(data, path, value)
    refuses(TraceError, "", read_trace, json.dumps(data))


NO_TIMES = ["NaN", "Infinity", "-Infinity", "1e400", "1" * 6000, "0x10", "1_000", "-0.5"]
NO_TEXTS = ['"\\ud800"', '"\ud800"', '"\\udc00\\ud800"']  # half characters


@pytest.mark.parametrize("text", [*NO_TIMES, *NO_TEXTS])
def test_numbers_that_are_no_times_and_half_characters_are_refused(data, text):
    set_at(data, "end.wall_seconds" if text in NO_TIMES else "pieces.0.text", "HERE")
    refuses(TraceError, "", read_trace, json.dumps(data).replace('"HERE"', text))


@pytest.mark.parametrize("depth", [10, 10_000, 300_000])
def test_nesting_ends_in_an_answer(masked_trace, depth):
    deep, text = "[" * depth + "]" * depth, masked_trace.to_json()
    hidden = text.replace('"params":{', '"params":{"x":' + deep + ",", 1)
    if depth == 10:
        assert read_trace(hidden).header.params["x"]
    else:
        refuses(TraceError, "", read_trace, hidden)
    facts = text.replace('"facts":{', '"facts":{"x":' + deep + ",", 1)
    for broken in (deep, '{"a":' * depth, facts, '{"header":{"x":' + deep):
        refuses(TraceError, "", read_trace, broken)


def test_cut_off_or_damaged_text_never_raises_anything_else(masked_trace):
    rng, params = random.Random(0), {"max_new_tokens": 24, "template": "7"}
    for trace in (masked_trace, engines.run("token-recycling", TableCausal(seed=3), [1, 2, 3], params=params)):
        whole = trace.to_json().encode()
        for _ in range(150):
            refuses(TraceError, "", read_trace, whole[: rng.randrange(len(whole))])
            damaged = bytearray(whole)
            for _ in range(rng.randint(1, 4)):
                damaged[rng.randrange(len(damaged))] = rng.choice(b'0123456789-eE".,:[]{}A\\\xff')
            with contextlib.suppress(TraceError):  # a lucky change may still be a trace
                assert read_trace(bytes(damaged)).totals


@pytest.mark.parametrize(
    "text",
    [b"", "", "null", "[]", "{}", '"x"', b"\xff\xfe", b"\xef\xbb\xbf{}", "\ud800", '{"header":{"schema":1}}', "{" * 5],
)
def test_other_things_are_refused(text):
    refuses(TraceError, "", read_trace, text)


def test_a_trace_too_large_or_of_too_many_steps_is_refused(monkeypatch, masked_trace):
    monkeypatch.setattr(reading, "MAX_STEPS", len(masked_trace.steps))
    assert read_trace(masked_trace.to_json()) == masked_trace
    monkeypatch.setattr(reading, "MAX_STEPS", len(masked_trace.steps) - 1)
    refuses(TraceError, r"steps; at most", read_trace, masked_trace.to_json())
    monkeypatch.setattr(reading, "MAX_TRACE_BYTES", 100)
    refuses(TraceError, "at most 100", read_trace, masked_trace.to_json())


def test_a_board_of_too_many_cells_and_too_many_positions_taken_away_are_refused(data):
    data["header"]["canvas"], start = 2**20, len(data["header"]["prompt_ids"])
    token = data["header"]["prompt_ids"][0]
    bare = {"forwards": {}, "tokens_fed": 0, "model_seconds": 0, "method_seconds": 0}
    away = {"commits": {"positions": [2**20 - 1, start], "tokens": [token, -1], "causes": ["x", "y"]}}
    for more, most, said in (
        ({}, 32, "34,603,008 cells; at most 33,554,432"),
        (away, 2, "positions are taken away; at most 2,097,152"),
    ):
        data["steps"] = [{"index": i, **bare, **more} for i in range(most)]
        read_trace(json.dumps(data))
        data["steps"].append({"index": most, **bare, **more})
        refuses(TraceError, said, read_trace, json.dumps(data))


ASSETS = Path(__file__).resolve().parents[3] / "assets"


def test_a_tokens_author_follows_from_its_cause_the_tree_and_the_models_chosen():
    assert packing.authors_of(["forced", "boosted", "top1"], "model") == ["person", "credit", "model"]
    tree = ["root", "accepted", "mismatch", "accepted"], ["root", "retrieval", "draft", "ngram"]
    assert packing.accepted_sources(*tree) == ["retrieval", "ngram"]
    found = packing.authors_of(["accepted", "accepted", "bonus"], "target", packing.accepted_sources(*tree))
    assert found == ["retrieval", "ngram", "target"]
    assert packing.authors_of(["accepted"], "target") == ["draft"]
    run = read_trace(gzip.decompress((ASSETS / "traces" / "10-ead-sort.json.gz").read_bytes()))
    steps = [step for step in run.steps if step.commits and step.choice]
    assert {step.choice.chosen for step in steps} == {"small", "large"}
    assert all(set(step.commits.authors) == {step.choice.chosen} for step in steps)


@pytest.mark.parametrize("version", [0, 1, 2, 4, 10**15])
def test_another_version_is_refused_with_its_number_and_the_one_that_is_read(data: dict[str, Any], version: int):
    data["header"]["schema"] = version
    said = (
        f"the trace has schema version {version}; this program reads version {SCHEMA_VERSION}, so record the run again"
    )
    refuses(TraceError, said, read_trace, json.dumps(data))


def test_what_is_no_header_is_no_trace(data: dict[str, Any]):
    for header in ([], "text", None, {"schema": -1}, {"schema": SCHEMA_VERSION, "models": 3, "missing": 4}):
        refuses(TraceError, "", read_trace, json.dumps(data | {"header": header}))
