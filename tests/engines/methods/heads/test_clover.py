"""Clover: states that belong to their path, the control that knows no guesses, what is recorded, one formula in
training and decoding, and what is refused."""

import itertools
import json
import math
from types import SimpleNamespace

import pytest
import torch

import engines
from engines.methods.heads._rankings import Ranking
from engines.methods.heads._template import likeliest, parents_of
from engines.methods.heads.clover import chosen, grown
from engines.methods.heads.clover.rankings import Control
from engines.models.exits import Past
from engines.models.networks.clover_drafter import augmented, drafter_of
from engines.models.parts import load_part
from engines.training.core.text_cache import Teacher
from engines.training.core.weights import read_weights
from engines.training.heads import clover as module
from engines.training.heads import drafters
from engines.training.heads.clover import CloverTraining
from engines.training.heads.packing import packed
from tests.engines.methods.heads.conftest import PROMPTS

TABLE = [[0.4, 0.3, 0.2], [0.5, 0.3, 0.2], [0.5, 0.4, 0.1]]


@pytest.fixture(scope="module")
def part(model):
    return load_part("clover-drafter", [model.record])


def decode(model, prompt=PROMPTS[0], slug="clover", seed=0, **params):
    return engines.run(slug, model, prompt, params={"max_new_tokens": 16, **params}, seed=seed)


class Speaking:
    """A model whose calls nobody counts."""

    def __init__(self, model):
        self.embed, self._unembed = model.embed, model.unembed

    def unembed(self, h, vocabulary=None, *, normed=False, predicts=None):
        assert len(predicts) == len(h)
        return self._unembed(h, vocabulary, normed=normed)


def state_of(model, drafter, ids):
    """The augmented state that guesses behind a text, read as a whole."""
    n = model.num_layers
    h = model.extend(ids[:-1], model.new_cache(99), hidden=(n,)).hidden[n]
    return augmented(drafter.block, h, Past())[-1]


def test_all_nodes_of_a_depth_at_once_are_each_path_by_itself(model, part):
    """Every node's guesses against a drafter that walks down to it alone: siblings do not read each other's states."""
    drafter, _ = chosen(part, True)
    ids = model.tokenizer.encode_prompt(PROMPTS[0])
    a = state_of(model, drafter, ids)
    paths, above = parents_of(path for path, _ in likeliest(TABLE, 20))
    draft, _, looked = grown(Speaking(model), drafter, None, a, paths, above, ids)
    assert draft.parents == above and len(draft) == 21
    assert sum(looked.values()) == pytest.approx(1, abs=1e-5)
    different = set()
    for row, path in enumerate(paths[1:], 1):
        M = a[None, None]
        for token in [ids[-1], *draft.path(above[row])]:
            M, _ = drafter.onward(M, model.embed([token]))
        z = model.unembed(drafter.said(M[:, -1], len(path) - 1), normed=True)[0]
        assert draft.tokens[row] == z.topk(10).indices.tolist()[path[-1]]
        assert draft.chances[row] == pytest.approx(float(z.softmax(-1)[draft.tokens[row]]), abs=1e-5)
        different.add((len(path), path[-1], draft.tokens[row]))
    assert len(different) > len({one[:2] for one in different}), "some guesses depend on the path"


@pytest.mark.parametrize("link", [True, False])
def test_the_record_tells_what_was_ranked_after_each_row_and_by_the_control(model, part, link):
    run = decode(model, nodes=20, link=link)
    assert "rankings" not in run.steps[0].records
    drafter, _ = chosen(part, link)
    control, ids = drafter_of(part.tensors, False), model.tokenizer.encode_prompt(PROMPTS[0])
    for before, step in itertools.pairwise(run.steps):
        ids = [*ids, *before.commits.tokens]
        record, tree = step.records["rankings"], step.tree
        assert record["linked"] == link and record["rows"] == sorted({row for row in tree.parents if row >= 0})
        a, of_row = state_of(model, drafter, ids), dict(zip(record["rows"], record["ranked"], strict=True))
        for row, child in zip(tree.parents[1:], range(1, len(tree.tokens)), strict=True):
            assert of_row[row]["tokens"][tree.ranks[child]] == tree.tokens[child]
            assert math.log(of_row[row]["chances"][tree.ranks[child]]) == pytest.approx(
                tree.draft_logprobs[child], abs=1e-4
            )
        M, _ = drafter.onward(a[None, None], model.embed(ids[-1:]))
        z = model.unembed(drafter.said(M[:, -1], 0), normed=True)[0]
        assert of_row[0]["tokens"] == z.topk(10).indices.tolist()
        control_ranks = record.get("control", [])
        assert len(control_ranks) == (step.facts["depth"] if link else 0)
        for i, ranking in enumerate(control_ranks):
            z = model.unembed(control.said(state_of(model, control, ids)[None], i), normed=True)[0].softmax(-1)
            assert ranking["tokens"] == z.topk(10).indices.tolist()
            assert ranking["chances"] == pytest.approx(z.topk(10).values.tolist(), abs=2e-5)


