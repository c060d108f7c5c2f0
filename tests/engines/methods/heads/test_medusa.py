"""Medusa: acceptance rules, the likeliest tree, the cache, one formula in training and decoding."""

from types import SimpleNamespace

import pytest
import torch

import engines
from engines.methods.heads import medusa
from engines.methods.heads._template import filled, likeliest, parents_of
from engines.methods.speculative._turn import Target
from engines.methods.speculative._verify import Draft
from engines.models.parts import load_part
from engines.training.heads.medusa import Heads, ridge
from tests.engines.methods.heads.conftest import PROMPTS, decoder

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


def test_the_cache_after_a_turn_is_that_of_a_fresh_read(model):
    """By the logits of the next token and the states below them (float32, 1e-4)."""
    p, n = SimpleNamespace(max_new_tokens=24, temperature=1.0), model.num_layers
    ids, rng = model.tokenizer.encode_prompt(PROMPTS[0]), torch.Generator().manual_seed(0)
    target = Target(model, ids, p, rows=40)
    paths, parents = parents_of((r, *rest) for r in range(4) for rest in ((), (0,), (1,), (1, 2)))
    for _ in range(4):
        top = model.extend(ids, model.new_cache(64), last_only=True).logits[0].topk(4).indices.tolist()
        turn = target.verify(ids, Draft.of(filled(paths, ids[-1], [top] * 3), parents, "draft"), rng)
        ids, path = turn.ids, turn.verdict.path
        assert path[0] == 0 and [parents[row] for row in path[1:]] == path[:-1]
        fresh = model.extend(ids, model.new_cache(64), last_only=True, hidden=(n,))
        base = target.cache.length
        kept = model.extend(ids[base:], target.cache, last_only=True, hidden=(n,))
        assert torch.allclose(kept.logits, fresh.logits, atol=1e-4)
        assert torch.allclose(kept.hidden[n][-1], fresh.hidden[n][-1], atol=1e-4)
        target.cache.crop(base)


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
