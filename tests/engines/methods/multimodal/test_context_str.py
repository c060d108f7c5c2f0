"""Context-STR: the rule, its two matchings, the gate in a run, and the heavy reader as its control has it."""

import json
from functools import cache

import pytest
import torch

import engines
from engines.methods.multimodal import _scene, scene_heavy
from engines.methods.multimodal._scene import Scene
from engines.methods.multimodal.context_str import context, log_probabilities, meanings
from engines.tasks.scenes import SceneLook, drawn
from engines.training.pictures import scenes
from explorer import ASSETS

SCENE = "scene", Scene

READER, SLUG = "tiny-reader", "context-str"
MODELS = {"reader": READER, "scene": "tiny-scenes", "language": "tiny-ar-m"}


@cache
def run(word="cafe", slug=SLUG, **params):
    models = {role: MODELS[role] for role in MODELS if slug == SLUG or role != "language"}
    return engines.run(slug, models, list(word) if isinstance(word, tuple) else word, params=params)


def test_by_word_the_most_similar_run_of_words_is_taken():
    """As released, against the whole caption, and the gate: golden."""
    caption = "a red stop sign stands on the left of the road"
    assert context.spelling("STOP", caption, True) == (1.0, "stop")
    assert context.spelling("stopsign", caption, True)[1] == "stop sign"
    assert context.spelling("stop", "", True) == (0.0, "")


def test_the_light_way_in_its_stages():
    made = run(tau=0.0)
    assert [step.record(*SCENE).stage for step in made.steps] == [
        "segment",
        *["caption"] * (len(made.steps) - 3),
        "read",
        "score",
    ]
    first, last = made.steps[0].record(*SCENE), made.steps[-1]
    assert first.picture.shape == [128, 3 * 256] and first.mask.shape == [128, 256] and len(first.boxes) == 1
    box = drawn("cafe", SceneLook()).region.nonzero()
    inside = first.boxes[0]
    assert inside.row <= box[0].min() and box[0].max() < inside.row + inside.height
    assert inside.column <= box[1].min() and box[1].max() < inside.column + inside.width
    assert last.record(*SCENE).bypass and last.choice.chosen == "light" and last.record(*SCENE).answer == made.text
    assert last.facts["bypass"] == 1.0 and last.commits.causes == ["place"] * len(last.commits.tokens)
    assert made.totals.forwards_by_role["language"] == 2
    read = next(step for step in made.steps if step.record(*SCENE).stage == "read")
    assert read.forwards == {"reader": 1}, "picture and boxes in one pass"
    assert [one.source for one in read.record(*SCENE).readings] == ["picture", "box 1"]
    blank = run(tau=0.0, contrast=0.05, scene="book")
    assert blank.steps[0].record(*SCENE).boxes == []
    assert [one.source for one in blank.steps[-1].record(*SCENE).readings] == ["picture"], "without a box it alone"
    last = run(tau=0.0, matching="as released").steps[-1].record(*SCENE)
    assert all(one.run == last.caption for one in last.readings), "held against the whole caption"


def test_the_heavy_way_is_its_control_and_really_done():
    ours, control = run(tau=1.01), run(slug="scene-heavy")
    assert ours.text == control.text
    turns = [step for step in ours.steps if step.record(*SCENE).stage == "heavy"]
    assert len(turns) == len(scene_heavy.TURNS) and all(step.forwards["reader"] >= 5 for step in turns)
    assert {step.facts["pictures"] for step in turns} == {3.0 * (1 + len(scene_heavy.WINDOWS))}
    light = run(tau=0.0).totals.work_by_role["reader"]
    assert ours.totals.work_by_role["reader"] - light > 20 * light
    assert control.totals.work_by_role["reader"] == ours.totals.work_by_role["reader"] - light


def test_a_forced_letter_is_kept_and_what_is_behind_is_read_again():
    p = engines.load_model(READER).tokenizer.encode("p")[0]
    original = run("coffee", tau=0.0)
    at, last = len(original.header.prompt_ids), len(original.steps) - 1
    fork = engines.fork(original, last + 1, edit=engines.Edit(force={at: p}))
    assert fork.text[0] == "p" and len(fork.steps) == len(original.steps) + 1


