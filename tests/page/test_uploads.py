"""A picture of a person's own on the page: at home only, into the prompt, and a sentence for what is none."""

import base64
import io
import json
from typing import Any

import pytest
from PIL import Image
from playwright.sync_api import expect

from engines import tasks
from engines.tasks.grid_scenes import drawn, held_out
from explorer.own_pictures import BYTES
from explorer.page import form
from explorer.page.blocks import build
from tests.page.conftest import desk


def png(picture: Any) -> bytes:
    out = io.BytesIO()
    Image.fromarray(picture).save(out, "PNG")
    return out.getvalue()


def sent(kind: Any, data: bytes) -> str:
    return json.dumps({"kind": kind, "base64": base64.b64encode(data).decode()})


@pytest.mark.parametrize("public", [False, True])
def test_only_at_home_is_there_a_field_and_an_event(public, tmp_path):
    demo = build(desk(tmp_path, public))
    assert ("upload" in [block.elem_id for block in demo.blocks.values()]) is not public
    assert any(fn.fn is form.take for fn in demo.fns.values()) is not public


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (None, "No file of at most"),
        ("[1]", "What was sent is not a file"),
        ('{"kind": "scene", "base64": 3}', "What was sent is not a file"),
        ('{"kind": "scene", "base64": "?"}', "What was sent is not a file"),
        ("[" * 100_000, "What was sent is not a file"),
        (sent("scene", b""), "The file has 0 bytes"),
        (sent("word", b"text"), "The file is not a picture"),
        (sent("video", b"text"), "'video' is not a kind of picture"),
        (sent("scene", b"\0" * (BYTES + 1)), f"at most {BYTES:,} are taken"),
        ("x" * (2 * BYTES + 1), "No file of at most"),
    ],
)
def test_whatever_else_is_sent_gets_a_sentence(value, sentence):
    prompt, said = form.take(value)
    told = json.loads(said)
    assert not isinstance(prompt, str) and told["bad"] and sentence in told["said"] and told["said"].endswith(".")


def test_a_picture_is_taken_in_and_described(visit, tmp_path):
    screen = visit()
    page, line = screen.page, screen.page.locator("#upload .status")
    field = page.get_by_label("A picture of your own")
    expect(field).to_be_hidden()
    screen.method(0, "msd")  # its model sees scenes
    expect(field).to_be_visible()
    bad = tmp_path / "<img src=x onerror=window.hit=1>.png"
    bad.write_bytes(b"no picture")
    field.set_input_files(bad)
    expect(line).to_contain_text("The file is not a picture that is read here")
    good = tmp_path / "scene.png"
    good.write_bytes(png(drawn(held_out(12)).repeat(20, 0).repeat(20, 1)))
    field.set_input_files(good)
    expect(line).to_contain_text("It knows scenes of two or three coloured shapes only")
    expect(page.locator("#prompt textarea")).to_have_value(tasks.picture_prompt(drawn(held_out(12)), "scene"))
    expect(page.locator(".scene-cells canvas")).to_be_visible()
    screen.slots(1)
    screen.run(0)
    thing = held_out(12)[0]
    expect(screen.player(0)).to_contain_text(
        f"a {thing.size} {thing.colour} {thing.shape} at the {thing.row} {thing.column}"
    )
    page.locator(".scene-cell").first.click()  # a scene in its place
    expect(page.locator("#prompt textarea")).to_have_value("large red circle top left")
    expect(page.locator(".scene-cells canvas")).to_be_hidden()
