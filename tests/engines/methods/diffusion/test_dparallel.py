"""dParallel's rule and what it keeps whatever the model says."""

import math

import pytest
import torch

import engines
from engines.methods.diffusion.dparallel import certain
from tests.engines.fakes import TableMasked, commits, lane

PROMPT = [3, 4, 5]


def decode(seed=3, **params):
    return engines.run(
        "dparallel",
        TableMasked(vocab_size=8, seed=seed, scale=1.0),
        PROMPT,
        params={"max_new_tokens": 12, "block_length": 4, **params},
    )


@pytest.mark.parametrize("threshold", [-0.01, 0.3, 1.2])
def test_the_commit_set_is_the_lowest_and_all_at_or_below_the_line(threshold):
    trace = decode(threshold=threshold)
    assert 3 <= trace.totals.forwards <= 12
    for step in trace.steps:
        block = next(s for s in step.spans if s.kind == "block")
        H = {q: h for q, h in lane(step, "entropy").items() if block.start <= q < block.end}
        assert set(step.commits.positions) == {min(H, key=H.get), *(q for q, h in H.items() if h <= threshold)}
        assert step.commits.causes == ["threshold" if H[q] <= threshold else "top1" for q in step.commits.positions]


def test_the_first_forward_commits_no_fewer_at_a_higher_threshold():
    first = [len(commits(decode(threshold=t))[0]) for t in (-0.01, 0.4, 0.8, 1.2, 1.6, 2.1)]
    assert first == sorted(first) and first[0] == 1 and first[-1] == 4
    assert [len(c) for c in commits(decode(threshold=math.log(8) + 0.01))] == [4, 4, 4], "whole blocks"
    assert certain(torch.tensor([0.5, 0.2, 0.2, 0.5]), 0.2).tolist() == [1, 2]  # equal ones go from the left
    assert certain(torch.tensor([0.5, 0.5]), 0.1).tolist() == [0]
