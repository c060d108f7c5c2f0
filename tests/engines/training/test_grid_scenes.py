"""Scenes and the model that sees them: what is drawn, what is said of it, how a prompt becomes a picture, and the
trainings."""

import json
import random
from itertools import islice

import numpy as np
import pytest
import torch

import engines
from engines.core.errors import UserError
from engines.models.networks.scene_text import PATCH, SCENE
from engines.models.tokenizers.scene_words import WORDS, SceneTokenizer
from engines.tasks import example_of, picture_asked
from engines.tasks.base import split_of
from engines.tasks.grid_scenes import (
    CELL,
    COLOURS,
    caption,
    described,
    drawn,
    form,
    held_out,
    named,
    right,
    scene_of,
    scenes,
    shuffled,
)
from engines.training.core.loop import Until, run, update
from engines.training.heads import vision_drafts
from engines.training.heads.vision_drafts import DraftsTraining, foreseen, pictured
from engines.training.pictures.grid_scenes import (
    Captions,
    answer_of,
    batch_of,
    build,
    last_patches,
    pixels_of,
    said,
    seen,
)
from explorer import ASSETS

SAID = "small red circle top left, large blue square middle right"


@pytest.fixture(scope="module")
def model():
    return engines.load_model("tiny-vlm", dtype="float32")


def test_a_description_is_read_as_it_is_written_and_held_out_scenes_are_no_training_scenes():
    for scene in islice(scenes("train"), 50):
        assert scene_of(described(scene)) == scene and 2 <= len({thing.cell for thing in scene}) == len(scene) <= 3
        assert right(scene, caption(scene)) == right(scene, form(scene)) == len(scene)
        words = shuffled(scene, random.Random(1)).replace(" ,", "").split()
        assert sorted(words) == sorted(described(scene).replace(",", "").split())
    for wrong in ("", "small red circle top left", f"{SAID}, tiny red circle top right", SAID + ", " + SAID, "scene 3"):
        assert scene_of(wrong) is None
    assert held_out(3) == held_out(3) != held_out(4) and len(held_out(3)) == 3
    assert all(split_of(f"scene: {described(held_out(i))}") == "held-out" for i in range(1, 20))


def test_a_picture_shows_what_is_described():
    scene = scene_of(SAID)
    image = drawn(scene).astype(int)
    assert image.shape == (24, 24, 3)
    assert np.array_equal(image, drawn(scene))
    assert not np.array_equal(image, drawn(scene, "a"))
    for thing in scene:
        row, column = thing.cell
        cell = image[CELL * row : CELL * row + CELL, CELL * column : CELL * column + CELL]
        near = np.abs(cell - np.array(COLOURS[thing.colour])).max(-1) <= 31
        assert near.sum() >= (16 if thing.size == "small" else 37) and (near.sum() > 30) == (thing.size == "large")
    empty = image[16:24, 16:24]
    assert np.abs(empty - 228).max() <= 31 and empty.std() > 5


def test_prompts_become_pictures_and_others_are_refused(model):
    encode = model.tokenizer.encode_prompt
    ids = encode(SAID)
    assert len(ids) == 38 and ids[0] == SCENE and ids[11:37] == [PATCH] * 26 and WORDS[ids[37]] == "describe"
    image = model.pictured(ids)
    assert (image.first, image.last, image.grid) == (1, 37, (6, 6))
    assert np.array_equal(image.pixels.numpy(), drawn(scene_of(SAID)))
    assert encode("scene 12") == encode(described(held_out(12)))
    assert WORDS[encode("form: scene 12")[-1]] == "form"
    assert model.pictured(encode("words: red circle, small")) is None
    for wrong in ("", "scene 0", "scene 1000", "tell: scene 3", "words: elephant"):
        with pytest.raises(UserError):
            encode(wrong)
    text = model.tokenizer.decode(model.tokenizer.encode(caption(held_out(5))))
    assert text.startswith("there is a") and named(text) == set(held_out(5))
    assert picture_asked(SAID) == picture_asked(example_of("scene")) == "scene" and picture_asked("scene 0") == ""
    assert SceneTokenizer(36).vocabulary() == dict(enumerate(WORDS)) and len(WORDS) == build().config.vocab_size