def test_the_control_beside_a_run_follows_what_a_person_changes(model, part):
    plain = SimpleNamespace(record=model.record, unembed=lambda x, *_, **__: model.unembed(x, normed=True))
    control, h = Control(plain, drafter_of(part.tensors, False), None, SimpleNamespace(link=True)), torch.randn(9, 128)
    control.accept(h, 9)
    first = control.beside({0: Ranking([1], [1.0])}, 2, 9, True).control
    control.accept(torch.randn(4, 128), 6)  # a person went back to position 6
    assert control.beside({}, 0, 9, True) is None
    control.accept(h[6:], 9)
    again = control.beside({0: Ranking([1], [1.0])}, 2, 9, True).control
    assert [one.tokens for one in first] == [one.tokens for one in again]


def test_without_the_link_a_rank_has_one_token_at_each_depth(model, part):
    drafter, _ = chosen(part, False)
    ids = model.tokenizer.encode_prompt(PROMPTS[0])
    paths, above = parents_of(path for path, _ in likeliest(TABLE, 20))
    a = state_of(model, drafter, ids)
    draft, _, looked = grown(Speaking(model), drafter, None, a, paths, above, ids)
    found = {(len(path), path[-1], token) for path, token in zip(paths, draft.tokens, strict=True) if path}
    assert len(found) == len({one[:2] for one in found}) and looked == {}


def test_the_block_reads_what_was_accepted_as_it_reads_the_whole_text(model, part):
    drafter, n = drafter_of(part.tensors), model.num_layers
    ids = model.tokenizer.encode_prompt(PROMPTS[0])
    h = model.extend(ids, model.new_cache(99), hidden=(n,)).hidden[n]
    whole, past = augmented(drafter.block, h, Past()), Past()
    augmented(drafter.block, h[:4], past)
    augmented(drafter.block, torch.randn(3, h.shape[1]), past)
    past.crop(4)
    assert torch.allclose(augmented(drafter.block, h[4:], past), whole[4:], atol=1e-4)
    for step in decode(model).steps:
        assert step.facts["rows_of_the_block"] >= 1
    rows = sum(step.facts["rows_of_the_block"] for step in decode(model).steps)
    assert rows == len(ids) + len(decode(model).output_ids) - 1  # each row of the text once, but the last


def test_training_learns_and_goes_on_as_decoding_does(model, texts):
    cache, teacher = texts(model), Teacher(model.model.get_output_embeddings().weight)
    training = CloverTraining("test", model, cache, teacher, 0)
    before = float(training.loss(training.batch(0.0)).value.detach())
    training.start()
    assert float(training.loss(training.batch(0.0)).value.detach()) < before
    net, read = training.network["clover"], [next(training.cache.texts(training.layers, seed=s)) for s in (0, 1)]
    torch.nn.init.normal_(net.O, std=0.1)
    for i, (x, rows) in enumerate(training.drafted(net, packed(read, training.last))):
        text, t = read[0], int(rows[2])  # one row by hand, from a read of its own text
        M = augmented(net.block, text.hidden[training.last][: t + 1].float(), Past())[-1][None, None]
        for j in range(i + 1):
            M, _ = net.onward(M, training.E[text.tokens[t + 1 + j]][None])
        assert t == text.prompt + 1 and torch.allclose(net.said(M[:, -1], i)[0], x[2], atol=1e-4)
    a, rows = training.accuracy()
    assert a.shape == (3, 10) and rows == len(decode(model).output_ids) - 1 and float(a[0].sum()) > 0


def test_the_control_does_not_ship_where_both_are_too_large(model, texts, tmp_path, monkeypatch):
    cache, out = texts(model, prompts=PROMPTS * 3), tmp_path / "tiny-ar-m-clover-drafter"
    monkeypatch.setattr(module, "LARGEST", 1000)
    given = {"epochs": 1, "minutes": 1.0, "seed": 0, "resume": False, "command": "here"}
    drafters.train(CloverTraining, lambda *_: {}, model, cache, out, usual=out, **given)
    tensors, card = read_weights(out), json.loads((out / "card.json").read_text())
    assert drafter_of(tensors, link=False) is None and not any(name.startswith("control.") for name in tensors)
    own = sum(one.numel() for one in drafter_of(tensors).parameters())
    assert card["parameters"] == card["parameters_of_the_drafter"] == own
    assert len(card["held_out"]["rank_1_of_the_control"]) == 3  # measured all the same
    with pytest.raises(engines.UserError, match=r"link was switched off .* has no heads that were trained without it"):
        chosen(SimpleNamespace(tensors=tensors, name="x"), False)
