"""Medusa: acceptance rules, the likeliest tree, a cache as of a fresh read, and one formula in training and
decoding."""

from types import SimpleNamespace

import pytest
import torch

import engines
import tests.golden.checkers.heads  # noqa: F401 - registers its checker
from engines.methods.heads import medusa
from engines.methods.heads._template import filled, likeliest, parents_of
from engines.methods.heads.medusa import accepted_path
from engines.methods.speculative._turn import Target
from engines.methods.speculative._verify import Draft
from engines.models.parts import load_part
from engines.training.heads.medusa import Heads, ridge
from tests.engines.methods.heads.conftest import PROMPTS


def decode(model, prompt=PROMPTS[0], slug="medusa", seed=0, **params):
    return engines.run(slug, model, prompt, params={"max_new_tokens": 16, **params}, seed=seed)


def test_typical_acceptance_is_another_text_above_temperature_0_only(model):
    exact, typical = (
        decode(model, temperature=1.5, acceptance=a, seed=1, max_new_tokens=24) for a in ("exact", "typical")
    )
    assert exact.output_ids != typical.output_ids
    assert decode(model, acceptance="typical").output_ids == decode(model).output_ids


def test_typical_acceptance_promises_nothing_above_temperature_0(model):
    """The header says so, of a run that a person changes to it as well, and the results make no claim of it."""
    kept, lost = ({"temperature": 1.0, "acceptance": rule} for rule in ("exact", "typical"))
    assert decode(model, **kept).header.lossless and not decode(model, **lost).header.lossless
    assert decode(model, acceptance="typical").header.lossless
    changed = engines.Edit(params={"acceptance": "typical"})
    for step, given, claim in ((0, kept, False), (0, {}, True), (-1, kept, False)):
        trace = engines.run("medusa", model, PROMPTS[0], params={"max_new_tokens": 8, **given}, edits=[(step, changed)])
        assert trace.header.lossless == claim
    back = engines.Edit(params={"acceptance": "exact"})
    assert engines.run("medusa", model, PROMPTS[0], params=lost, edits=[(-1, back)]).header.lossless


def test_typical_acceptance_without_a_threshold_keeps_every_candidate_that_is_possible_at_all():
    draft = Draft.of([0, 1, 2, 3], [-1, 0, 1, 2], "draft")
    p = torch.tensor([[0.9, 0.1, 0.0, 0.0], [0.1, 0.1, 1e-9, 0.8], [0.5, 0.0, 0.5, 0.0], [0.25] * 4]).double()
    assert accepted_path(p, draft, 0.0, 0.3) == [0, 1, 2]  # the last has no chance at its parent
    assert accepted_path(p, draft, 0.09, 0.3) == [0, 1]


@pytest.mark.parametrize("seed", range(2))
def test_what_is_accepted_is_a_path_and_the_cache_is_that_of_a_fresh_read(model, seed):
    """Keys and values after a turn, held against those of the same text read at once: by the logits of the next token
    and the states below them (float32, 1e-4)."""
    p = SimpleNamespace(max_new_tokens=24, temperature=1.0)
    ids, rng = model.tokenizer.encode_prompt(PROMPTS[0]), torch.Generator().manual_seed(seed)
    target = Target(model, ids, p, rows=40)
    paths, parents = parents_of((r, *rest) for r in range(4) for rest in ((), (0,), (1,), (1, 2)))
    for _ in range(4):
        top = model.extend(ids, model.new_cache(64), last_only=True).logits[0].topk(4).indices.tolist()
        turn = target.verify(ids, Draft.of(filled(paths, ids[-1], [top] * 3), parents, "draft"), rng)
        path = turn.verdict.path
        assert path[0] == 0 and [parents[row] for row in path[1:]] == path[:-1]
        ids = turn.ids
        fresh = model.extend(ids, model.new_cache(64), last_only=True, hidden=(model.num_layers,))
        base = target.cache.length
        kept = model.extend(ids[base:], target.cache, last_only=True, hidden=(model.num_layers,))
        assert torch.allclose(kept.logits, fresh.logits, atol=1e-4)
        assert torch.allclose(kept.hidden[model.num_layers][-1], fresh.hidden[model.num_layers][-1], atol=1e-4)
        target.cache.crop(base)


def test_the_tree_is_the_likeliest_and_whole():
    a = [[0.5, 0.3, 0.1], [0.4, 0.2, 0.1]]
    found = likeliest(a, 4)
    assert [path for path, _ in found] == [(0,), (1,), (0, 0), (1, 0)]
    assert [P for _, P in found] == pytest.approx([0.5, 0.3, 0.2, 0.12])
    for n in range(12):
        paths, parents = parents_of(path for path, _ in likeliest(a, n))
        assert len(paths) == n + 1 and parents[0] == -1


def test_training_and_decoding_have_one_formula(model):
    heads = load_part("medusa-heads", [model.record]).tensors
    network, h = Heads(3, 128), torch.randn(5, 128)
    network.load_state_dict({name: heads[name].float() for name in ("R", "W", "b")})
    floats = {name: one.float() for name, one in heads.items()}
    assert torch.allclose(network(h), medusa.hidden(floats, h, 3), atol=1e-4)
    assert torch.allclose(network(h[:1])[:, 0], medusa.hidden(floats, h[0], 3), atol=1e-4)


def test_ridge_finds_a_linear_map():
    x, R = torch.randn(400, 6), torch.randn(6, 6)
    assert torch.allclose(ridge(x, x @ R.T, 1e-6), R, atol=1e-3)
