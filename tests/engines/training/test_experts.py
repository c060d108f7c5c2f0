"""Cutting a model into experts: texts by domain, ranks, labels that sum up to 1, a router that learns, losses."""

from itertools import islice

import pytest
import torch

import engines
from engines.core.errors import UserError
from engines.methods.routing.read_me.experts import channel_ranks, masks
from engines.tasks.domains import TINY, WIDE, domains_of, library, tokens
from engines.training.__main__ import main
from engines.training.core.loop import Until, run
from engines.training.heads.experts import RouterTraining, activity, agreement, labelled, loss_of, mixed


@pytest.fixture(scope="module")
def model():
    return engines.load_model("tiny-ar-m", dtype="float32")


def test_domains_are_the_same_again_and_held_out_files_are_others(model):
    assert domains_of(model) is TINY
    for texts in (*WIDE.values(), *TINY.values()):
        first, again = (list(islice(tokens(model, texts, "train", 3, 32), 2)) for _ in range(2))
        held = next(tokens(model, texts, "held-out", 3, 32))
        assert first == again and all(len(ids) == 32 for ids in first) and held not in first
    assert not set(library("train", 0)) & set(library("held-out", 0))


def test_a_router_learns_labels_that_the_model_gives(model):
    ranks = channel_ranks(torch.stack([activity(model, texts, 64, 0) for texts in TINY.values()]))
    assert ranks.shape == (3, 6, 384) and bool((ranks.sort(-1).values == torch.arange(384)).all())
    told = labelled(model, masks(ranks, 0.5), mixed(model, TINY, "train", 0, 4))
    assert all(torch.allclose(one.target.sum(-1), torch.ones(len(one.ids)), atol=1e-5) for one in told)
    training = RouterTraining("a-router", model, 3, told, "")
    before = float(training.loss(told).value.detach())
    run(training, Until(30, None))
    assert float(training.loss(told).value.detach()) < before
    found = agreement(model, training.network, told)
    assert 0 < found["agreement"] <= 1 and found["most_common_alone"] >= 1 / 3


def test_all_channels_lose_what_the_model_loses(model):
    windows = [next(tokens(model, TINY["stories"], "held-out", 0, 48))]
    ranks = channel_ranks(torch.rand(1, 6, 384, generator=torch.Generator().manual_seed(0)))
    dense = loss_of(model, windows, None)
    assert loss_of(model, windows, masks(ranks, 1.0)[0]) == pytest.approx(dense, abs=1e-5)
    assert loss_of(model, windows, masks(ranks, 0.5)[0]) > dense  # channels drawn at random
    with pytest.raises(UserError, match="--texts 1 is too little"):
        main(["domain-experts", "tiny-ar-m", "--texts", "1"])
