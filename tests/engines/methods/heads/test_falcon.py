"""Falcon: groups and passes of the tree, branches of the LSTM, glancing."""

from types import SimpleNamespace

import pytest
import torch

import engines
import tests.golden.checkers.falcon  # noqa: F401 - registers its checker
from engines.core.trace import Edit
from engines.methods.heads import falcon
from engines.methods.heads.falcon import Drafter, grown
from engines.models.exits import Past
from engines.models.networks.falcon_layer import FalconLayer, mask_of, visible
from engines.models.parts import load_part
from engines.training.core.text_cache import Teacher
from engines.training.heads.falcon import LAYERS, FalconTraining

PROMPTS = ("add: 457 + 86", "copy: Ada, Tom, Mia, Leo")


def decode(model, prompt=PROMPTS[0], slug="falcon", seed=0, **params):
    return engines.run(slug, model, prompt, params={"max_new_tokens": 16, **params}, seed=seed)


def untrained(d=128, seed=0):
    torch.manual_seed(seed)
    layer = FalconLayer(d, 3 * d).requires_grad_(False)
    for one in (layer.fc, layer.P, layer.O, layer.down):
        one.normal_(0, d**-0.5)
    return layer


@pytest.mark.parametrize(("n", "k", "past"), [(7, 2, 0), (8, 3, 5), (5, 1, 2)])
def test_rows_of_a_block_see_the_same_and_later_ones_no_less(n, k, past):
    sees = visible(n, k, past)
    assert sees == sorted(sees) and all(len(set(sees[i : i + k])) == 1 for i in range(0, n, k))
    assert k > 1 or sees == [past + i + 1 for i in range(n)]  # blocks of one: EAGLE's mask
    whole = mask_of(n, k, past).sum(1).tolist()
    assert whole[-k:] == [past + n] * k and len(whole) == n


@pytest.mark.parametrize(("k", "m"), [(1, 2), (1, 4), (2, 1), (2, 2), (2, 3)])
def test_m_passes_draft_k_m_levels(model, k, m):
    trace = decode(model, "python: class Robot(size: int)", k=k, m=m, nodes=40)
    for step in trace.steps[1:]:
        deepest = step.facts["depth"]
        assert step.facts["passes"] == -(-deepest // k) <= m and deepest <= k * m
        if not deepest:
            continue
        assert step.tree.value_name == "pass that drafted it"
        assert max(step.tree.values) == step.facts["passes"]
    assert max(step.facts["depth"] for step in trace.steps) >= min(k * m, 4)


def drafter(model, k, layer):
    return Drafter(model, layer, k, None)


def states_of(model, ids):
    found = model.extend(ids, model.new_cache(len(ids)), hidden=(model.num_layers,)).hidden[model.num_layers]
    return found[: len(ids) - 1]


class Plain:
    """A layered model whose `unembed` takes what the counted one takes."""

    def __init__(self, model):
        self.embed, self.record = model.embed, model.record
        self.unembed = lambda h, vocabulary=None, *, normed=False, predicts=None: model.unembed(h, normed=normed)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_reading_in_pieces_is_reading_at_once(model, k):
    ids, layer = model.tokenizer.encode_prompt("sort: Mia, Leo, Ada, Tom, Kim"), untrained()
    H, at_once, pieces = states_of(model, ids), drafter(Plain(model), k, layer), drafter(Plain(model), k, layer)
    want = at_once.read(ids, H)
    for end in (4, 5, 8, len(ids)):
        got = pieces.read(ids[:end], H[: end - 1])
        pieces.forget(end)
    assert torch.allclose(got.F, want.F, atol=1e-4) and got.guesses == want.guesses
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(got.state, want.state, strict=True))
    assert pieces.read(ids[:1], H[:0]) is None


def test_every_branch_has_states_and_rows_of_its_own(model):
    """The group below a node is what one gets by reading its path as a text of its own: the path's tokens with the
    states that the layer foresaw."""
    ids, k, layer = model.tokenizer.encode_prompt("sort: Mia, Leo, Ada"), 2, untrained()
    H, one = states_of(model, ids), drafter(Plain(model), 2, layer)
    first = one.read(ids, H)
    of, tokens = {(): first}, {(): ids[-1]}
    leaders = [(0, 0), (0, 1), (1, 0)]
    tokens |= {path[:j]: first.guesses[j - 1][path[j - 1]] for path in leaders for j in (1, 2)}
    one.below(leaders, of, tokens, len(ids))
    for path in leaders:
        other = drafter(Plain(model), k, layer)
        longer = [*ids, tokens[path[:1]], tokens[path]]
        alone = other.read(longer, torch.cat([H, first.F]))
        assert torch.allclose(of[path].F, alone.F, atol=1e-4)
        assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(of[path].state, alone.state, strict=True))
    assert one.passes == 2 and len({tuple(of[path].line) for path in leaders}) == 3


