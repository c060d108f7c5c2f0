"""The trace: what is packed comes back, what is not a trace is refused with TraceError and nothing else."""

import base64
import contextlib
import json
import random

import msgspec
import numpy as np
import pytest

import engines
from engines.core.trace import (
    Commits,
    GuessSource,
    Packed,
    Trace,
    TraceError,
    Tree,
    pack,
    pack_exact,
    read_trace,
    reading,
)
from tests.engines.fakes import TableCausal, TableMasked


@pytest.fixture(scope="module")
def masked_trace():
    return engines.run(
        "creditdecoding", TableMasked(eos_ids=(9,)), [1, 2], params={"max_new_tokens": 12, "block_length": 4}
    )


@pytest.fixture(scope="module")
def tree_trace():
    return engines.run(
        "token-recycling", TableCausal(seed=3), [1, 2, 3], params={"max_new_tokens": 24, "template": "7"}
    )


def raw(trace):
    return json.loads(trace.to_json())


# --- arrays ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(0,), (1,), (7,), (3, 4), (2, 0)])
def test_floats_come_back_within_half_a_step(shape):
    values = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    packed = pack(values)
    assert packed.array().shape == shape
    assert np.allclose(packed.array(), values, atol=(packed.hi - packed.lo) / 508 + 1e-6)


def test_the_ends_of_a_range_are_exact_and_values_outside_are_clipped():
    assert pack(np.array([0.0, 1.0, -5.0, 5.0]), 0.0, 1.0).array().tolist() == [0, 1, 0, 1]


def test_what_is_missing_stays_missing_and_touches_nothing_else():
    got = pack(np.array([np.nan, 0.25, np.inf, 0.75, -np.inf], dtype=np.float32)).array()
    assert np.isnan(got[[0, 2, 4]]).all() and np.allclose(got[[1, 3]], [0.25, 0.75], atol=1e-3)
    assert np.isnan(pack(np.array([np.nan])).array()).all()


@pytest.mark.parametrize("values", [[0, 65535], [-1, 3], [65536], [2**31 - 1, -(2**31)], []])
def test_integers_are_exact(values):
    assert pack(np.array(values, dtype=np.int64)).array().tolist() == values


def test_raw_floats_are_exact():
    values = np.random.default_rng(1).normal(size=(5, 3)).astype("f4")
    assert (pack_exact(values).array() == values).all()


@pytest.mark.parametrize(
    ("dtype", "shape", "data"),
    [
        ("u1", [10**9, 10**9], ""),
        ("f4", [2**52], "AAAA"),
        ("u1", [0, 10**30], ""),
        ("u1", [0] * 100, ""),
        ("u1", [1] * 100, "AA=="),
        ("u1", [2], "AA=="),
        ("u2", [1], "AA=="),
        ("u1", [1], "not base64!"),
        ("u1", [1], "é"),
        ("u1", [1], "AA"),
        ("u1", [], ""),
    ],
)
def test_arrays_that_do_not_fit_their_bytes_are_refused(dtype, shape, data):
    with pytest.raises(TraceError):
        Packed(dtype, shape, data).array()


# --- parts that contradict themselves --------------------------------------------------------------------------------


def test_contradictions_are_refused():
    with pytest.raises(ValueError, match="equally many"):
        Commits([0, 1], [3], ["x"])
    with pytest.raises(ValueError, match="parent"):
        Tree(0, [-1, 2, 1], [1, 2, 3], [True] * 3, ["root"] * 3, [])
    with pytest.raises(ValueError, match="parent"):
        Tree(0, [0], [1], [True], ["root"], [])
    with pytest.raises(ValueError, match="linked to guess 1 of a source that has 1"):
        GuessSource("table", tokens=[3], links=[(1, 1)])
    with pytest.raises(ValueError, match="linked to a row that is none of the 0 below the root"):
        Tree(0, [-1], [1], [True], ["root"], [], guessed_from=[GuessSource("head", links=[(1, -1)])])
    with pytest.raises(ValueError, match="tails has 2 entries for 1 rows"):
        Tree(0, [-1], [1], [True], ["root"], [], tails=[1, 1])


# --- whole traces ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["masked_trace", "tree_trace"])
def test_a_trace_survives_json(which, request):
    trace = request.getfixturevalue(which)
    assert Trace.from_json(trace.to_json()) == trace == Trace.from_json(trace.to_json().encode())


@pytest.mark.parametrize("output", [[], [1, 2], [1, 9, 5, 11, 9], [11, 11], [11, 9], [9], [11, 3, 11]])
def test_every_id_is_counted_once(masked_trace, output):
    end = msgspec.structs.replace(masked_trace.end, output_ids=output)
    sums = msgspec.structs.replace(masked_trace, end=end).totals
    assert sums.tokens + sums.end_tokens + sums.padding + sums.masks_left == len(output)
    assert sums.forwards == sum(sums.forwards_by_role.values())


