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


def test_below_zero_one_per_forward_in_order_of_entropy_not_of_confidence():
    other = 0
    for seed in range(6):
        trace = decode(seed, threshold=-0.01)
        assert [len(c) for c in commits(trace)] == [1] * 12 and trace.totals.forwards == 12
        for step in trace.steps:
            block = next(s for s in step.spans if s.kind == "block")
            H = {q: h for q, h in lane(step, "entropy").items() if q < block.end}
            (written,) = step.commits.positions
            assert H[written] == pytest.approx(min(H.values()), abs=1e-6) and step.commits.causes == ["top1"]
            conf = {q: c for q, c in lane(step, "confidence").items() if q < block.end}
            other += max(conf, key=conf.get) != written
    assert other, "the two orders differ somewhere on these models, or this test shows nothing"


def test_a_threshold_of_the_whole_vocabulary_commits_blocks():
    trace = decode(threshold=math.log(8) + 0.01)
    assert [len(c) for c in commits(trace)] == [4, 4, 4]


@pytest.mark.parametrize("threshold", [0.3, 0.8, 1.2])
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


def test_equal_entropies_go_from_the_left():
    assert certain(torch.tensor([0.5, 0.2, 0.2, 0.5]), 0.2).tolist() == [1, 2]
    assert certain(torch.tensor([0.5, 0.5]), 0.1).tolist() == [0]
