"""Shared by the tests of drafting heads: runs, the models that have them, and trainings on a few texts."""

from typing import Any

import pytest

import engines
from engines.methods.heads._template import likeliest, parents_of
from engines.training.core.text_cache import Answer, Teacher, TextCache, fill

PROMPTS = ("add: 457 + 86", "reverse: Tom", "copy: Ada, Ada, Ada, Ada")


def decoder(method: str, prompt: Any = PROMPTS[0], length: int = 16):
    """Runs of a method, or of another one beside it."""

    def decode(model, prompt=prompt, slug=method, seed=0, edits=(), **params):
        params = {"max_new_tokens": length, **params}
        return engines.run(slug, model, prompt, params=params, seed=seed, edits=edits)

    return decode


# a tree of twenty nodes, and the rows above them
PATHS, ABOVE = parents_of(path for path, _ in likeliest([[0.4, 0.3, 0.2], [0.5, 0.3, 0.2], [0.5, 0.4, 0.1]], 20))


def check_nodes(draft, logits):
    """Every node guesses behind its own path; logits(above): of a drafter that walks down there alone."""
    different = set()
    for row, path in enumerate(PATHS[1:], 1):
        z = logits(draft.path(ABOVE[row]))
        assert draft.parents == ABOVE and draft.tokens[row] == z.topk(10).indices.tolist()[path[-1]]
        assert draft.chances[row] == pytest.approx(float(z.softmax(-1)[draft.tokens[row]]), abs=1e-5)
        different.add((len(path), path[-1], draft.tokens[row]))
    assert len(different) > len({one[:2] for one in different}), "some guesses depend on the path"


class Uncounted:
    """A model whose calls nobody counts, though its head is told what it predicts."""

    def __init__(self, model):
        self._model = model

    def __getattr__(self, name):
        return getattr(self._model, name)

    def playing(self, role):
        return self

    def unembed(self, h, vocabulary=None, *, normed=False, predicts=None):
        assert len(predicts) == len(h)
        return self._model.unembed(h, vocabulary, normed=normed)


@pytest.fixture(scope="session")
def model(ar):
    return ar


@pytest.fixture(scope="session")
def large():
    return engines.load_model("tiny-ar-l", dtype="float32")


@pytest.fixture
def texts(tmp_path):
    """Answers of a model to some prompts, the first of them held out, with its states at some layers."""

    def cached(model: Any, layers: tuple[int, ...] = (), prompts: tuple[str, ...] = PROMPTS * 2, cut: int = 16):
        said = engines.run("greedy", model, prompts[0], params={"max_new_tokens": 16}).output_ids[:cut]
        answers = [
            Answer(list(model.tokenizer.encode_prompt(text)), list(said), i == 0 and len(prompts) > 1, {"prompt": ""})
            for i, text in enumerate(prompts)
        ]
        fill(tmp_path / "cache", model, (*layers, model.num_layers), [answers], lambda: False)
        return TextCache(tmp_path / "cache")

    return cached


@pytest.fixture
def training(texts):
    """A training that has not begun; vocabulary: the ids that its part can draft."""

    def begun(of, model, layers=(), prompts=PROMPTS * 2, vocabulary=None, **options):
        teacher = Teacher(model.model.get_output_embeddings().weight, vocabulary)
        return of("test", model, texts(model, layers, prompts, **options), teacher, 0)

    return begun