def set_at(data, path, value):
    *above, last = path
    for key in above:
        data = data[key]
    data[last] = value


BAD = {
    "schema of tomorrow": (["header", "schema"], 4),
    "schema as text": (["header", "schema"], "1"),
    "no prompt ids": (["header", "prompt_ids"], None),
    "a negative id": (["header", "prompt_ids"], [-1]),
    "an unknown prompt id": (["header", "prompt_ids"], [77]),
    "an unknown field": (["header", "evil"], 1),
    "an unknown field in a step": (["steps", 0, "evil"], 1),
    "a board without end": (["header", "canvas"], 10**15),
    "a board shorter than the prompt": (["header", "canvas"], 1),
    "steps out of order": (["steps", 0, "index"], 1),
    "a negative position": (["steps", 0, "commits", "positions", 0], -1),
    "a position off the board": (["steps", 0, "commits", "positions", 0], 10**6),
    "a position beyond int64": (["steps", 0, "commits", "positions", 0], 10**30),
    "a committed token not in the table": (["steps", 0, "commits", "tokens", 0], 77),
    "an output token not in the table": (["end", "output_ids", 0], 77),
    "an unknown reason": (["end", "reason"], "bored"),
    "negative time": (["end", "wall_seconds"], -1),
    "times whose sum overflows": (["steps", 0, "model_seconds"], 1e308),
    "costs no browser can add": (["steps", 0, "tokens_fed"], 10**30),
    "a lane off the board": (["steps", 0, "scores", 0, "start"], 10**6),
    "a lane of unknown unit": (["steps", 0, "scores", 0, "unit"], "bananas"),
    "a lane with two dimensions": (
        ["steps", 0, "scores", 0, "values"],
        {"dtype": "u1", "shape": [1, 1], "data": "AA=="},
    ),
    "a huge lane": (["steps", 0, "scores", 0, "values", "shape"], [10**9, 10**9]),
    "a huge empty lane": (["steps", 0, "scores", 0, "values"], {"dtype": "u1", "shape": [0, 10**15], "data": ""}),
    "a lane of 100 dimensions": (
        ["steps", 0, "scores", 0, "values"],
        {"dtype": "u1", "shape": [1] * 100, "data": "AA=="},
    ),
    "a lane that is not base64": (["steps", 0, "scores", 0, "values", "data"], "*"),
    "missing candidates": (
        ["steps", 0, "candidates", "tokens"],
        {"dtype": "u1", "shape": [12, 5], "data": base64.b64encode(b"\xff" * 60).decode()},
    ),
    "infinite candidates": (
        ["steps", 0, "candidates", "tokens"],
        {"dtype": "f4", "shape": [12, 5], "data": base64.b64encode(b"\0\0\x80\x7f" * 60).decode()},
    ),
    "negative candidates": (
        ["steps", 0, "candidates", "tokens"],
        {"dtype": "i4", "shape": [12, 5], "data": base64.b64encode(b"\xff" * 240).decode()},
    ),
    "candidates that are not base64": (["steps", 0, "candidates", "probabilities", "data"], "*"),
    "a span off the board": (["steps", 0, "spans"], [{"kind": "x", "start": 0, "end": 10**6}]),
    "a span that starts off the board": (["steps", 0, "spans"], [{"kind": "x", "start": 10**15, "end": 0}]),
    "a route off the board": (
        ["steps", 0, "routing"],
        [{"kind": "expert", "position": 10**9, "layer": 0, "chosen": []}],
    ),
    "a picture that is not base64": (["steps", 0, "media"], {"codes": {"dtype": "u2", "shape": [2, 2], "data": "*"}}),
    "a picture in one row": (["steps", 0, "media"], {"codes": {"dtype": "u2", "shape": [1], "data": "AAA="}}),
    "a tree off the board": (
        ["steps", 0, "tree"],
        {"start": 10**9, "parents": [-1], "tokens": [1], "accepted": [True], "why": ["root"], "emitted": []},
    ),
    "a tree that is a circle": (
        ["steps", 0, "tree"],
        {"start": 0, "parents": [-1, 1], "tokens": [1, 1], "accepted": [True] * 2, "why": ["root"] * 2, "emitted": []},
    ),
    "a branch of unknown tokens": (["steps", 0, "branches"], [{"id": 0, "parent": -1, "tokens": [77], "score": 0}]),
    "an array where an object stands": (["steps", 0, "facts"], [1]),
}


