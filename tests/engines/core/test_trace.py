"""The trace: what is packed comes back, what is none is refused with TraceError alone; traces of earlier versions."""

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
from engines.core.trace import (
    SCHEMA_VERSION,
    Commits,
    GuessSource,
    Packed,
    Trace,
    TraceError,
    Tree,
    authors,
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
KEPT = Path(__file__).parent / "version_1"  # as they were before they were recorded again
RECORDED = sorted([*(ASSETS / "traces").glob("*.json.gz"), *KEPT.glob("*.json.gz")])


def old(path: Path) -> dict[str, Any]:
    return json.loads(gzip.decompress(path.read_bytes()))


def begins(path: Path) -> bytes:
    """Enough of a recording to know its version; to unpack them all would cost every collection of tests."""
    with gzip.open(path) as file:
        return file.read(24)


FIRST = [path for path in RECORDED if begins(path).startswith(b'{"header":{"schema":1,')]


def minimal(**changes: Any) -> dict[str, Any]:
    """A trace of version 1 with one step; `changes` go into the step."""
    step = {"index": 0, "forwards": {"target": 1}, "tokens_fed": 3, "model_seconds": 0.1, "method_seconds": 0.0}
    header = {
        "schema": 1, "method": "m", "title": "M", "family": "f", "paper": "", "params": {}, "prompt": "p", "seed": 0,
        "detail": "full", "prompt_ids": [1], "baseline": None, "lossless": False, "emits": [], "departures": "none",
        "models": [{"role": "target", "name": "m", "kind": "causal"}], "versions": {}, "machine": "m",
        "started_at": "now", "eos_ids": [9],
    }  # fmt: skip
    end = {"reason": "complete", "output_ids": [3], "text": "", "wall_seconds": 2.0, "record_seconds": 0.1}
    pieces = [{"id": i, "text": str(i)} for i in range(10)]
    return {"header": header, "steps": [step | changes], "pieces": pieces, "end": end}


def read(trace: dict[str, Any]) -> Trace:
    return Trace.from_json(json.dumps(trace))


@pytest.mark.parametrize("path", FIRST, ids=lambda path: path.name.split(".")[0])
def test_a_recording_of_version_1_opens_with_everything_that_it_held(path: Path):
    before, now = old(path), Trace.from_json(gzip.decompress(path.read_bytes()))
    assert len(FIRST) > 20 and now.header.schema == SCHEMA_VERSION and "work" in now.header.missing
    assert (now.output_ids, now.text) == (before["end"]["output_ids"], before["end"]["text"])
    for step, was in zip(now.steps, before["steps"], strict=True):
        assert step.forwards == was["forwards"] and step.tokens_fed == was["tokens_fed"] and step.work == {}
        if "commits" in was:
            found = step.commits.positions, step.commits.tokens
            assert found == (was["commits"]["positions"], was["commits"]["tokens"])
            for cause, earlier in zip(step.commits.causes, was["commits"]["causes"], strict=True):
                assert cause == earlier or (step.tree and earlier in ("bonus", "residual"))
            assert len(step.commits.authors) == len(step.commits.tokens) and all(step.commits.authors)
        for branch, earlier in zip(step.branches, was.get("branches", []), strict=True):
            assert branch.scores == {"score": earlier["score"]} and branch.tokens == earlier["tokens"]
            assert branch.length >= len(branch.tokens)
    assert Trace.from_json(now.to_json()) == now


@pytest.mark.parametrize(
    ("why", "parents", "source", "cause"),
    [
        (["root", "accepted", "mismatch"], [-1, 0, 1], "argmax", "correction"),
        (["root", "accepted", "accepted"], [-1, 0, 1], "target", "bonus"),
        (["root", "mismatch", "accepted"], [-1, 0, 0], "argmax", "bonus"),  # a sibling was refused, the other kept
        (["root", "mismatch", "unreached"], [-1, 0, 1], "residual", "correction"),
        (["root"], [-1], "argmax", "greedy"),
        (["root"], [-1], "target", "sampled"),
    ],
)
@pytest.mark.parametrize("schema", [1, 2])
@pytest.mark.parametrize("said", ["bonus", "residual"])
def test_what_was_called_bonus_is_told_apart_by_its_tree(why, parents, source, cause, schema, said):
    n, tokens = why.count("accepted"), [1, 2, 3][: len(why)]
    tree = {"start": 0, "parents": parents, "tokens": tokens, "accepted": [w != "mismatch" for w in why]}
    tree |= {"why": why, "emitted": [2] * (n + 1), "emitted_source": source}
    commits = {"positions": [*range(1, n + 2)], "tokens": [2] * (n + 1), "causes": ["accepted"] * n + [said]}
    trace = minimal(commits=commits, tree=tree)
    trace["header"]["schema"] = schema
    assert read(trace).steps[0].commits.causes == ["accepted"] * n + [cause]


def test_a_tokens_author_follows_from_its_cause_the_tree_and_the_models_chosen():
    assert authors.authors_of(["forced", "boosted", "top1"], "model") == ["person", "credit", "model"]
    tree = ["root", "accepted", "mismatch", "accepted"], ["root", "retrieval", "draft", "ngram"]
    assert authors.accepted_sources(*tree) == ["retrieval", "ngram"]
    found = authors.authors_of(["accepted", "accepted", "bonus"], "target", authors.accepted_sources(*tree))
    assert found == ["retrieval", "ngram", "target"]
    assert authors.authors_of(["accepted"], "target") == ["draft"]
    switching = {"small", "large"}
    path = next(path for path in FIRST if {m["role"] for m in old(path)["header"]["models"]} == switching)
    steps = [step for step in Trace.from_json(gzip.decompress(path.read_bytes())).steps if step.commits and step.choice]
    assert {step.choice.chosen for step in steps} == {"small", "large"}
    assert all(set(step.commits.authors) == {step.choice.chosen} for step in steps)


def test_routing_is_packed_and_branches_get_the_length_of_their_text():
    entries = [
        {"kind": "expert", "position": 7, "layer": 1, "chosen": [5, 2], "weights": [0.75, 0.25]},
        {"kind": "expert", "position": 6, "layer": 0, "chosen": [4]},
        {"kind": "layer", "position": 6, "layer": 0, "chosen": [1]},
    ]
    branches = [{"id": 0, "parent": -1, "tokens": [3, 4], "score": -1.5, "fate": "alive"}]
    trace = minimal(routing=entries, branches=branches)
    trace["steps"].append(
        dict(trace["steps"][0], index=1, branches=[{"id": 1, "parent": 0, "tokens": [5], "score": 2}])
    )
    trace["header"]["origin"] = {"trace": "0" * 64, "step": 2, "method": "m", "title": "M", "parted": 1}
    now = read(trace)
    assert now.header.origin.diverged == 1
    found = [(b.length, b.scores) for step in now.steps for b in step.branches]
    assert found == [(2, {"score": -1.5}), (3, {"score": 2})]
    experts, layers = now.steps[0].routing
    assert (experts.positions, experts.layers, experts.weights.array()[1, 1].tolist()) == ([6, 7], [0, 1], [0.75, 0.25])
    assert experts.chosen.array().tolist() == [[[4, -1], [-1, -1]], [[-1, -1], [5, 2]]]
    assert np.isnan(experts.weights.array()[0]).all()
    assert layers.weights is None and layers.chosen.array().tolist() == [[[1]]]


def expert(position: Any = 1, layer: int = 0, chosen: int = 1) -> dict[str, Any]:
    return {"kind": "expert", "position": position, "layer": layer, "chosen": [chosen]}


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"routing": [expert(position="x")]}, "routing"),
        ({"routing": [expert(i, i) for i in range(3000)]}, "routing"),
        ({"routing": [expert(2**60)]}, "position|routing"),
        ({"routing": [expert(chosen=2**40)]}, "routing"),
        ({"branches": [{"id": 0, "parent": -7, "tokens": [], "score": 1}]}, "branches"),
        ({"commits": {"positions": [1], "tokens": [3], "causes": [1]}}, "causes"),
        ({"commits": {"positions": [1], "tokens": [3, 4], "causes": ["greedy", "greedy"]}}, "equally many"),
        ({"work": "much"}, "work"),
    ],
)
def test_what_was_never_valid_is_refused_as_before(changes: dict[str, Any], complaint: str):
    refuses(TraceError, complaint, read, minimal(**changes))


