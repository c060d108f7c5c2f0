"""Training of what looks at scenes: its data, that both networks learn, and the scenes themselves."""

import random

import numpy as np
import pytest
import torch

from engines.tasks.scenes import KINDS, SIDES, SceneLook, alike, caption, drawn, word_for
from engines.tasks.word_images import LETTERS, LONGEST
from engines.training.core.loop import Until, run, update
from engines.training.pictures import scenes


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


def test_a_batch_is_that_of_its_step(monkeypatch):
    monkeypatch.setattr(scenes, "BATCH", 3)
    training = scenes.Looking(0, 4)
    training.progress.step = 2
    for a, b in zip(training.batch(0.0), training.batch(0.5), strict=True):
        assert torch.equal(a, b)
    pictures, regions, labels = training.batch(0.0)
    assert pictures.shape == (3, 128, 256, 3) and regions.shape == (3, 32, 64) and labels.shape == (3, 17)


def test_both_learn_and_a_folder_is_left(tmp_path, monkeypatch):
    monkeypatch.setattr(scenes, "BATCH", 4)
    training = scenes.Looking(1, 14)
    first = update(training, 0.0).facts
    training.progress.step = 1
    run(training, Until(14))
    last = update(training, 1.0).facts
    assert all(last[name] < first[name] for name in ("mask", "caption"))
    monkeypatch.setattr(scenes, "marks", lambda network: {})
    folder = scenes.install(training, tmp_path / "made")
    assert {file.name for file in folder.iterdir()} == {"card.json", "config.json", "model.safetensors"}
    assert scenes.Looking(0, 5).command.endswith("tiny-scenes --steps 5")