@pytest.mark.parametrize("name", BAD)
def test_hostile_values_are_refused(masked_trace, name):
    data = raw(masked_trace)
    set_at(data, *BAD[name])
    with pytest.raises(TraceError):
        read_trace(json.dumps(data))


@pytest.mark.parametrize(
    "number", ["NaN", "Infinity", "-Infinity", "1e400", "9" * 400, "1" * 6000, "0x10", "1_000", "-0.5"]
)
def test_numbers_that_are_no_times_are_refused(masked_trace, number):
    text = masked_trace.to_json()
    key = '"wall_seconds":'
    at = text.index(key) + len(key)
    end = min(text.index(c, at) for c in ",}" if c in text[at:])
    with pytest.raises(TraceError):
        read_trace(text[:at] + number + text[end:])


@pytest.mark.parametrize("depth", [10, 10_000, 300_000])
def test_nesting_ends_in_an_answer(masked_trace, depth):
    deep = "[" * depth + "]" * depth
    text = masked_trace.to_json()
    hidden = text.replace('"params":{', '"params":{"x":' + deep + ",", 1)
    if depth == 10:
        assert read_trace(hidden).header.params["x"]
    else:
        with pytest.raises(TraceError):
            read_trace(hidden)
    for broken in (
        deep,
        '{"a":' * depth,
        text.replace('"facts":{', '"facts":{"x":' + deep + ",", 1),
        '{"header":{"x":' + deep,
    ):
        with pytest.raises(TraceError):
            read_trace(broken)


def test_cut_off_or_damaged_text_never_raises_anything_else(masked_trace, tree_trace):
    rng = random.Random(0)
    for trace in (masked_trace, tree_trace):
        whole = trace.to_json().encode()
        for _ in range(150):
            with pytest.raises(TraceError):
                read_trace(whole[: rng.randrange(len(whole))])
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
    with pytest.raises(TraceError):
        read_trace(text)


@pytest.mark.parametrize("piece", ['"\\ud800"', '"\ud800"', '"\\udc00\\ud800"'])
def test_half_characters_in_the_token_table_are_refused(masked_trace, piece):
    data = raw(masked_trace)
    data["pieces"][0]["text"] = "HERE"
    with pytest.raises(TraceError):
        read_trace(json.dumps(data).replace('"HERE"', piece))


def test_a_trace_too_large_is_refused_before_it_is_read(monkeypatch, masked_trace):
    monkeypatch.setattr(reading, "MAX_TRACE_BYTES", 100)
    with pytest.raises(TraceError, match="at most 100"):
        read_trace(masked_trace.to_json())


def widened(trace, canvas: int, steps: int):
    """The data of a trace with a larger board and so many steps without writes."""
    data = raw(trace)
    data["header"]["canvas"] = canvas
    bare = {"forwards": {}, "tokens_fed": 0, "model_seconds": 0, "method_seconds": 0}
    data["steps"] = [{"index": i, **bare} for i in range(steps)]
    return data


def test_a_board_with_more_cells_than_anything_can_look_at_is_refused(masked_trace):
    read_trace(json.dumps(widened(masked_trace, 2**20, 32)))
    with pytest.raises(TraceError, match="34,603,008 cells; at most 33,554,432"):
        read_trace(json.dumps(widened(masked_trace, 2**20, 33)))


def test_a_shape_whose_size_is_too_long_to_be_written_is_refused():
    with pytest.raises(TraceError, match="does not have 4 bytes"):
        Packed("f4", (2**53,) * 20_000, base64.b64encode(bytes(4)).decode(), 0.0, 1.0).array()


def test_a_trace_of_too_many_steps_is_refused(monkeypatch, masked_trace):
    monkeypatch.setattr(reading, "MAX_STEPS", len(masked_trace.steps))
    assert read_trace(masked_trace.to_json()) == masked_trace
    monkeypatch.setattr(reading, "MAX_STEPS", len(masked_trace.steps) - 1)
    with pytest.raises(TraceError, match=r"steps; at most"):
        read_trace(masked_trace.to_json())


def test_positions_taken_away_again_and_again_are_counted(masked_trace):
    data = widened(masked_trace, 2**20, 6)
    start = len(data["header"]["prompt_ids"])
    token = data["header"]["prompt_ids"][0]
    for step in data["steps"]:
        step["commits"] = {"positions": [2**20 - 1, start], "tokens": [token, -1], "causes": ["x", "y"]}
    with pytest.raises(TraceError, match="positions are taken away; at most 2,097,152"):
        read_trace(json.dumps(data))
    data["steps"] = data["steps"][:2]
    read_trace(json.dumps(data))
