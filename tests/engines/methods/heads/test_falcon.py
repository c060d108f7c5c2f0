"""Falcon: groups and passes of the tree, branches of the LSTM, glancing. The mask is a golden case."""

from types import SimpleNamespace

import pytest
import torch

import engines
from engines.methods.heads import falcon
from engines.methods.heads.falcon import Drafter, grown
from engines.models.networks.exits import Past
from engines.models.networks.falcon_layer import FalconLayer
from engines.models.parts import load_part
from engines.training.heads.falcon import LAYERS, FalconTraining
from tests.engines.methods.heads.conftest import decoder

PROMPTS = ("add: 457 + 86", "copy: Ada, Tom, Mia, Leo")
decode = decoder("falcon")


def untrained(d=128):
    torch.manual_seed(0)
    layer = FalconLayer(d, 3 * d).requires_grad_(False)
    for one in (layer.fc, layer.P, layer.O, layer.down):
        one.normal_(0, d**-0.5)
    return layer


def drafter(model, k, layer):
    """One whose calls nobody counts."""
    unembed = lambda h, vocabulary=None, *, normed=False, predicts=None: model.unembed(h, normed=normed)  # noqa: E731
    return Drafter(SimpleNamespace(embed=model.embed, record=model.record, unembed=unembed), layer, k, None)


def states_of(model, ids):
    found = model.extend(ids, model.new_cache(len(ids)), hidden=(model.num_layers,)).hidden[model.num_layers]
    return found[: len(ids) - 1]


def same_state(one, other):
    return all(torch.allclose(a, b, atol=1e-5) for a, b in zip(one.state, other.state, strict=True))


@pytest.mark.parametrize(("k", "m"), [(1, 4), (2, 1), (2, 3)])
def test_m_passes_draft_k_m_levels(model, k, m):
    trace = decode(model, "python: class Robot(size: int)", k=k, m=m, nodes=40)
    for step in trace.steps[1:]:
        deepest = step.facts["depth"]
        assert step.facts["passes"] == -(-deepest // k) <= m and deepest <= k * m
        assert not deepest or max(step.tree.values) == step.facts["passes"]
    assert max(step.facts["depth"] for step in trace.steps) >= min(k * m, 4)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_reading_in_pieces_is_reading_at_once(model, k):
    ids, layer = model.tokenizer.encode_prompt("sort: Mia, Leo, Ada, Tom, Kim"), untrained()
    H, pieces = states_of(model, ids), drafter(model, k, layer)
    want = drafter(model, k, layer).read(ids, H)
    for end in (4, 5, 8, len(ids)):
        got = pieces.read(ids[:end], H[: end - 1])
        pieces.forget(end)
    assert torch.allclose(got.F, want.F, atol=1e-4) and got.guesses == want.guesses and same_state(got, want)
    assert pieces.read(ids[:1], H[:0]) is None


def test_every_branch_has_states_and_rows_of_its_own(model):
    """As if its path were read as a text of its own, with foreseen states; guesses are shared inside a group only."""
    ids, layer = model.tokenizer.encode_prompt("sort: Mia, Leo, Ada"), untrained()
    H, one = states_of(model, ids), drafter(model, 2, layer)
    first = one.read(ids, H)
    of, tokens = {(): first}, {(): ids[-1]}
    leaders = [(0, 0), (0, 1), (1, 0)]
    tokens |= {path[:j]: first.guesses[j - 1][path[j - 1]] for path in leaders for j in (1, 2)}
    one.below(leaders, of, tokens, len(ids))
    for path in leaders:
        alone = drafter(model, 2, layer).read([*ids, tokens[path[:1]], tokens[path]], torch.cat([H, first.F]))
        assert torch.allclose(of[path].F, alone.F, atol=1e-4) and same_state(of[path], alone)
    assert one.passes == 2 and len({tuple(of[path].line) for path in leaders}) == 3
    other = drafter(model, 2, layer)
    paths = [(), (0,), (1,), (0, 0), (1, 0), (0, 0, 0), (1, 0, 0)]
    tokens, chances = grown(other, paths, ids, other.read(ids, H))
    assert tokens[3] == tokens[4] and chances[3] == chances[4] and chances[5] != chances[6] and other.passes == 2


@pytest.fixture
def training(model, training):
    return training(FalconTraining, model, prompts=PROMPTS * 3)


def test_glancing_fills_in_what_lies_k_places_on_and_takes_no_gradient(training):
    text, layer = training.batch(0.0)[0], training.layer("k2")
    plain = training.inputs(layer, text)
    shown, wrong = training.glanced(layer, text, 2, 0, 0.5)
    changed = (shown != plain).any(1).nonzero()[:, 0]
    assert wrong > 3 and 0 < len(changed) <= round(0.5 * wrong)
    assert all(torch.equal(shown[t], plain[t + 2]) for t in changed) and not shown.requires_grad
    assert set(changed.tolist()) <= set(text.rows(2))
    assert torch.equal(training.glanced(layer, text, 2, 0, 0.0)[0], plain)


def test_the_loss_moves_all_layers_and_at_the_end_nothing_is_filled_in(training):
    training.start()
    training.loss(training.batch(0.5)).value.backward()
    for layer in map(training.layer, LAYERS):
        assert all(float(one.grad.abs().sum()) > 0 for one in (layer.fc, layer.P, layer.O, layer.down))
    texts = training.batch(1.0)
    training.network.zero_grad()
    a, b = (training.layer(key) for key in ("k2", "k2-unglanced"))
    b.load_state_dict(a.state_dict())
    training.loss(texts).value.backward()
    assert training.share == 1.0
    assert torch.allclose(a.P.grad, b.P.grad) and torch.allclose(a.fc.grad, b.fc.grad)


@pytest.mark.parametrize("k", [1, 2])
def test_what_is_measured_is_what_decoding_drafts(model, training, k):
    text, layer = training.batch(0.0)[0], untrained()
    cuts, found = training.drafted(layer, text, k)
    ids, i = text.tokens.tolist(), 3
    t = int(cuts[i])
    one = drafter(model, k, layer)
    group = one.read(ids[: t + 2], text.hidden[training.last][: t + 1].float())
    of, tokens, path = {(): group}, {(): ids[t + 1]}, ()
    for level in range(4):
        group = of[path[: level // k * k]]
        assert torch.allclose(group.F[level % k], found[level][i], atol=1e-3)
        path = (*path, 0)
        tokens[path] = ids[t + 2 + level]
        if len(path) % k == 0:
            one.below([path], of, tokens, t + 2)


def test_blocks_of_one_read_a_chain():
    layer, z = untrained(16), torch.randn(9, 32)
    one, two = (FalconTraining.said(SimpleNamespace(), layer, z, k, 0) for k in (1, 2))
    want = layer.through(layer.mixed(z, layer.run(z[:, None])[0][:, 0]), Past())
    assert torch.allclose(one, want) and not torch.allclose(two, want)


def test_a_part_without_the_layer_is_refused(model):
    assert falcon.name_of(1, True) == falcon.name_of(1, False) == "k1" and falcon.name_of(2, False) == "k2-unglanced"
    part = load_part("falcon-layer", [model.record])
    roles = SimpleNamespace(layer=SimpleNamespace(name="x", card={"layers": ["k1"]}, tensors=part.tensors))
    with pytest.raises(engines.UserError, match=r"x has no layer 'k2'; it has k1: change k or glancing"):
        falcon.drafter_of(roles, SimpleNamespace(k=2, glancing=True))
