"""Hydra: the greedy text whatever the heads say, guesses that depend on the path above them, plain sampling's text
above temperature 0, one formula in training and decoding, and bad input."""

import json
import shutil
from pathlib import Path

import pytest
import torch

import engines
from engines.methods.heads._template import likeliest, parents_of
from engines.methods.heads.hydra import Trained, grown
from engines.models import parts
from engines.models.networks.hydra_heads import HydraHeads, heads_of
from engines.models.parts import load_part
from engines.training.core.text_cache import Answer, Teacher, TextCache, fill
from engines.training.heads.hydra import HydraTraining

ROOT = Path(__file__).resolve().parents[4]
PROMPTS = ("add: 457 + 86", "reverse: Tom", "copy: Ada, Ada, Ada, Ada")


@pytest.fixture(scope="module")
def model():
    return engines.load_model("tiny-ar-m", dtype="float32")


def decode(model, prompt=PROMPTS[0], slug="hydra", seed=0, **params):
    return engines.run(slug, model, prompt, params={"max_new_tokens": 16, **params}, seed=seed)


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize("params", [{}, {"K": 1}, {"nodes": 40}, {"nodes": 1}])
def test_the_text_is_the_greedy_one_in_fewer_calls(model, prompt, params):
    ours, plain = decode(model, prompt, **params), decode(model, prompt, "greedy")
    assert ours.output_ids == plain.output_ids
    assert ours.totals.forwards_by_role["target"] <= plain.totals.forwards_by_role["target"]
    assert [step.forwards["target"] for step in ours.steps] == [1] * len(ours.steps)


def test_heads_that_know_nothing_only_slow_it_down(model, monkeypatch):
    plain, rng = decode(model, slug="greedy").output_ids, torch.Generator().manual_seed(0)
    monkeypatch.setattr(HydraHeads, "forward", lambda self, h, e: torch.randn(h.shape, generator=rng) * 9)
    ours = decode(model)
    assert ours.output_ids == plain and ours.steps[1].facts["drafted"] == 12


@pytest.mark.parametrize("seed", range(2))
def test_above_temperature_0_it_draws_as_plain_sampling_does(model, seed):
    """Candidates are chosen without chance and one draw of the model decides each token, so the same random numbers
    give the text that no candidates give."""
    ours, plain = (decode(model, seed=seed, temperature=1.3, nodes=n) for n in (12, 0))
    assert ours.output_ids == plain.output_ids and len(plain.steps) == len(plain.output_ids) > len(ours.steps)


def test_every_node_has_the_guesses_of_its_own_path(model):
    """Each child of the tree against the head, asked by hand about the tokens down to its parent."""
    heads, n = heads_of(load_part("hydra-heads", [model.record])), model.num_layers
    ids = model.tokenizer.encode_prompt(PROMPTS[0])
    h = model.extend(ids[:-1], model.new_cache(64), hidden=(n,)).hidden[n][-1]
    a = [[0.4, 0.3, 0.2], [0.5, 0.3, 0.2], [0.5, 0.4, 0.1]]
    paths, above = parents_of(path for path, _ in likeliest(a, 20))
    speaking = Trained(Speaking(model), load_part("hydra-heads", [model.record]))
    draft = grown(speaking, h, paths, above, ids)
    assert draft.parents == above and len(draft) == 21
    different = set()
    for row, path in enumerate(paths[1:], 1):
        line = [ids[-1], *draft.path(above[row])]
        z = model.unembed(heads(h[None], model.embed(line)[None]), normed=True)[0]
        order = z.topk(10).indices.tolist()
        assert draft.tokens[row] == order[path[-1]]
        assert draft.chances[row] == pytest.approx(float(z.softmax(-1)[draft.tokens[row]]), abs=1e-5)
        different.add((len(path), path[-1], draft.tokens[row]))
    assert len(different) > len({one[:2] for one in different}), "some guesses depend on the path"


class Speaking:
    """A model whose calls nobody counts."""

    def __init__(self, model):
        self.embed, self._unembed, self.record = model.embed, model.unembed, model.record

    def playing(self, role):
        return self

    def unembed(self, h, vocabulary=None, *, normed=False, predicts=None):
        assert len(predicts) == len(h)
        return self._unembed(h, vocabulary, normed=normed)


@pytest.mark.parametrize("length", [1, 2, 3, 5])
def test_a_tree_larger_than_the_room_left_is_cut(model, length):
    ours, plain = (decode(model, slug=s, max_new_tokens=length) for s in ("hydra", "greedy"))
    assert ours.output_ids == plain.output_ids and len(ours.output_ids) <= length
    for step in ours.steps:
        assert step.tree.start + step.facts["heads"] < len(model.tokenizer.encode_prompt(PROMPTS[0])) + length


def test_training_learns_and_reads_the_tokens_behind_the_state(model, tmp_path):
    said = decode(model).output_ids
    answers = [
        Answer(list(model.tokenizer.encode_prompt(text)), list(said), i == 0, {"prompt": ""})
        for i, text in enumerate(PROMPTS * 2)
    ]
    fill(tmp_path, model, (model.num_layers,), [answers], lambda: False)
    teacher = Teacher(model.model.get_output_embeddings().weight)
    training = HydraTraining("test", model, TextCache(tmp_path), teacher, 0)
    before = float(training.loss(training.batch(0.0)).value.detach())
    training.start()
    assert float(training.loss(training.batch(0.0)).value.detach()) < before
    text = next(training.cache.texts(training.layers))
    at, h, e = training._inputs(text, 1)
    assert torch.equal(e[0], training.E[text.tokens[text.prompt : text.prompt + 2]])
    assert int(at[0]) == text.prompt - 1 and torch.equal(h[0], text.hidden[training.last][text.prompt - 1].float())
    a, rows = training.accuracy()
    assert a.shape == (3, 10) and rows == len(said) - 1 and float(a[0].sum()) > 0


def test_the_first_note_tells_how_many_numbers_were_trained(model):
    card = json.loads((ROOT / "assets" / "parts" / "tiny-ar-m-hydra-heads" / "card.json").read_text())
    assert f"{card['parameters']:,} trained parameters" in decode(model).steps[0].note
    assert card["parameters"] == 2 * (2 + 3 + 4) * 128 * 128 + 3 * 128  # R and W of three heads, and b


def test_bad_input_is_one_sentence(model, tmp_path, monkeypatch):
    with pytest.raises(engines.UserError, match="nodes"):
        decode(model, nodes=64)
    with pytest.raises(engines.UserError, match=r"training hydra-heads tiny-ar-s"):
        decode("tiny-ar-s")
    (tmp_path / "parts").mkdir()
    shutil.copytree(ROOT / "assets" / "parts" / "tiny-ar-l-hydra-heads", tmp_path / "parts" / "tiny-ar-m-hydra-heads")
    monkeypatch.setattr(parts, "assets", lambda: tmp_path)
    with pytest.raises(engines.UserError, match=r"trained for other weights.*training hydra-heads tiny-ar-m"):
        decode(model)
