"""Trainings of what reads words in pictures and of what looks at scenes: their data, and that all networks learn."""

import random

import numpy as np
import pytest
import torch

from engines.tasks.scenes import KINDS, SIDES, SceneLook, alike, caption, drawn, word_for
from engines.tasks.word_images import HEIGHT, LETTERS, LONGEST, WIDTH
from engines.training.core.loop import Until, run, update
from engines.training.pictures import scenes, words


@pytest.mark.parametrize("kind", KINDS)
def test_a_scene_holds_its_word_where_it_says(kind):
    scene = drawn("stop", SceneLook(kind, 3))
    assert scene.pixels.shape == (128, 256, 3) and scene.pixels.dtype == "uint8" and scene.region.shape == (128, 256)
    other = drawn("yyyy", SceneLook(kind, 3))
    changed = (scene.pixels != other.pixels).any(-1)
    assert changed.any() and not changed[~(scene.region | other.region)].any()
    assert scene.caption == other.caption, "the caption does not copy the word"
    plain, noise = drawn("cafe", SceneLook(kind)), np.ones((128, 256, 3))
    assert (drawn("cafe", SceneLook(kind)).pixels == plain.pixels).all()
    for change in ({"chance": 1}, {"rotation": 9}, {"blur": 1}, {"contrast": 0.3}):
        assert (drawn("cafe", SceneLook(kind, **change)).pixels != plain.pixels).any()
    assert (drawn("cafe", SceneLook(kind, noise=0.05), noise).pixels >= plain.pixels).all()


def test_half_of_the_kinds_name_a_typical_word_and_words_sometimes_mislead():
    assert sum(bool(kind.named) for kind in KINDS.values()) == len(KINDS) / 2
    for name, kind in KINDS.items():
        said = set(caption(name, kind.colours[0], SIDES[1]).split())
        assert said & set(kind.words) == set(kind.named)
        assert all(2 <= len(word) <= LONGEST and set(word) <= set(LETTERS) for word in kind.words)
    pick = random.Random(0)
    own = sum(word_for("bus", pick) in KINDS["bus"].words for _ in range(400)) / 400
    assert 0.72 < own < 0.88
    assert sum(a != b for a, b in zip("city", alike("city", pick), strict=True)) == 1


LEARN = (scenes, scenes.Looking, ("mask", "caption")), (words, words.Reading, ("parallel", "one_by_one", "side"))


@pytest.fixture(params=LEARN, ids=["scenes", "words"])
def learner(request, monkeypatch):
    """(module, training, names of its losses), of four pictures in a step."""
    monkeypatch.setattr(request.param[0], "BATCH", 4)
    return request.param


def test_all_learn_from_the_same_batches_again_and_a_folder_is_left(learner, tmp_path, monkeypatch):
    module, made, losses = learner
    training, again = made(1, 14), made(1, 14)
    for a, b in zip(training.batch(0.0), again.batch(0.5), strict=True):
        assert torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b
    assert training.settings != made(0, 14).settings
    first = update(training, 0.0).facts
    training.progress.step = 1
    run(training, Until(14))
    last = update(training, 1.0).facts
    assert all(last[name] < first[name] for name in losses)
    monkeypatch.setattr(module, "marks", lambda network: {})
    folder = module.install(training, tmp_path / "made")
    assert {file.name for file in folder.iterdir()} == {"card.json", "config.json", "model.safetensors"}


def test_held_out_words_are_not_learnt_and_a_look_stays_in_its_ranges():
    learnt, out = words.words()
    assert len(learnt) > 1500 and len(out) > 200 and not set(learnt) & set(out)
    assert all(2 <= len(word) <= LONGEST and set(word) <= set(LETTERS) for word in (*learnt, *out))
    texts, pictures = words.Reading(0, 4).batch(0.0)
    assert pictures.shape == (words.BATCH, HEIGHT, WIDTH) and not set(texts) & set(out)
    assert 0.5 < sum(text in learnt for text in texts) / len(texts) < 1.0
    generator = torch.Generator().manual_seed(0)
    looks = [words.look(generator) for _ in range(200)]
    for name, (low, high) in words.RANGES.items():
        values = [getattr(look, name) for look in looks]
        assert all(low <= value <= high or value == 0.0 for value in values) and len(set(values)) > 50
    assert {look.font for look in looks} == {"sans", "bold", "mono"}
    assert {look.noise == 0 for look in looks} == {True, False}
