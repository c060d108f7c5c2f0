"""Medusa: acceptance rules, the likeliest tree, the cache, one formula in training and decoding."""

import pytest
import torch

import engines
from engines.methods.heads import medusa
from engines.methods.heads._template import likeliest, parents_of
from engines.models.parts import load_part
from engines.training.heads.medusa import Heads, ridge
from tests.engines.methods.heads.conftest import decoder

decode = decoder("medusa")


def test_typical_acceptance_is_another_text_above_temperature_0_only_and_promises_nothing_there(model):
    """The header says so, of a run that a person changes to it as well, and the results make no claim of it."""
    kept, lost = ({"temperature": 1.5, "acceptance": rule, "max_new_tokens": 24} for rule in ("exact", "typical"))
    exact, typical, cold = decode(model, seed=1, **kept), decode(model, seed=1, **lost), decode(model)
    assert exact.output_ids != typical.output_ids
    assert decode(model, acceptance="typical").output_ids == cold.output_ids
    assert exact.header.lossless and cold.header.lossless and not typical.header.lossless
    for step, given, rule, claim in (
        (0, kept, "typical", False),
        (0, {}, "typical", True),
        (-1, kept, "typical", False),
        (-1, lost, "exact", True),
    ):
        edits = [(step, engines.Edit(params={"acceptance": rule}))]
        assert decode(model, edits=edits, **{**given, "max_new_tokens": 8}).header.lossless == claim


def test_the_tree_is_the_likeliest_and_whole():
    a = [[0.5, 0.3, 0.1], [0.4, 0.2, 0.1]]
    assert [path for path, _ in likeliest(a, 4)] == [(0,), (1,), (0, 0), (1, 0)]
    assert [P for _, P in likeliest(a, 4)] == pytest.approx([0.5, 0.3, 0.2, 0.12])
    assert [len(parents_of(path for path, _ in likeliest(a, n))[0]) for n in range(12)] == list(range(1, 13))


def test_training_and_decoding_have_one_formula(model):
    heads = {name: one.float() for name, one in load_part("medusa-heads", [model.record]).tensors.items()}
    network, h = Heads(3, 128), torch.randn(5, 128)
    network.load_state_dict({name: heads[name] for name in ("R", "W", "b")})
    assert torch.allclose(network(h), medusa.hidden(heads, h, 3), atol=1e-4)
    assert torch.allclose(network(h[:1])[:, 0], medusa.hidden(heads, h[0], 3), atol=1e-4)


def test_ridge_finds_a_linear_map():
    x, R = torch.randn(400, 6), torch.randn(6, 6)
    assert torch.allclose(ridge(x, x @ R.T, 1e-6), R, atol=1e-3)