def test_blocks_are_what_hangs_together():
    mask = torch.zeros(128, 256)
    mask[20:40, 30:90] = 0.9
    mask[100:105, 200:210] = 0.9  # 50 pixels
    mask[60:80, 100:110] = 0.6
    mask[80, 110] = 0.6  # by its corner
    assert _scene.blocks(mask, 0.5) == [(14, 24, 32, 72), (54, 94, 33, 23)]
    assert len(_scene.blocks(mask, 0.7)) == 1 and _scene.blocks(mask, 0.95) == []
    many = torch.zeros(128, 256)
    for i in range(12):
        many[i * 10 : i * 10 + 6, 0 : 40 + i] = 1.0
    assert len(_scene.blocks(many, 0.5)) == _scene.BLOCKS


def test_a_crop_is_dark_on_light_whatever_the_sign():
    for kind in ("road sign", "shop front", "wall"):
        scene = drawn("stop", SceneLook(kind))
        rows, columns = scene.region.nonzero()
        h, w = int(rows.max() - rows.min()) + 1, int(columns.max() - columns.min()) + 1
        seen = _scene.crop(scene.pixels, _scene.padded(int(rows.min()), int(columns.min()), h, w, 128, 256))
        assert seen.shape == (32, 128) and seen.dtype == torch.uint8
        assert seen.median() > 200 and seen.min() < 60


def test_beams_hold_the_likeliest_texts():
    model = engines.load_model(READER, dtype="float32")
    scene = drawn("cafe", SceneLook())
    seen = torch.stack([_scene.crop(scene.pixels, (10, 80, 40, 96)), _scene.crop(scene.pixels, (0, 0, 128, 256))])
    wide, narrow = scene_heavy.beam_search(model, seen, 5, 4), scene_heavy.beam_search(model, seen, 1, 4)
    for five, one in zip(wide, narrow, strict=True):
        assert len(five) == 5 and max(five.values()) >= max(one.values()) - 1e-4
        assert sum(torch.tensor(list(five.values())).exp().tolist()) <= 1.0 + 1e-4
    cache, log = model.new_cache(model.see(seen[0], 4)), 0.0
    text = max(wide[0], key=wide[0].get)
    for fed, wanted in zip([model.start_id, *text], [*text, 0], strict=True):
        log += float(model.extend([fed], cache).logits[-1].log_softmax(-1)[wanted])
    assert log == pytest.approx(wide[0][text], abs=1e-3)


def test_meaning_is_what_the_caption_adds():
    model = engines.load_model("tiny-ar-m", dtype="float32")
    (alone, n), (other, _) = log_probabilities(model, "story: Mia, boat", ["cup", "boat"])
    ids = model.tokenizer.encode("story: Mia, boat"), model.tokenizer.encode(" cup")
    logs = model.extend([*ids[0], *ids[1]], model.new_cache(40)).logits.log_softmax(-1)
    single = sum(float(logs[len(ids[0]) - 1 + i, token]) for i, token in enumerate(ids[1]))
    assert n == len(ids[1]) and alone == pytest.approx(single, abs=1e-3) and other != alone
    S = meanings(model, "a red bus", ["cup", "", "cup"], 1.0)
    assert S[0] == S[2] and S[1] == 0.0 and 0 < S[0] < 1
    assert context.meaning(0.0, 1.0) == 0.5 and context.meaning(2.0, 1.0) > context.meaning(1.0, 1.0)
    assert context.meaning(1e9, 1.0) == pytest.approx(1.0) and context.meaning(-1e9, 1.0) == pytest.approx(0.0)


@pytest.mark.exhaustive
def test_what_ships_looks_as_its_card_says():
    card = json.loads((ASSETS / "models" / "tiny-scenes" / "card.json").read_text("utf-8"))
    model = engines.load_model("tiny-scenes", dtype="float32")
    assert model.record.parameters == card["parameters"] < 700_000
    told, found = card["held_out_scenes"], scenes.marks(model.network, 60)["held_out_scenes"]
    assert told["captions_right"] >= 0.98 and told["mask_overlap"] >= 0.8
    assert abs(found["captions_right"] - told["captions_right"]) <= 0.05
    assert abs(found["mask_overlap"] - told["mask_overlap"]) <= 0.03
