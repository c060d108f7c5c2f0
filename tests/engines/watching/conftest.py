"""The small masked model as a stranger's module."""

import pytest
import torch

import engines
from tests.engines.watching.strangers import Llada

PROMPT = "sort: Mia, Leo, Ada"
G, BLOCK = 16, 8


def board(ids, dlm):
    return torch.cat([ids, torch.full((1, G), dlm.mask_id)], 1)


def by_step(trace):
    return [sorted(zip(s.commits.positions, s.commits.tokens, strict=True)) if s.commits else [] for s in trace.steps]


def same_commits(trace, ours):
    """Asserts that a loop was read as our engine says of its own steps: what each wrote, and how likely it was."""
    assert by_step(trace) == by_step(ours)
    for mine, theirs in zip(ours.steps, trace.steps, strict=True):
        ranked = [dict(zip(one.commits.positions, one.commits.probabilities, strict=True)) for one in (mine, theirs)]
        assert ranked[0] == pytest.approx(ranked[1], abs=1e-4)


@pytest.fixture(scope="session")
def dlm():
    return engines.load_model("tiny-dlm")


@pytest.fixture(scope="session")
def network(dlm):
    return Llada(dlm.model)


@pytest.fixture(scope="session")
def ids(dlm):
    return torch.tensor([dlm.tokenizer.encode_prompt(PROMPT)])
