"""Chimera: rows that see what they should, what is recorded, one formula in training and decoding."""

import itertools
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest
import torch

from engines.core.trace import Packed
from engines.core.trees import row_depths
from engines.methods.heads.chimera.drafter import Drafter, run_of
from engines.models.networks.chimera_drafter import drafter_of
from engines.models.parts import load_part
from engines.training.heads.chimera import ChimeraTraining
from engines.training.heads.packing import packed
from tests.engines.methods.heads.conftest import ABOVE, PATHS, PROMPTS, Uncounted, check_nodes, decoder

decode = decoder("chimera")


@pytest.fixture(scope="module")
def net(model):
    return drafter_of(load_part("chimera-drafter", [model.record]))


@pytest.fixture(scope="module")
def ids(model):
    return model.tokenizer.encode_prompt(PROMPTS[0])


def drafter_on(model, net, ids, **switches):
    """A drafter that has read a text but its last token."""
    p, n = SimpleNamespace(**{"window": 3, "sees_drafts": True, **switches}), model.num_layers
    drafter = Drafter(Uncounted(model), net, None, p)
    drafter.read(model.extend(ids[:-1], model.new_cache(99), hidden=(n,)).hidden[n])
    return drafter


@pytest.mark.parametrize("sees_drafts", [True, False])
def test_a_row_sees_true_states_its_path_and_itself(model, net, ids, sees_drafts):
    """Every node of a tree against a chain that walks down to it alone."""
    drafter = drafter_on(model, net, ids, sees_drafts=sees_drafts)
    draft, T = drafter.grown(PATHS, ABOVE, ids), len(ids) - 1
    past, h, layer = drafter.past, drafter.h, net.layer

    def said(above):
        k, v = past.k, past.v
        for j in range(len(above) + 1):
            g, at = net.encoded(model.embed(run_of(ids, above[:j]))[None]), torch.tensor([T + j])
            keys, values = (torch.cat(pair, 1) for pair in zip((k, v), layer.seen(g, at), strict=True))
            f = layer(g, at, keys, values, torch.ones(1, keys.shape[1], dtype=torch.bool))
            if sees_drafts:
                k, v = (torch.cat(pair, 1) for pair in zip((k, v), layer.seen(f, at), strict=True))
        return model.unembed(net.predicted(h[None], f, len(above)), normed=True)[0]

    check_nodes(draft, said)


@pytest.mark.parametrize("params", [{}, {"window": 1}, {"sees_drafts": False}])
def test_the_record_tells_what_each_window_would_rank_and_where_the_encoder_looked(model, net, ids, params):
    run = decode(model, **params)
    assert "fusing" not in run.steps[0].records
    for before, step in itertools.pairwise(run.steps):
        ids = [*ids, *before.commits.tokens]
        record, tree = step.records["fusing"], step.tree
        rows, depths = record["rows"], row_depths(tree.parents)
        assert rows == sorted({row for row in tree.parents if row >= 0}) and record["window"] == params.get("window", 3)
        for child, row in enumerate(tree.parents[1:], 1):
            own = record["readings"][record["window"] - 1]["rankings"][rows.index(row)]["tokens"]
            assert tree.ranks[child] >= len(own) or own[tree.ranks[child]] == tree.tokens[child]
        for window, reading in enumerate(record["readings"], 1):
            drafter = drafter_on(model, net, ids, **{**params, "window": window})
            draft = drafter.grown([(), (0,), (0, 0)], [-1, 0, 1], ids)
            first = reading["rankings"][0]
            assert first["tokens"][0] == draft.tokens[1]
            assert first["chances"][0] == pytest.approx(draft.chances[1], abs=1e-4)
            looks = msgspec.convert(reading["attention"], Packed).array()
            above = [depths[row] if params.get("sees_drafts", True) else 0 for row in rows]
            assert (~np.isnan(looks)).sum(1).tolist() == [len(ids) + n for n in above]
            assert np.nansum(looks, 1) == pytest.approx(1, abs=0.03)
            assert looks[0, : len(ids) - 1] == pytest.approx(drafter.looks.numpy(), abs=0.003)
        assert [c is not None for c in record["cosines"]] == [bool(tree.accepted[row]) for row in rows]
        cosines = [c for c in record["cosines"] if c is not None]
        assert sum(cosines) / len(cosines) == pytest.approx(step.facts["cosine_of_foreseen_states"], abs=1e-4)


def test_one_vector_for_each_run_of_tokens(model, net, ids):
    drafter = drafter_on(model, net, ids)
    a = drafter.encoded([[5, 6, 7], [5, 6, 8], [5, 6, 7]])
    assert torch.equal(a[0], a[2]) and not torch.equal(a[0], a[1]) and len(drafter.known) == 2
    b = drafter.encoded([[5, 6, 7], [9, 6, 7]])
    assert torch.equal(a[0], b[0]) and drafter.hits == 1 and len(drafter.known) == 3
    assert run_of([4], []) == [4, 4, 4] and run_of([4, 5], []) == [4, 4, 5]  # a short text repeats its first token
    assert run_of([4, 5, 6, 7], [8]) == [6, 7, 8] and run_of([4], [1, 2, 3]) == [1, 2, 3]


def test_a_window_leaves_out_what_is_older(net):
    e = torch.randn(2, 3, 128)
    e[1, 2] = e[0, 2]
    one, three = net.encoded(e, 1), net.encoded(e, 3)
    assert torch.allclose(one[0], one[1], atol=1e-6) and not torch.allclose(three[0], three[1], atol=1e-3)
    each = net.encoded(e, torch.tensor([1, 3]))
    assert torch.allclose(each[0], one[0], atol=1e-5) and torch.allclose(each[1], three[1], atol=1e-5)


def test_the_encoders_keys_grow_by_what_was_accepted_and_one(model, monkeypatch):
    rows, read = [], Drafter.read
    monkeypatch.setattr(Drafter, "read", lambda self, h: (rows.append(len(h)), read(self, h)))
    drafting = [(n, s) for n, s in zip(rows, decode(model).steps, strict=True) if s.facts["drafted"]]
    assert all(n == step.facts["accepted"] + 1 for n, step in drafting[:-1])  # the last is cut behind the end


def test_training_rolls_on_as_decoding_does(model, training):
    training = training(ChimeraTraining, model)
    training.start()
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
        guesses, one_hot = iter(path), 9 * torch.eye(len(training.E))
        drafter.model.unembed = lambda h, *_, g=guesses, e=one_hot, **__: e[next(g, 0)].expand(len(h), -1)
        drafter.grown([(0,) * j for j in range(i + 2)], [-1, *range(i + 1)], ids[: t + 2])
        assert torch.allclose(drafter.foreseen[i], found[i][1][2], atol=1e-4)
