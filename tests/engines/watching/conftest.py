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


@pytest.fixture(scope="session")
def dlm():
    return engines.load_model("tiny-dlm")


@pytest.fixture(scope="session")
def network(dlm):
    return Llada(dlm.model)


@pytest.fixture(scope="session")
def ids(dlm):
    return torch.tensor([dlm.tokenizer.encode_prompt(PROMPT)])
