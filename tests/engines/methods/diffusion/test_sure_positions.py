"""Which of several sure positions a loop keeps: the choice of the official loops, torch.topk of the float32 softmax
over the whole board, even where confidences are equal."""

import pytest
import torch

import engines
from tests.engines.fakes import TableMasked, commits

PROMPT, G = [1, 2, 3], 48
LOOPS = {
    "llada": {"block_length": 48, "steps": 24},
    "prophet": {"block_length": 48, "steps": 24, "answer_length": 0},
    "dream": {"alg": "maskgit_plus", "steps": 12},
    "dream-threshold": {"threshold": 0.0, "steps": 12},
}


def kept(model, x, end, n):
    """What the official loops keep of a board x [L]: of the masks before `end` the n with the largest softmax."""
    probability, token = model(x).softmax(-1).max(-1)
    probability[(x != model.mask_id) | (torch.arange(len(x)) >= end)] = -torch.inf
    chosen = probability.topk(n).indices
    return dict(zip(chosen.tolist(), token[chosen].tolist(), strict=True)), probability[chosen]


@pytest.mark.parametrize("slug", LOOPS)
def test_of_sure_positions_those_of_the_official_loop_are_kept(slug):
    most_equal = 0
    for seed in range(6):
        model = TableMasked(seed=seed, scale=9.0)
        trace = engines.run(slug, model, PROMPT, params={"max_new_tokens": G, **LOOPS[slug]}, detail="light")
        x = torch.tensor(PROMPT + [model.mask_id] * G)
        for step, got in zip(trace.steps, commits(trace), strict=True):
            end = next(span.end for span in step.spans if span.kind == "block")
            want, sure = kept(model, x, end, len(got))
            assert got == want
            most_equal = max(most_equal, int((sure == 1).sum()))
            x[list(got)] = torch.tensor(list(got.values()))
    assert most_equal > 1  # there was something to decide
