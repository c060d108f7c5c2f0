"""A run that failed is held against nothing, and an answer that its limit cut says so."""

from __future__ import annotations

import json

import msgspec
import pytest

import engines
from explorer.export.report import report
from explorer.figures.compare import control_of
from explorer.figures.strip import basis_of, parts
from explorer.figures.verdict import cut_at, judge
from explorer.page import tables

PROMPT = "add: 457 + 86"


def run(slug: str, tokens: int = 24):
    model = engines.load_model("tiny-ar-l", dtype="float32")
    return engines.run(slug, model, PROMPT, params={"max_new_tokens": tokens})


def ended(trace, reason: str):
    return msgspec.structs.replace(trace, end=msgspec.structs.replace(trace.end, reason=reason, message="It broke."))


@pytest.fixture(scope="module")
def pair():
    return run("greedy"), run("speculative-sampling")


def row(traces, at):
    found = json.loads(tables.results(traces))
    return dict(zip(found["columns"], found["rows"][at], strict=True))


@pytest.mark.parametrize("reason", ["failed", "stopped"])
def test_a_text_that_was_not_finished_is_not_judged(pair, reason):
    control, ours = pair
    assert judge(ours) is not None and judge(ended(ours, reason)) is None
    assert row({0: control, 1: ended(ours, reason)}, 1)["Task check"]["text"] == "not finished"


def test_a_failed_run_gets_no_verdict_and_gives_none(pair):
    control, ours = pair
    failed = ended(ours, "failed")
    assert row({0: control, 1: failed}, 1)["Against its control"]["text"] == "failed: no verdict"
    said = [part.text for part in parts(failed, control)]
    assert not any("same text" in one or "parts from" in one or "second" in one for one in said)
    broken = ended(control, "failed")
    assert control_of(ours, {0: broken, 1: ours}) is None and basis_of([broken, ours]) is ours
    assert "It broke." in report([failed, control])


def test_an_answer_that_its_limit_cut_says_so():
    short, whole = run("greedy", 3), run("greedy", 64)
    assert cut_at(short) == 3 and cut_at(whole) is None
    assert "cut at 3 tokens: raise max_new_tokens" in row({0: short}, 0)["Output"]["text"]
    assert "cut at" not in row({0: whole}, 0)["Output"]["text"]
    assert "Cut at 3 tokens: raise max_new_tokens." in report([short, whole])
    assert cut_at(ended(short, "stopped")) is None
