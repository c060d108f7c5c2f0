"""Calls that served several samples are held against the tokens of all of them."""

from __future__ import annotations

import pytest

import engines
from explorer.cli.run import row
from explorer.figures.metrics import measure
from explorer.figures.samples import all_tokens, gained

PROMPT = "add: 457 + 86"


def run(slug: str, **params):
    return engines.run(slug, engines.load_model("tiny-ar-l", dtype="float32"), PROMPT, params=params)


@pytest.mark.parametrize("slug", ["stand", "stand-side-by-side"])
def test_samples_on_one_store(slug):
    trace = run(slug, trajectories=3, temperature=1.0, max_new_tokens=24)
    each: dict[int, list[int]] = {}
    for step in trace.steps:
        for branch in step.branches:
            each.setdefault(branch.id, []).extend(branch.tokens)
    words = [[token for token in ids if token not in trace.header.eos_ids] for ids in each.values()]
    assert len(words) == 3 and trace.totals.tokens in map(len, words)
    assert all_tokens(trace) == sum(map(len, words)) > trace.totals.tokens
    found = {metric.name: metric for metric in measure(trace)}
    calls = trace.totals.forwards_by_role["target"]
    assert found["tokens_per_call"].value == row(trace, trace)["tokens_per_call"] == sum(map(len, words)) / calls
    assert found["tokens_per_call"].terms == f"{sum(map(len, words))} ÷ {calls}"
    assert found["all_tokens"].value == sum(map(len, words)) and found["tokens"].value == trace.totals.tokens


@pytest.mark.parametrize(
    ("slug", "params"), [("greedy", {}), ("stand", {"trajectories": 1}), ("mirror-sd", {}), ("adadec", {})]
)
def test_one_text_and_guesses_are_no_samples(slug, params):
    trace = run(slug, max_new_tokens=16, **params)
    assert all_tokens(trace) is None and gained(trace) == trace.totals.tokens
    assert "all_tokens" not in {metric.name for metric in measure(trace)}


@pytest.mark.parametrize("slug", ["ffs", "rpc", "beam"])
def test_paths_of_other_methods_count_too(slug):
    trace = run(slug, max_new_tokens=16)
    assert all_tokens(trace) > trace.totals.tokens