def test_a_tree_shares_guesses_inside_a_group_only(model):
    ids, layer = model.tokenizer.encode_prompt("sort: Mia, Leo, Ada"), untrained()
    one = drafter(Plain(model), 2, layer)
    first = one.read(ids, states_of(model, ids))
    paths = [(), (0,), (1,), (0, 0), (1, 0), (0, 0, 0), (1, 0, 0)]
    tokens, chances = grown(one, paths, ids, first)
    assert tokens[3] == tokens[4] and chances[3] == chances[4] and chances[5] != chances[6] and one.passes == 2


def test_a_fork_goes_on_with_other_blocks(model):
    plain = decode(model, slug="greedy")
    edits = [(1, Edit(params={"k": 1, "m": 3})), (3, Edit(force={len(plain.header.prompt_ids) + 2: 30}))]
    fork = engines.run("falcon", model, PROMPTS[0], params={"max_new_tokens": 24}, edits=edits)
    assert fork.steps[2].facts["passes"] == 3 and fork.output_ids[2] == 30
    again = engines.run(
        "greedy", model, [*plain.header.prompt_ids, *fork.output_ids[:3]], params={"max_new_tokens": 21}
    )
    assert fork.output_ids[3:] == again.output_ids


# --- training


@pytest.fixture
def training(model, texts):
    cache, teacher = texts(model, prompts=PROMPTS * 3), Teacher(model.model.get_output_embeddings().weight)
    return FalconTraining("test", model, cache, teacher, 0)


def test_glancing_fills_in_what_lies_k_places_on_and_takes_no_gradient(training):
    text, layer = training.batch(0.0)[0], training.layer("k2")
    plain = training.inputs(layer, text)
    shown, wrong = training.glanced(layer, text, 2, 0, 0.5)
    changed = (shown != plain).any(1).nonzero()[:, 0]
    assert wrong > 3 and 0 < len(changed) <= round(0.5 * wrong)
    assert all(torch.equal(shown[t], plain[t + 2]) for t in changed) and not shown.requires_grad
    assert set(changed.tolist()) <= set(text.rows(2))
    assert torch.equal(training.glanced(layer, text, 2, 0, 0.0)[0], plain)


def test_the_loss_moves_all_layers_and_the_ridge_lowers_it(training):
    before = float(training.loss(training.batch(0.5)).value.detach())
    training.start()
    loss = training.loss(training.batch(0.5)).value
    loss.backward()
    assert float(loss.detach()) < before
    for key in LAYERS:
        layer = training.layer(key)
        assert all(float(one.grad.abs().sum()) > 0 for one in (layer.fc, layer.P, layer.O, layer.down))


def test_at_the_end_nothing_is_filled_in(training):
    texts = training.batch(1.0)
    assert training.share == 1.0
    a, b = (training.layer(key) for key in ("k2", "k2-unglanced"))
    b.load_state_dict(a.state_dict())
    training.loss(texts).value.backward()
    assert torch.allclose(a.P.grad, b.P.grad) and torch.allclose(a.fc.grad, b.fc.grad)


@pytest.mark.parametrize("k", [1, 2])
def test_what_is_measured_is_what_decoding_drafts(model, training, k):
    text, layer = training.batch(0.0)[0], untrained()
    cuts, found = training.drafted(layer, text, k)
    ids, i = text.tokens.tolist(), 3
    t = int(cuts[i])
    one = drafter(Plain(model), k, layer)
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
    training = SimpleNamespace()
    said = FalconTraining.said(training, layer, z, 1, 0)
    want = layer.through(layer.mixed(z, layer.run(z[:, None])[0][:, 0]), Past())
    assert torch.allclose(said, want)
    assert not torch.allclose(FalconTraining.said(training, layer, z, 2, 0), want)


def test_a_part_without_the_layer_is_refused(model):
    assert falcon.name_of(1, True) == falcon.name_of(1, False) == "k1" and falcon.name_of(2, False) == "k2-unglanced"
    part = load_part("falcon-layer", [model.record])
    roles = SimpleNamespace(layer=SimpleNamespace(name="x", card={"layers": ["k1"]}, tensors=part.tensors))
    with pytest.raises(engines.UserError, match=r"x has no layer 'k2'; it has k1: change k or glancing"):
        falcon.drafter_of(roles, SimpleNamespace(k=2, glancing=True))
