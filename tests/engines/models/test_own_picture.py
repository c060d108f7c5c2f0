"""A picture of a person's own in a prompt: its text, its ids, and what the models that read pictures make of it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import engines
from engines import UserError, tasks
from engines.core.trace.base import EXACT
from engines.models.loading.zoo import load_model
from engines.tasks.blocks import DIGITS, SCENES, WORDS, Blocks, own_picture
from engines.tasks.grid_scenes import drawn, held_out
from engines.tasks.word_images import Look
from engines.tasks.word_images import drawn as written
from tests.engines.refusals import refuses

BOTH = pytest.mark.parametrize("blocks", [SCENES, WORDS], ids=["scenes", "words"])
SCENE = tasks.picture_prompt(drawn(held_out(12)), "scene")
ADDRESS = tasks.picture_prompt(written("address", Look()), "word")


def noise(blocks: Blocks, seed: int) -> np.ndarray:
    shape = (blocks.height, blocks.width, blocks.channels)
    return np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8).squeeze()


@BOTH
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_text_is_the_picture(blocks, seed):
    ids = blocks.cut(noise(blocks, seed))
    text = blocks.text(ids)
    assert len(ids) == blocks.count and len(text) == blocks.count * blocks.digits and set(text) <= set(DIGITS)
    assert blocks.read(text) == ids and all(one in blocks.ids for one in ids) and max(ids) <= EXACT
    shown = blocks.pixels(ids)
    assert shown.shape == noise(blocks, seed).shape and shown.dtype == np.uint8
    assert (blocks.pixels(blocks.cut(shown)) == shown).all(), "a picture that was cut is cut without a further loss"


def test_a_block_by_hand_and_a_picture_that_the_model_sees_whole():
    """4 x 4 greys, the right half white: sixteen bits 0011 in each row, then black (0) and white (15)."""
    one = Blocks(4, 4, 1, 4)
    picture = np.repeat(np.array([[0, 0, 255, 255]], dtype=np.uint8), 4, 0)
    (value,) = one.cut(picture)
    assert value == (1 << 24) + (0b0011001100110011 << 8) + 15
    assert one.text([value]) == "MzMP"  # as base64 writes the three bytes 33 33 0f
    assert own_picture(" Picture : ABC\n") == "ABC"
    assert [own_picture(one) for one in ("picture", "pictures: A", "form: A", "")] == [None] * 4
    assert [tasks.picture_asked(one) for one in (SCENE, f"form: {SCENE}", ADDRESS)] == ["scene", "scene", "word"]
    model = load_model("tiny-vlm")
    ids = model.tokenizer.encode_prompt(SCENE)
    seen = model.pictured(ids)
    assert (seen.pixels.numpy() == SCENES.pixels(SCENES.cut(drawn(held_out(12))))).all() and seen.sentence == ""
    assert model.tokenizer.encode_prompt(f"Form: {SCENE}")[-1] == model.tokenizer.ids["form"]
    refuses(UserError, "feed the whole picture at once", model.extend, ids[:20], model.new_cache(20))
    found = engines.next_logits(model, ids, [10, 11])
    assert found["alone"] == pytest.approx(found["together"], abs=1e-4)
    refuses(UserError, "ids from 0 to", engines.next_logits, model, [3], [SCENES.ids[0]])
    plain = engines.run("greedy", model, SCENE, params={"max_new_tokens": 24}).text
    recycled = engines.run("token-recycling", model, SCENE, params={"max_new_tokens": 24}).text
    assert recycled == plain, "which keeps a row for each token of the vocabulary; parts of a picture have none"
    for slug in ("cppd", "word-by-letter"):
        assert engines.run(slug, "tiny-reader", ADDRESS).text == "address"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "0 characters"),
        ("A" * 325, "325 characters"),
        ("A" * 323 + "!", "not '!'"),
        ("\u00e9" * 324, "not '\u00e9'"),
        ("_" * 324, "changed by hand"),  # nine digits hold two bits more than a block has
    ],
)
def test_any_other_text_is_refused_in_a_sentence(text, sentence):
    refuses(UserError, sentence, SCENES.read, text)


@pytest.mark.parametrize(
    ("slug", "model"), [("greedy", "tiny-vlm"), ("msd", "tiny-vlm"), ("dimple", "tiny-vlm-dimple")]
)
def test_a_drawn_scene_is_described_from_its_picture(slug, model):
    trace = engines.run(slug, model, SCENE, params={"max_new_tokens": 48})
    for thing in held_out(12):
        assert f"a {thing.size} {thing.colour} {thing.shape} at the {thing.row} {thing.column}" in trace.text
    again = engines.read_trace(trace.to_json())
    assert again.header.prompt == SCENE and again.header.prompt_ids == trace.header.prompt_ids
    assert engines.fork(again, 1).text == trace.text, "a fork needs the recording alone"


@pytest.mark.parametrize(
    ("slug", "model", "prompt", "params", "sentence"),
    [
        ("cppd", "tiny-reader", SCENE, {}, "has 324 characters and this model's have 1,024"),
        ("greedy", "tiny-vlm", ADDRESS, {}, "has 1,024 characters and this model's have 324"),
        ("cppd", "tiny-reader", ADDRESS, {"blur": 1.0}, "blur=1.0 is of a word that is drawn here"),
        ("context-str", "tiny-reader", ADDRESS, {}, "for the readers of one word"),
        ("greedy", "tiny-vlm", f"words: {SCENE}", {}, "does not know 'picture"),
        ("cppd", "tiny-reader", [WORDS.ids[0], 1], {}, "256 blocks and no letter"),
        ("greedy", "tiny-vlm", "small pink circle top left, large blue square top right", {}, "'pink' is not a"),
        ("greedy", "tiny-vlm", "small red circle top left", {}, "write two or three objects in different places"),
        ("cppd", "tiny-reader", "abcdefghijkl", {}, "has a length of 12; write one word of 2 to 10 letters"),
        ("cppd", "tiny-reader", "two words", {}, "does not know a blank; write one word"),
    ],
)
def test_what_does_not_fit_gets_a_sentence(slug, model, prompt, params, sentence):
    refuses(UserError, sentence, engines.run, slug, model, prompt, params=params)
