"""Clover: states that belong to their path, the control, what is recorded, one formula in training and decoding."""

import itertools
import json
import math
from types import SimpleNamespace

import pytest
import torch

import engines
from engines.methods.heads.clover import drafter_for, regressive_tree
from engines.models.networks.clover_drafter import augmented, drafter_of
from engines.models.networks.exits import Past
from engines.models.parts import load_part
from engines.training.core.weights import read_weights
from engines.training.heads import clover as module
from engines.training.heads import drafters
from engines.training.heads.clover import CloverTraining
from engines.training.heads.packing import packed
from tests.engines.methods.heads.conftest import ABOVE, PATHS, PROMPTS, Uncounted, check_nodes, decoder

decode = decoder("clover")


@pytest.fixture(scope="module")
def part(model):
    return load_part("clover-drafter", [model.record])


@pytest.fixture(scope="module")
def ids(model):
    return model.tokenizer.encode_prompt(PROMPTS[0])


def last_states(model, ids):
    n = model.num_layers
    return model.extend(ids, model.new_cache(99), hidden=(n,)).hidden[n]


def state_of(model, drafter, ids):
    """The augmented state that guesses behind a text, read as a whole."""
    return augmented(drafter.block, last_states(model, ids[:-1]), Past())[-1]


def test_all_nodes_of_a_depth_at_once_are_each_path_by_itself(model, part, ids):
    """Every node's guesses against a drafter that walks down to it alone: siblings do not read each other's states."""
    drafter, _ = drafter_for(part, True)
    a = state_of(model, drafter, ids)
    draft, _, looked = regressive_tree(Uncounted(model), drafter, None, a, PATHS, ABOVE, ids)
    assert sum(looked.values()) == pytest.approx(1, abs=1e-5)

    def said(above):
        M = a[None, None]
        for token in [ids[-1], *above]:
            M, _ = drafter.onward(M, model.embed([token]))
        return model.unembed(drafter.predicted(M[:, -1], len(above)), normed=True)[0]

    check_nodes(draft, said)
    control, _ = drafter_for(part, False)  # without the link a rank has one token at each depth
    draft, _, looked = regressive_tree(
        Uncounted(model), control, None, state_of(model, control, ids), PATHS, ABOVE, ids
    )
    found = {(len(path), path[-1], token) for path, token in zip(PATHS, draft.tokens, strict=True) if path}
    assert len(found) == len({one[:2] for one in found}) and looked == {}


@pytest.mark.parametrize("link", [True, False])
def test_the_record_tells_what_was_ranked_after_each_row_and_by_the_control(model, part, ids, link):
    run = decode(model, nodes=20, link=link)
    own = sum(one.numel() for one in drafter_of(part.tensors, link).parameters())
    assert "rankings" not in run.steps[0].records and f"{own:,} trained parameters" in run.steps[0].note
    (drafter, _), control = drafter_for(part, link), drafter_of(part.tensors, False)
    for before, step in itertools.pairwise(run.steps):
        ids = [*ids, *before.commits.tokens]
        record, tree = step.records["rankings"], step.tree
        assert record["linked"] == link and record["rows"] == sorted({row for row in tree.parents if row >= 0})
        of_row = dict(zip(record["rows"], record["ranked"], strict=True))
        for child, row in enumerate(tree.parents[1:], 1):
            told, rank = of_row[row], tree.ranks[child]
            assert told["tokens"][rank] == tree.tokens[child]
            assert math.log(told["chances"][rank]) == pytest.approx(tree.draft_logprobs[child], abs=1e-4)
        M, _ = drafter.onward(state_of(model, drafter, ids)[None, None], model.embed(ids[-1:]))
        z = model.unembed(drafter.predicted(M[:, -1], 0), normed=True)[0]
        assert of_row[0]["tokens"] == z.topk(10).indices.tolist()
        ranked = record.get("control", [])
        assert len(ranked) == (step.facts["depth"] if link else 0)
        for i, ranking in enumerate(ranked):
            z = model.unembed(control.predicted(state_of(model, control, ids)[None], i), normed=True)[0].softmax(-1)
            assert ranking["tokens"] == z.topk(10).indices.tolist()
            assert ranking["chances"] == pytest.approx(z.topk(10).values.tolist(), abs=2e-5)


def test_the_block_reads_what_was_accepted_as_it_reads_the_whole_text(model, part, ids):
    block, h, past = drafter_of(part.tensors).block, last_states(model, ids), Past()
    augmented(block, h[:4], past)
    augmented(block, torch.randn(3, h.shape[1]), past)
    past.crop(4)
    assert torch.allclose(augmented(block, h[4:], past), augmented(block, h, Past())[4:], atol=1e-4)
    run = decode(model)
    rows = [step.facts["rows_of_the_block"] for step in run.steps]
    assert min(rows) >= 1 and sum(rows) == len(ids) + len(run.output_ids) - 1  # each row of the text once, but the last


def test_training_goes_on_as_decoding_does(model, training):
    training = training(CloverTraining, model)
    training.start()
    net, read = training.network["clover"], [next(training.cache.texts(training.layers, seed=s)) for s in (0, 1)]
    torch.nn.init.normal_(net.O, std=0.1)
    for i, (x, rows) in enumerate(training.drafted(net, packed(read, training.last))):
        text, t = read[0], int(rows[2])  # one row by hand, from a read of its own text
        M = augmented(net.block, text.hidden[training.last][: t + 1].float(), Past())[-1][None, None]
        for j in range(i + 1):
            M, _ = net.onward(M, training.E[text.tokens[t + 1 + j]][None])
        assert t == text.prompt + 1 and torch.allclose(net.predicted(M[:, -1], i)[0], x[2], atol=1e-4)


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
        drafter_for(SimpleNamespace(tensors=tensors, name="x"), False)