@pytest.mark.parametrize("version", [0, -1, 4, 10**30])
def test_other_versions_are_refused_with_what_can_be_read_and_so_is_no_header(version: int):
    trace = minimal()
    trace["header"]["schema"] = version
    refuses(TraceError, r"versions 1 to 3|not a valid trace", read, trace)
    for header in ([], "text", None, {"schema": 1}, {"schema": 1, "models": 3, "missing": 4}):
        refuses(TraceError, "", read, minimal() | {"header": header})


def second(*lanes: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A trace of version 2; lanes and `changes` go into its one step."""
    trace = minimal(**changes, **({"lanes": list(lanes)} if lanes else {}))
    trace["header"] |= {"schema": 2, "emits": ["lanes"]}
    return trace


def lane(name: str, label: str = "", unit: str = "seconds", **more: Any) -> dict[str, Any]:
    return {"lane": name, "start": 0, "end": 1, "label": label, "unit": unit, **more}


def test_groups_of_one_method_are_records_whose_tokens_are_looked_up():
    cut = {"position": 1, "tokens": [3], "probabilities": [0.5]}
    now = read(second(truncation=cut, operators=[{"role": "target", "tokens": [4]}], vote={"answers": []}))
    assert now.header.schema == SCHEMA_VERSION
    assert now.steps[0].records == {
        "truncation": cut,
        "operators": {"decoders": [{"role": "target", "tokens": [4]}]},
        "vote": {"answers": []},
    }
    assert now.header.records["truncation"].units["tokens"] == "token"
    for field, value in (("truncation", cut | {"tokens": [77]}), ("operators", [{"role": "x", "tokens": [77]}])):
        refuses(TraceError, "uses token 77", read, second(**{field: value}))
    refuses(TraceError, "names position 1000000", read, second(truncation=cut | {"position": 10**6}))


TILES = {"way": "lean", "worker": 2, "head": 1, "first": 3, "last": 4, "found": "m 2.00, l 4"}
MISSED = {"rule": "lru", "slot": 2, "expert": "lists", "miss": True, "out": "sums"}


@pytest.mark.parametrize(
    ("one", "label", "about"),
    [
        (lane("attention", "microbatch 2, layer 3"), None, {"microbatch": 2, "layer": 3}),
        (lane("decoder-only", "prefill 11"), None, {"phase": "prefill", "layer": 11}),
        (lane("device 1", "scheduled: attention 2", measured=False), "attention 2", {}),
        (lane("lean: 2", "head 1, tiles 3–4, m 2.00, l 4", "tiles"), None, TILES),
        (lane("lru: 2", "lists: miss, throws out sums", "tokens"), None, MISSED),
        (lane("arena: weights", "weights", "bytes"), None, {"group": "arena", "name": "weights"}),
        (lane("budget", "limit", "bytes"), None, {"limit": True}),
        (lane("target", "forward, 3 rows"), None, {}),
    ],
)
def test_what_stood_in_a_label_is_read_once(one: dict[str, Any], label: str | None, about: dict[str, Any]):
    now = read(second(one))
    (found,) = now.steps[0].intervals
    assert (found.track, found.label, found.about) == (one["lane"], label or one["label"], about)
    assert now.header.emits == ["intervals"] and Trace.from_json(now.to_json()) == now
    parts = read(second(lane("target"), lane("target: G"), lane("other: G"))).steps[0].intervals
    assert [part.about for part in parts] == [{}, {"part_of": "target"}, {}], (
        "a lane within another is a part of its call"
    )


NO_LANES = [{"lane": [1]}, {"lane": "a", "label": 7}, {"lane": "a", "unit": ["bytes"]}, {}]


@pytest.mark.parametrize(
    "changes",
    [{"vote": 3}, {"operators": "x"}, {"lanes": 3}, {"lanes": [3]}]
    + [{"lanes": [{"start": 0, "end": 1} | one]} for one in NO_LANES],
)
def test_what_version_2_never_held_is_refused(changes: dict[str, Any]):
    refuses(TraceError, "", read, second(**changes))
