"""FastDraft: what checkpoints put first settles the rounds of each of them, and the text is the target's."""

import itertools

import pytest
import torch

import engines
from engines.core.errors import UserError
from engines.methods.speculative.fastdraft import Schooling
from engines.models.parts import grid_drafts, load_part

PROMPT, LENGTH = "story: Pia, bag", 20
STEPS = ("16", "32", "64", "128", "256", "512")


@pytest.fixture(scope="module")
def target():
    return engines.load_model("tiny-ar-l", dtype="float32")


def decode(target, prompt=PROMPT, seed=0, **params):
    return engines.run("fastdraft", target, prompt, params={"max_new_tokens": LENGTH, **params}, seed=seed)


def ends_of(hits, gamma, most):
    """Where rounds of a draft end: first choices that the text has, up to gamma, and one of the target's own."""
    ends = [0]
    while ends[-1] < len(hits):
        drafted = hits[ends[-1] :][: min(gamma, most - ends[-1] - 1)]
        kept = next((i for i, hit in enumerate(drafted) if not hit), len(drafted))
        ends.append(min(ends[-1] + kept + 1, len(hits)))
    return ends[1:]


def hits(trace):
    """[checkpoints][n]: where each checkpoint's first choice is the text's token."""
    read = [step.record("schooling", Schooling) for step in trace.steps]
    first = [list(itertools.chain(*rows)) for rows in zip(*(one.first for one in read), strict=True)]
    return [[a == b for a, b in zip(row, trace.output_ids, strict=True)] for row in first]


@pytest.mark.parametrize(
    "params",
    [{}, {"temperature": 0.8}, pytest.param({"size": "d32x1"}, marks=pytest.mark.exhaustive)],
    ids=["greedy", "drawn", "small"],
)
def test_any_run_tells_the_rounds_of_every_checkpoint(target, params):
    """What is derived of a checkpoint is what happens when it drafts: rounds that end at the same places."""
    runs = [decode(target, checkpoint=steps, **params) for steps in STEPS]
    for mine, trace in enumerate(runs):
        told = trace.steps[0].record("schooling", Schooling)
        assert told.drafting == mine and told.gamma == 3 and told.end == told.start + LENGTH
        ends = list(itertools.accumulate(len(step.commits.tokens) for step in trace.steps))
        assert ends_of(hits(trace)[mine], 3, LENGTH) == ends
    if "temperature" not in params:
        assert len({tuple(trace.output_ids) for trace in runs}) == 1
        calls = [len(trace.steps) for trace in runs]
        assert [len(ends_of(row, 3, LENGTH)) for row in hits(runs[0])] == calls and calls[0] > calls[-1]


def test_nothing_is_drafted_with_gamma_0_and_the_text_is_greedy(target):
    """Draft calls are those of the checkpoint that drafts, one per drafted token: reading along is no work."""
    plain = engines.run("greedy", target, PROMPT, params={"max_new_tokens": LENGTH})
    none, most = decode(target, gamma=0), decode(target, gamma=16)
    assert none.output_ids == plain.output_ids == most.output_ids
    assert not none.totals.forwards_by_role.get("draft") and len(none.steps) == len(none.output_ids)
    assert most.totals.forwards_by_role["draft"] == sum(step.facts["drafted"] for step in most.steps)


def test_a_model_or_size_without_checkpoints_is_refused(target):
    with pytest.raises(UserError, match="there is no draft-grid for tiny-ar-m"):
        decode("tiny-ar-m")
    with pytest.raises(UserError, match=r"has no 'd9x9\.1'; it has d16x1\.16, "):
        grid_drafts.network_of(load_part("draft-grid", [target.record]), "d9x9.1", torch.zeros(2, 2), 8)
