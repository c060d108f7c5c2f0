"""Dimple on pictures: forms that a picture fills, prefilling behind a picture, and what of it is recorded."""

from functools import lru_cache

import pytest

import engines
from engines.methods.multimodal._seen import Vision
from engines.tasks.grid_scenes import held_out, named, right

VISION = "vision", Vision

MODEL, CANVAS, THING = "tiny-vlm-dimple", 48, 14  # tokens of an object's part of a form
PARTS = ((0, "size :"), (3, "colour :"), (6, "shape :"), (9, "place :"), (13, ";"))
FORM = "|".join(f"{THING * i + at}:{words}" for i in range(3) for at, words in PARTS) + "|42:" + "<eos> " * 6


@pytest.fixture(scope="module")
def model():
    return engines.load_model(MODEL, dtype="float32")


@lru_cache
def decoded(prompt, prior="", cache="none"):
    given = {"max_new_tokens": CANVAS, "steps": CANVAS, "structure_prior": prior, "cache": cache}
    return engines.run("dimple", engines.load_model(MODEL, dtype="float32"), prompt, params=given)


def test_a_form_that_is_pinned_is_filled_by_the_picture(model):
    free = decoded("answer: scene 12")
    for number in (12, 3, 5):
        trace = decoded(f"answer: scene {number}", FORM.strip())
        start = len(trace.header.prompt_ids)
        pinned = list(zip(trace.steps[0].commits.positions, trace.steps[0].commits.causes, strict=True))
        places = {at for at, cause in pinned if cause == "forced"}
        assert len(places) == 3 * 9 + 6
        words = [model.tokenizer.piece(token).text.strip() for token in trace.output_ids]
        for i in range(3):
            for at, text in PARTS:
                assert words[THING * i + at : THING * i + at + len(text.split())] == text.split()
        later = [at for step in trace.steps[1:] if step.commits for at in step.commits.positions]
        assert not places & set(later) and min(places) == start
        assert right(held_out(number), trace.text) >= 2 and len(named(trace.text)) == 3
        assert len(trace.steps) < CANVAS - len(places), "several places at once"
    assert named(free.text), "without pins it chooses a sentence or a form itself"


@pytest.mark.parametrize("prompt", ["scene 12", "form: scene 3"])
def test_prefilling_feeds_the_answer_alone_after_the_first_forward(prompt):
    plain, prefilled = decoded(prompt), decoded(prompt, cache="prefix")
    P = len(plain.header.prompt_ids)
    assert {step.tokens_fed for step in plain.steps} == {P + CANVAS}
    assert [step.tokens_fed for step in prefilled.steps] == [P + CANVAS] + [CANVAS + 1] * (len(prefilled.steps) - 1)
    assert prefilled.steps[0].commits == plain.steps[0].commits


def test_the_picture_stands_in_the_record(model):
    trace = decoded("scene 12")
    first = trace.steps[0].record(*VISION)
    image = model.pictured(trace.header.prompt_ids)
    assert abs(first.pixels.array() * 255 - image.pixels.numpy()).max() <= 1 and first.grid == [6, 6]
    assert first.looks is None and not first.entries and len(first.kinds) == len(trace.steps[0].commits.tokens)
    assert trace.steps[1].record(*VISION).pixels is None
    text = engines.run("dimple", engines.load_model("tiny-dlm", dtype="float32"), "copy: Mia, Leo")
    assert all(step.record(*VISION) is None for step in text.steps)


@pytest.mark.exhaustive
def test_it_says_what_it_sees():
    hits = [right(held_out(number), decoded(f"scene {number}").text) for number in range(101, 109)]
    assert sum(hits) >= 16, "of 24 objects"
