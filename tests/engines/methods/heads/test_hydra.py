"""Hydra: guesses that depend on the path above them, and one formula in training and decoding."""

import pytest
import torch

import engines
from engines.methods.heads._template import likeliest, parents_of
from engines.methods.heads.hydra import Trained, grown
from engines.models.networks.hydra_heads import heads_of
from engines.models.parts import load_part
from engines.training.core.text_cache import Teacher
from engines.training.heads.hydra import HydraTraining
from tests.engines.methods.heads.conftest import PROMPTS


def decode(model, prompt=PROMPTS[0], slug="hydra", seed=0, **params):
    return engines.run(slug, model, prompt, params={"max_new_tokens": 16, **params}, seed=seed)


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


def test_training_learns_and_reads_the_tokens_behind_the_state(model, texts):
    teacher = Teacher(model.model.get_output_embeddings().weight)
    training = HydraTraining("test", model, texts(model), teacher, 0)
    before = float(training.loss(training.batch(0.0)).value.detach())
    training.start()
    assert float(training.loss(training.batch(0.0)).value.detach()) < before
    text = next(training.cache.texts(training.layers))
    at, h, e = training._inputs(text, 1)
    assert torch.equal(e[0], training.E[text.tokens[text.prompt : text.prompt + 2]])
    assert int(at[0]) == text.prompt - 1 and torch.equal(h[0], text.hidden[training.last][text.prompt - 1].float())
    a, rows = training.accuracy()
    assert a.shape == (3, 10) and rows == len(decode(model).output_ids) - 1 and float(a[0].sum()) > 0
