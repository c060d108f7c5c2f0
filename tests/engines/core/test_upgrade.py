"""Traces of version 1: recordings of the gallery that still are of it, and those that were recorded again since."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engines.core.trace import SCHEMA_VERSION, Trace, TraceError, authors

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


def test_the_recordings_of_version_1_are_kept_as_the_test_of_it():
    assert len(FIRST) > 20


@pytest.mark.parametrize("path", FIRST, ids=lambda path: path.name.split(".")[0])
def test_a_recording_of_version_1_opens_with_everything_that_it_held(path: Path):
    before, now = old(path), Trace.from_json(gzip.decompress(path.read_bytes()))
    assert now.header.schema == SCHEMA_VERSION and "work" in now.header.missing
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
def test_what_was_called_bonus_is_told_apart_by_its_tree(why, parents, source, cause, schema):
    kept = why.count("accepted")
    tree = {
        "start": 0, "parents": parents, "tokens": [1, 2, 3][: len(why)], "accepted": [w != "mismatch" for w in why],
        "why": why, "emitted": [2] * (kept + 1), "emitted_source": source,
    }  # fmt: skip
    for said in ("bonus", "residual"):
        commits = {
            "positions": list(range(1, kept + 2)), "tokens": [2] * (kept + 1), "causes": ["accepted"] * kept + [said]
        }  # fmt: skip
        trace = minimal(commits=commits, tree=tree)
        trace["header"]["schema"] = schema
        assert read(trace).steps[0].commits.causes == ["accepted"] * kept + [cause]


def test_a_tokens_author_follows_from_its_cause_and_the_tree():
    assert authors.authors_of(["forced", "boosted", "top1"], "model") == ["person", "credit", "model"]
    tree = ["root", "accepted", "mismatch", "accepted"], ["root", "retrieval", "draft", "ngram"]
    assert authors.accepted_sources(*tree) == ["retrieval", "ngram"]
    found = authors.authors_of(["accepted", "accepted", "bonus"], "target", authors.accepted_sources(*tree))
    assert found == ["retrieval", "ngram", "target"]
    assert authors.authors_of(["accepted"], "target") == ["draft"]


def test_where_a_step_chose_between_models_the_chosen_one_is_the_author():
    switching = {"small", "large"}
    path = next(path for path in FIRST if {m["role"] for m in old(path)["header"]["models"]} == switching)
    steps = [step for step in Trace.from_json(gzip.decompress(path.read_bytes())).steps if step.commits and step.choice]
    assert {step.choice.chosen for step in steps} == {"small", "large"}
    assert all(set(step.commits.authors) == {step.choice.chosen} for step in steps)


def test_branches_keep_their_score_by_name_and_get_the_length_of_their_text():
    one = minimal(branches=[{"id": 0, "parent": -1, "tokens": [3, 4], "score": -1.5, "fate": "alive"}])
    second = dict(one["steps"][0], index=1, branches=[{"id": 1, "parent": 0, "tokens": [5], "score": 2}])
    one["steps"].append(second)
    found = read(one)
    assert [(b.length, b.scores) for step in found.steps for b in step.branches] == [
        (2, {"score": -1.5}), (3, {"score": 2})
    ]  # fmt: skip


def test_routing_is_packed():
    entries = [
        {"kind": "expert", "position": 7, "layer": 1, "chosen": [5, 2], "weights": [0.75, 0.25]},
        {"kind": "expert", "position": 6, "layer": 0, "chosen": [4]},
        {"kind": "layer", "position": 6, "layer": 0, "chosen": [1]},
    ]
    trace = minimal(routing=entries)
    experts, layers = read(trace).steps[0].routing
    assert (experts.positions, experts.layers, experts.weights.array()[1, 1].tolist()) == ([6, 7], [0, 1], [0.75, 0.25])
    assert experts.chosen.array().tolist() == [[[4, -1], [-1, -1]], [[-1, -1], [5, 2]]]
    assert np.isnan(experts.weights.array()[0]).all()
    assert layers.weights is None and layers.chosen.array().tolist() == [[[1]]]


def test_a_replay_that_diverged_still_says_so():
    trace = minimal()
    trace["header"]["origin"] = {"trace": "0" * 64, "step": 2, "method": "m", "title": "M", "parted": 1}
    assert read(trace).header.origin.diverged == 1


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"routing": [{"kind": "expert", "position": "x", "layer": 0, "chosen": [1]}]}, "routing"),
        ({"routing": [{"kind": "expert"}]}, "routing"),
        ({"routing": [{"kind": "expert", "position": i, "layer": i, "chosen": [1]} for i in range(3000)]}, "routing"),
        ({"routing": [{"kind": "expert", "position": 2**60, "layer": 0, "chosen": [1]}]}, "position|routing"),
        ({"routing": [{"kind": "expert", "position": 1, "layer": 0, "chosen": [2**40]}]}, "routing"),
        ({"branches": [{"id": 0, "parent": -1, "tokens": "abc", "score": 1}]}, "branches"),
        ({"branches": [{"id": 0, "parent": -7, "tokens": [], "score": 1}]}, "branches"),
        ({"commits": {"positions": [1], "tokens": [3], "causes": [1]}}, "causes"),
        ({"commits": {"positions": [1], "tokens": [3, 4], "causes": ["greedy", "greedy"]}}, "equally many"),
        ({"work": "much"}, "work"),
    ],
)
def test_what_was_never_valid_is_refused_as_before(changes: dict[str, Any], complaint: str):
    with pytest.raises(TraceError, match=complaint):
        read(minimal(**changes))


@pytest.mark.parametrize("header", [[], "text", None, {"schema": 1}, {"schema": 1, "models": 3, "missing": 4}])
def test_a_header_that_is_none_is_refused(header: Any):
    with pytest.raises(TraceError):
        read(minimal() | {"header": header})


@pytest.mark.parametrize("version", [0, -1, 4, 9, 10**30])
def test_other_versions_are_refused_with_what_can_be_read(version: int):
    trace = minimal()
    trace["header"]["schema"] = version
    with pytest.raises(TraceError, match=r"versions 1 to 3|not a valid trace"):
        read(trace)


# --- version 2


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
        with pytest.raises(TraceError, match="uses token 77"):
            read(second(**{field: value}))
    with pytest.raises(TraceError, match="names position 1000000"):
        read(second(truncation=cut | {"position": 10**6}))


@pytest.mark.parametrize(
    ("one", "label", "about"),
    [
        (lane("attention", "microbatch 2, layer 3"), None, {"microbatch": 2, "layer": 3}),
        (lane("MFA", "feed-forward, layer 4"), None, {"part": "feed-forward", "layer": 4}),
        (lane("decoder-only", "prefill 11"), None, {"phase": "prefill", "layer": 11}),
        (lane("decoder-only", "token  Rome"), None, {"phase": "token", "token": " Rome"}),
        (lane("device 1", "scheduled: attention 2", measured=False), "attention 2", {}),
        (
            lane("lean: 2", "head 1, tiles 3–4, m 2.00, l 4", "tiles"),
            None,
            {"way": "lean", "worker": 2, "head": 1, "first": 3, "last": 4, "found": "m 2.00, l 4"},
        ),
        (
            lane("lru: 2", "lists: miss, throws out sums", "tokens"),
            None,
            {"rule": "lru", "slot": 2, "expert": "lists", "miss": True, "out": "sums"},
        ),
        (lane("lru: 1", "sums", "tokens"), None, {"rule": "lru", "slot": 1, "expert": "sums"}),
        (lane("arena: weights", "weights", "bytes"), None, {"group": "arena", "name": "weights"}),
        (lane("process", "resident memory", "bytes"), None, {"group": "process", "name": "resident memory"}),
        (lane("budget", "limit", "bytes"), None, {"limit": True}),
        (lane("target", "forward, 3 rows"), None, {}),
    ],
)
def test_what_stood_in_a_label_is_read_once(one: dict[str, Any], label: str | None, about: dict[str, Any]):
    (found,) = read(second(one)).steps[0].intervals
    assert (found.track, found.label, found.about) == (one["lane"], label or one["label"], about)
    assert read(second(one)).header.emits == ["intervals"]


def test_a_lane_within_another_one_is_a_part_of_its_call():
    whole, part, alone = read(second(lane("target"), lane("target: G"), lane("other: G"))).steps[0].intervals
    assert (whole.about, part.about, alone.about) == ({}, {"part_of": "target"}, {})


@pytest.mark.parametrize(
    "changes",
    [
        {"vote": 3},
        {"operators": "x"},
        {"lanes": 3},
        {"lanes": [3]},
        {"lanes": [{"lane": [1], "start": 0, "end": 1}]},
        {"lanes": [{"lane": "a", "start": 0, "end": 1, "label": 7}]},
        {"lanes": [{"lane": "a", "start": 0, "end": 1, "unit": ["bytes"]}]},
        {"lanes": [{"start": 0, "end": 1}]},
    ],
)
def test_what_version_2_never_held_is_refused(changes: dict[str, Any]):
    with pytest.raises(TraceError):
        read(second(**changes))


def test_a_recording_of_version_2_that_holds_nothing_moved_is_the_same_read_either_way():
    trace = second(commits={"positions": [1], "tokens": [3], "causes": ["greedy"]})
    trace["header"]["emits"] = []
    now = read(trace)
    assert now.header.schema == SCHEMA_VERSION and now.steps[0].commits.tokens == [3] and now.header.records == {}
    assert Trace.from_json(now.to_json()) == now
