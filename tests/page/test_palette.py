"""The palette below the prompt: its words are those of the engines, and a person draws a scene with it."""

import json
import random
from itertools import islice

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from engines import tasks
from engines.models.tokenizers.scene_words import NUMBERED, SceneTokenizer
from engines.tasks.blocks import SCENES
from engines.tasks.grid_scenes import MOST, described, held_out, scene_of, scenes
from explorer.page.form import answer, look

READS = "msd"  # a method whose models see scenes
WORD = np.zeros((32, 128), dtype=np.uint8)
WORDS = tasks.scene_words()
TEXTS = [
    "small red circle top left, large blue square middle right",
    "large blue square at the middle right ,  SMALL red circle at the top left",  # any order and case
    "form: small red circle top left, small red circle top right, large green cross bottom center",
    " answer :small red circle top left, large blue square the middle right",
    "describe: small red circle top left, large blue square middle right",
]
NONE = [
    "small red circle",
    "small red circle top left, small red circle top left",  # two in a cell
    "words: small red circle top left, large blue square middle right",  # no picture
    "small red circle top left, large blue square middle right,",
    "small red circle top left; large blue square middle right",
    "form form: small red circle top left, large blue square middle right",
]


CALL = """(() => {
  const list = (one) => one instanceof Map || ArrayBuffer.isView(one);
  const flat = (one) => list(one) ? [...one] : one?.things ? { ...one, things: [...one.things] } : one;
  const deep = (one) => one?.things ? { ...one, things: new Map(one.things) } : one;
  return flat(M[name](...given.map(deep)));
})()"""


@pytest.fixture
def rules(js):
    """Calls a function of scene.js; things come and go as a list of [cell, thing]."""
    return lambda name, *arguments: js("/page/scene.js", CALL, name=name, given=[*arguments, WORDS])


def scene_text(text: str) -> str | None:
    """What the model's tokenizer takes a text for: the places of its picture and what is asked, None if refused."""
    try:
        return str(SceneTokenizer(36).encode_prompt(text))
    except Exception:
        return None


def test_what_the_palette_reads_and_writes_is_what_the_model_takes_it_for(rules):
    for text in TEXTS:
        found = rules("read", text)
        again = rules("written", found)
        assert scene_text(again) == scene_text(text) is not None
        assert rules("read", again) == found
    for text in NONE:
        assert scene_of(text) is None and rules("read", text) is None
    for scene in islice(scenes("train", seed=1), 60):
        text = described(scene)
        found = rules("read", text)
        assert [cell for cell, _ in found["things"]] == [3 * thing.cell[0] + thing.cell[1] for thing in scene]
        assert rules("written", found) == text


def test_what_the_palette_reads_whole_the_model_reads_too(rules):
    """Words of scenes in any arrangement: both sides agree on each."""
    rng, agreed = random.Random(0), [0, 0]
    parts = [*WORDS["sizes"], *WORDS["colours"], *WORDS["shapes"], *WORDS["rows"], *WORDS["columns"], "at", "the", ","]
    for scene in islice(scenes("train", seed=2), 150):
        words = described(scene).replace(",", " ,").split()
        for _ in range(rng.randrange(3)):
            words[rng.randrange(len(words))] = rng.choice(parts)
        text = " ".join(words)
        found = rules("read", text)
        whole = found is not None and WORDS["fewest"] <= len(found["things"]) <= WORDS["most"]
        assert whole == (scene_of(text) is not None), text
        agreed[whole] += 1
    assert min(agreed) > 20, "both kinds were tried"


def test_a_number_is_told_as_the_scene_that_the_model_sees(rules):
    for text, number in (("scene 12", 12), ("Form:  SCENE 999 ", 999), ("answer: scene 1", 1)):
        told = json.loads(look(text))
        assert told["text"] == text and told["scene"] == described(held_out(number))
        assert rules("numbered", text)["number"] == number
        ids = SceneTokenizer(36).encode_prompt(text)
        assert ids[:-1] == SceneTokenizer(36).encode_prompt(told["scene"])[:-1]
    for text in ("scene 0", "scene 1000", "scene", "words: scene 3", None, 7, "scene 1" * 900):
        assert json.loads(look(text))["scene"] == ""
    assert json.loads(answer('{"text": "scene 12"}'))["scene"] == described(held_out(12))
    for sent in ("", "[1]", "{", None, 7, '{"text": ["scene 12"]}', "[" * 100_000):
        assert json.loads(answer(sent))["scene"] == ""
    assert rules("another", "scene 12") == "scene 13" and rules("another", f"form: scene {NUMBERED}") == "form: scene 1"
    assert rules("another", "hello") == "scene 1" and rules("another", TEXTS[2]) == "form: scene 1"


def test_a_picture_of_ones_own_is_shown_as_the_model_gets_it(rules):
    picture = np.random.default_rng(0).integers(0, 256, (24, 24, 3)).astype(np.uint8)
    text = tasks.picture_prompt(picture, "scene")
    for one in (text, f"form: {text}", text[:50] + "\n" + text[50:]):
        shown = np.array(rules("ownPixels", one)).reshape(24, 24, 4)
        assert (shown[..., :3] == SCENES.pixels(SCENES.cut(picture))).all() and (shown[..., 3] == 255).all()
    others = ["picture: abc", text[:-1], text[:-1] + "!", "scene 12", tasks.picture_prompt(WORD, "word")]
    assert [rules("ownPixels", one) for one in others] == [None] * len(others)


def cell(page: Page, name: str):
    return page.get_by_role("group", name="Cells of the scene").get_by_role("button", name=name)


def test_a_scene_is_drawn_by_mouse_and_keyboard_typed_numbered_and_described(visit):
    screen = visit()
    page, prompt = screen.page, screen.page.locator("#prompt textarea")
    palette = page.get_by_role("group", name="Draw the scene")
    says = palette.get_by_role("status")
    expect(palette).to_be_hidden()  # no model in sight reads a scene
    screen.method(0, READS)
    cell(page, "top left, empty").click()
    expect(prompt).to_have_value("large red circle top left")
    for choice in ("square", "blue", "small"):
        palette.get_by_role("radio", name=choice).check()
    cell(page, "middle right, empty").click()
    expect(prompt).to_have_value("large red circle top left, small blue square middle right")
    cell(page, "middle right: small blue square").click()  # once more: out
    expect(prompt).to_have_value("large red circle top left")
    for name in ("middle right", "bottom center", "top right"):
        cell(page, f"{name}, empty").click()
    expect(says).to_contain_text(f"at most {MOST} objects")
    screen.prompt("form: small red circle top left, large green cross bottom right")  # typed
    cell(page, "center, empty").nth(1).focus()
    page.keyboard.press("ArrowUp")
    expect(cell(page, "top center, empty")).to_be_focused()
    page.keyboard.press("Enter")  # what is asked stays
    expect(prompt).to_have_value(
        "form: small red circle top left, small blue square top center, large green cross bottom right"
    )
    page.keyboard.press("Delete")
    expect(prompt).to_have_value("form: small red circle top left, large green cross bottom right")
    screen.at(0, 0)  # the arrows move no player

    screen.prompt("scene 12")
    for thing in held_out(12):
        expect(cell(page, f"{thing.row} {thing.column}: {thing.size} {thing.colour} {thing.shape}")).to_be_visible()
    page.get_by_role("button", name="Another scene").click()
    expect(prompt).to_have_value("scene 13")
    screen.prompt("<img src=x onerror=window.hit=1>: scene")
    expect(says).to_contain_text("no scene")
