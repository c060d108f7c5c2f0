"""Chimera: rows that see what they should, one vector for each run of tokens, what is recorded, and one formula in
training and decoding."""

import itertools
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest
import torch

import engines
from engines.core.trace import Packed
from engines.methods.heads._template import likeliest, parents_of
from engines.methods.heads.chimera.drafter import Drafter, run_of
from engines.models.networks.chimera_drafter import drafter_of
from engines.models.parts import load_part
from engines.training.core.text_cache import Teacher
from engines.training.heads.chimera import ChimeraTraining
from engines.training.heads.packing import packed
from tests.engines.methods.heads.conftest import PROMPTS

TABLE = [[0.4, 0.3, 0.2], [0.5, 0.3, 0.2], [0.5, 0.4, 0.1]]


@pytest.fixture(scope="module")
def net(model):
    return drafter_of(load_part("chimera-drafter", [model.record]))


def decode(model, prompt=PROMPTS[0], slug="chimera", seed=0, **params):
    return engines.run(slug, model, prompt, params={"max_new_tokens": 16, **params}, seed=seed)


def drafter_on(model, net, ids, **switches):
    """A drafter that has read a text but its last token."""

    def unembed(h, vocabulary=None, *, normed=False, predicts=None):
        assert len(predicts) == len(h)
        return model.unembed(h, vocabulary, normed=normed)

    counted = SimpleNamespace(record=model.record, embed=model.embed, unembed=unembed)
    p, n = SimpleNamespace(**{"window": 3, "sees_drafts": True, **switches}), model.num_layers
    drafter = Drafter(counted, net, None, p)
    drafter.read(model.extend(ids[:-1], model.new_cache(99), hidden=(n,)).hidden[n])
    return drafter


@pytest.mark.parametrize("sees_drafts", [True, False])
def test_a_row_sees_true_states_its_path_and_itself(model, net, sees_drafts):
    """Every node of a tree against a chain that walks down to it alone."""
    ids = model.tokenizer.encode_prompt(PROMPTS[0])
    paths, above = parents_of(path for path, _ in likeliest(TABLE, 20))
    drafter = drafter_on(model, net, ids, sees_drafts=sees_drafts)
    draft, T = drafter.grown(paths, above, ids), len(ids) - 1
    assert draft.parents == above and len(draft) == 21
    past, h, layer = drafter.past, drafter.h, net.layer
    different = set()
    for row, path in enumerate(paths[1:], 1):
        k, v, guesses = past.k, past.v, draft.path(above[row])
        for j in range(len(path)):
            g = net.encoded(model.embed(run_of(ids, guesses[:j]))[None])
            at = torch.tensor([T + j])
            own = layer.seen(g, at)
            keys, values = (torch.cat(pair, 1) for pair in zip((k, v), own, strict=True))
            f = layer(g, at, keys, values, torch.ones(1, keys.shape[1], dtype=torch.bool))
            if sees_drafts:
                k, v = (torch.cat(pair, 1) for pair in zip((k, v), layer.seen(f, at), strict=True))
        z = model.unembed(net.said(h[None], f, len(path) - 1), normed=True)[0]
        assert draft.tokens[row] == z.topk(10).indices.tolist()[path[-1]]
        assert draft.chances[row] == pytest.approx(float(z.softmax(-1)[draft.tokens[row]]), abs=1e-5)
        different.add((len(path), path[-1], draft.tokens[row]))
    assert len(different) > len({one[:2] for one in different}), "some guesses depend on the path"


@pytest.mark.parametrize("params", [{}, {"window": 1}, {"sees_drafts": False}])
def test_the_record_tells_what_each_window_would_rank_and_where_the_encoder_looked(model, net, params):
    run = decode(model, **params)
    assert "fusing" not in run.steps[0].records
    ids = model.tokenizer.encode_prompt(PROMPTS[0])
    for before, step in itertools.pairwise(run.steps):
        ids = [*ids, *before.commits.tokens]
        record, tree = step.records["fusing"], step.tree
        rows = record["rows"]
        assert rows == sorted({row for row in tree.parents if row >= 0}) and record["window"] == params.get("window", 3)
        for row, child in zip(tree.parents[1:], range(1, len(tree.tokens)), strict=True):
            own = record["readings"][record["window"] - 1]["rankings"][rows.index(row)]
            if tree.ranks[child] < len(own["tokens"]):
                assert own["tokens"][tree.ranks[child]] == tree.tokens[child]
        for window, reading in enumerate(record["readings"], 1):
            drafter = drafter_on(model, net, ids, **{**params, "window": window})
            draft = drafter.grown([(), (0,), (0, 0)], [-1, 0, 1], ids)
            first = reading["rankings"][0]
            assert first["tokens"][0] == draft.tokens[1]
            assert first["chances"][0] == pytest.approx(draft.chances[1], abs=1e-4)
            looks = msgspec.convert(reading["attention"], Packed).array()
            known = (~np.isnan(looks)).sum(1).tolist()
            depths = [len(path_of(tree.parents, row)) for row in rows]
            above = depths if params.get("sees_drafts", True) else [0] * len(rows)
            assert known == [len(ids) - 1 + n + 1 for n in above]
            assert np.nansum(looks, 1) == pytest.approx(1, abs=0.03)
            assert looks[0, : len(ids) - 1] == pytest.approx(drafter.looks.numpy(), abs=0.003)
        kept = [row for row in rows if tree.accepted[row]]
        assert [c is not None for c in record["cosines"]] == [row in kept for row in rows]
        cosines = [c for c in record["cosines"] if c is not None]
        assert sum(cosines) / len(cosines) == pytest.approx(step.facts["cosine_of_foreseen_states"], abs=1e-4)


