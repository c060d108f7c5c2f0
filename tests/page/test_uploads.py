"""A picture of a person's own on the page: at home only, into the prompt, and a sentence for what is none."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from playwright.sync_api import expect

from engines import tasks
from engines.tasks.grid_scenes import drawn, held_out
from engines.tasks.word_images import Look
from engines.tasks.word_images import drawn as written
from explorer.own_pictures import BYTES, SAID
from explorer.page import uploads
from explorer.page.blocks import build
from explorer.page.catalogue import Catalogue
from explorer.page.handlers import Handlers
from explorer.page.limits import Limits
from explorer.runs.gallery import Gallery

SEES, READS = "msd", "cppd"  # methods whose models see scenes, and words


def png(picture: Any) -> bytes:
    out = io.BytesIO()
    Image.fromarray(picture).save(out, "PNG")
    return out.getvalue()


def sent(kind: Any, data: bytes) -> str:
    return json.dumps({"kind": kind, "base64": base64.b64encode(data).decode()})


@pytest.mark.parametrize("public", [False, True])
def test_only_at_home_is_there_a_field_and_an_event(public, tmp_path):
    handlers = Handlers(Gallery(Path(tmp_path)), Catalogue.read(public), Limits(4000, 100, 60, public))
    demo = build(handlers)
    assert ("upload" in [block.elem_id for block in demo.blocks.values()]) is not public
    assert any(fn.fn is uploads.take for fn in demo.fns.values()) is not public


def test_a_file_becomes_the_prompt():
    picture = drawn(held_out(12))
    prompt, said = uploads.take(sent("scene", png(picture)))
    assert prompt == tasks.picture_prompt(picture, "scene") and json.loads(said)["said"] == SAID["scene"]
    assert "bad" not in json.loads(said)


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (None, "No file of at most"),
        (7, "No file of at most"),
        ("{", "What was sent is not a file"),
        ("[1]", "What was sent is not a file"),
        ('{"kind": "scene"}', "What was sent is not a file"),
        ('{"kind": "scene", "base64": 3}', "What was sent is not a file"),
        ('{"kind": "scene", "base64": "?"}', "What was sent is not a file"),
        ("[" * 100_000, "What was sent is not a file"),
        (sent("scene", b""), "The file has 0 bytes"),
        (sent("word", b"text"), "The file is not a picture"),
        (sent("video", b"text"), "'video' is no kind of picture"),
        (sent(["scene"], b"text"), "is no kind of picture"),
        (sent("scene", b"\0" * (BYTES + 1)), f"at most {BYTES:,} are taken"),
        ("x" * (2 * BYTES + 1), "No file of at most"),
    ],
)
def test_whatever_else_is_sent_gets_a_sentence(value, sentence):
    prompt, said = uploads.take(value)
    told = json.loads(said)
    assert not isinstance(prompt, str) and told["bad"] and sentence in told["said"] and told["said"].endswith(".")


# --- the visitor


def test_a_picture_is_taken_in_and_described(visit, tmp_path):
    screen = visit()
    page, line = screen.page, screen.page.locator("#upload .status")
    field = page.get_by_label("A picture of your own")
    expect(field).to_be_hidden()
    screen.method(0, SEES)
    expect(field).to_be_visible()
    bad = tmp_path / "<img src=x onerror=window.hit=1>.png"
    bad.write_bytes(b"no picture")
    field.set_input_files(bad)
    expect(line).to_contain_text("The file is not a picture that is read here")
    expect(line).to_have_attribute("data-kind", "error")
    large = tmp_path / "large.png"
    large.write_bytes(b"\0" * (BYTES + 1))
    field.set_input_files(large)
    expect(line).to_contain_text("The file has 6,000,001 bytes; at most 6,000,000 are taken.")
    good = tmp_path / "scene.png"
    good.write_bytes(png(drawn(held_out(12)).repeat(20, 0).repeat(20, 1)))
    field.set_input_files(good)
    expect(line).to_contain_text("It knows scenes of two or three coloured shapes only")
    expect(page.locator("#prompt textarea")).to_have_value(tasks.picture_prompt(drawn(held_out(12)), "scene"))
    expect(page.get_by_role("group", name="Draw the scene").locator(".scene-line")).to_contain_text("of your own")
    expect(page.locator(".scene-cells canvas")).to_be_visible()
    screen.slots(1)
    screen.run(0)
    thing = held_out(12)[0]
    expect(screen.player(0)).to_contain_text(
        f"a {thing.size} {thing.colour} {thing.shape} at the {thing.row} {thing.column}"
    )
    page.locator(".scene-cell").first.click()  # a scene in its place
    expect(page.locator("#prompt textarea")).to_have_value("large red circle top left")
    expect(line).to_be_hidden()
    expect(page.locator(".scene-cells canvas")).to_be_hidden()


@pytest.mark.pages
def test_a_word_is_read_from_its_picture(visit, tmp_path):
    screen = visit()
    screen.method(0, READS)
    good = tmp_path / "word.png"
    good.write_bytes(png(written("address", Look())))
    screen.page.get_by_label("A picture of your own").set_input_files(good)
    expect(screen.page.locator("#upload .status")).to_contain_text("one printed word")
    expect(screen.page.get_by_role("group", name="Draw the scene")).to_be_hidden()
    screen.slots(1)
    screen.run(0)
    expect(screen.player(0)).to_contain_text("address")