def test_the_network_sees_pixels_and_not_the_description(model):
    """The rows of a picture are what the projector makes of its pixels, whatever the words before; ids that
    describe no whole scene are words."""
    embedding, ids = model.model.model.embed_tokens, model.tokenizer.encode_prompt(SAID)
    rows = model.embed(ids)
    assert torch.equal(rows[1:37], embedding.patches(torch.from_numpy(drawn(scene_of(SAID)))[None])[0])
    other = embedding.patches(torch.from_numpy(drawn(scene_of(SAID), "other grain"))[None])[0]
    assert not torch.allclose(rows[1:37], other, atol=1e-3)
    for plain in ([SCENE, *[PATCH] * 36], [SCENE], ids[:20]):
        assert torch.equal(model.embed(plain), embedding.weight[plain])


def test_what_ships_says_what_it_sees_as_its_card_tells(model):
    told = json.loads((ASSETS / "models" / "tiny-vlm" / "card.json").read_text("utf-8"))["held_out"]["describe"]
    some = list(islice(scenes("held-out", seed=3), 24))
    answers = said(model.model, pixels_of(some, [""] * 24), "describe")
    share = sum(map(right, some, answers)) / sum(map(len, some))
    assert abs(share - told["objects_right"]) < 0.1
    blank = said(model.model, torch.full((24, 24, 24, 3), 228, dtype=torch.uint8), "describe")
    assert sum(map(right, some, blank)) / sum(map(len, some)) < 0.15, "it looks"


def test_a_training_sees_the_same_batches_again_and_learns():
    one, two = batch_of(1, 5, 4), batch_of(1, 5, 4)
    assert torch.equal(one.pixels, two.pixels) and torch.equal(one.ids, two.ids)
    assert batch_of(1, 7, 4).pixels is None and not torch.equal(one.pixels, batch_of(1, 6, 4).pixels)
    assert {answer_of(held_out(3), "answer", random.Random(i))[:4] for i in range(20)} == {"ther", "size"}
    scene = next(islice(scenes("train", seed=random.Random("tiny-vlm/1/5").getrandbits(40)), 1))
    assert int((one.cells[0].sum(-1) > 0).sum()) == len(scene), "the side task asks what stands there"
    assert last_patches(6) == [7, 9, 11, 19, 21, 23, 31, 33, 35]
    training = Captions(0, 20)
    before = float(training.loss(one).value.detach())
    run(training, Until(12))
    assert float(training.loss(one).value.detach()) < before - 0.3


def test_drafts_train_on_equal_batches_from_equal_starts_and_learn_from_what_their_diet_says():
    assert not any(pictured(*one) for one in (("text", 0.9, 0.0), ("growing", 0.49, 0.0), ("growing", 0.6, 0.3)))
    assert pictured("growing", 0.9, 0.79) and pictured("half", 0.1, 0.49)
    target = build().eval().requires_grad_(False)
    training = DraftsTraining("drafts", vision_drafts.MSD | vision_drafts.VISPEC, target, 0, 10)
    a, b = (training.network.get_submodule(name) for name in ("fused", "growing"))
    assert all(torch.equal(x, y) for x, y in zip(a.parameters(), b.parameters(), strict=True))
    words, pictures = training.batch(0.0)
    assert (words.V, pictures.V) == (0, 36)
    assert torch.equal(pictures.e[:, :37], seen(target, batch_of(0, 10**6, 24).pixels))
    F = foreseen(training.network.get_submodule("compressed"), pictures)
    assert F.shape == pictures.h[:, 1:].shape and F[:, :36].abs().max() == 0
    assert not pictures.learnt[:, :36].any() and pictures.learnt.any(1).all()
    update(training, 0.0)
    assert not torch.equal(*(next(one.parameters()) for one in (a, b))), "one of them saw pictures"