def path_of(parents, row):
    return [] if row <= 0 else [*path_of(parents, parents[row]), row]


def test_one_vector_for_each_run_of_tokens(model, net):
    ids = model.tokenizer.encode_prompt(PROMPTS[0])
    drafter = drafter_on(model, net, ids)
    a = drafter.encoded([[5, 6, 7], [5, 6, 8], [5, 6, 7]])
    assert torch.equal(a[0], a[2]) and not torch.equal(a[0], a[1]) and len(drafter.known) == 2
    b = drafter.encoded([[5, 6, 7], [9, 6, 7]])
    assert torch.equal(a[0], b[0]) and drafter.hits == 1 and len(drafter.known) == 3


def test_a_window_leaves_out_what_is_older(model, net):
    e = torch.randn(2, 3, 128)
    e[1, 2] = e[0, 2]
    one, three = net.encoded(e, 1), net.encoded(e, 3)
    assert torch.allclose(one[0], one[1], atol=1e-6) and not torch.allclose(three[0], three[1], atol=1e-3)
    each = net.encoded(e, torch.tensor([1, 3]))
    assert torch.allclose(each[0], one[0], atol=1e-5) and torch.allclose(each[1], three[1], atol=1e-5)


def test_a_short_text_repeats_its_first_token():
    assert run_of([4], []) == [4, 4, 4] and run_of([4, 5], []) == [4, 4, 5]
    assert run_of([4, 5, 6, 7], [8]) == [6, 7, 8] and run_of([4], [1, 2, 3]) == [1, 2, 3]


def test_the_encoders_keys_grow_by_what_was_accepted_and_one(model, monkeypatch):
    rows, read = [], Drafter.read
    monkeypatch.setattr(Drafter, "read", lambda self, h: (rows.append(len(h)), read(self, h)))
    trace = decode(model)
    drafting = [(n, s) for n, s in zip(rows, trace.steps, strict=True) if s.facts["drafted"]]
    assert all(n == step.facts["accepted"] + 1 for n, step in drafting[:-1])  # the last is cut behind the end
    for step in trace.steps[1:]:
        lanes = {lane.name: lane for lane in step.scores}
        if "attention" in lanes:
            assert lanes["attention"].start == 0 and lanes["foreseen"].start == step.tree.start
            assert -1 <= step.facts["cosine_of_foreseen_states"] <= 1


def test_training_learns_and_rolls_on_as_decoding_does(model, texts):
    cache, teacher = texts(model), Teacher(model.model.get_output_embeddings().weight)
    training = ChimeraTraining("test", model, cache, teacher, 0)
    before = float(training.loss(training.batch(0.0)).value.detach())
    training.start()
    assert float(training.loss(training.batch(0.0)).value.detach()) < before
    net, read = training.network, [next(training.cache.texts(training.layers, seed=s)) for s in (0, 1)]
    torch.nn.init.normal_(net.layer.O, std=0.1)
    found = training.drafted(packed(read, training.last), [3] * 3, True)
    text, ids = read[0], read[0].tokens.tolist()
    t = int(found[0][2][2])
    path = ids[t + 2 : t + 4]  # as decoding sees it: the text ends with token t + 1, these are guessed
    drafter = drafter_on(model, net, ids[: t + 2])
    drafter.past.crop(0)
    drafter.read(text.hidden[training.last][: t + 1].float())
    for i in range(3):
        paths = [tuple([0] * j) for j in range(i + 2)]
        guesses = iter(path)
        drafter.model.unembed = lambda h, *_, guesses=guesses, **__: _only(next(guesses, 0), len(h), len(training.E))
        drafter.grown(paths, [-1, *range(i + 1)], ids[: t + 2])
        assert torch.allclose(drafter.foreseen[i], found[i][1][2], atol=1e-4)
    a, rows = training.accuracy()
    assert a.shape == (3, 3, 10) and rows == len(decode(model).output_ids) - 1 and float(a.sum()) > 0


def _only(token, rows, V):
    z = torch.zeros(rows, V)
    z[:, token] = 9
    return z
