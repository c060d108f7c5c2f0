"""Files that people bring: each of them is a prompt or one sentence, and a large one is refused by its header."""

import io
import random
import struct
import tracemalloc
import zlib
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

import engines
from engines import UserError, tasks
from engines.core.places import assets
from engines.tasks.blocks import SCENES
from engines.tasks.grid_scenes import drawn, held_out
from explorer.own_pictures import BYTES, PAPER, opened, prompt_of, scene, word

GREEN, RED = (0, 128, 0), (200, 0, 0)
WHITE = (255, 255, 255)


def file(image: Any, kind: str = "PNG", **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def corner() -> Image.Image:
    """40 x 20, green with a red quarter at the top left."""
    image = Image.new("RGB", (40, 20), GREEN)
    image.paste(RED, (0, 0, 20, 10))
    return image


def png_header(width: int, height: int) -> bytes:
    """The beginning of a PNG of that size, without a pixel."""
    body = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + body + struct.pack(">I", zlib.crc32(body)) + b"\0\0\0\1IDATx"


def close(image: Any, at: tuple[int, int], colour: tuple[int, ...], off: int = 8) -> bool:
    return all(abs(a - b) <= off for a, b in zip(image.getpixel(at), colour, strict=True))


REFUSED = {
    "empty": (b"", "has 0 bytes"),
    "large": (b"\0" * (BYTES + 1), f"at most {BYTES:,} are taken"),
    "svg": (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "not a picture that is read here"),
    "cut jpeg": (file(corner(), "JPEG")[:400], "broken or cut short"),
    "high": (png_header(3, 40_000), "a side may have at most 30,000"),
    "3600 MP": (png_header(60_000, 60_000), "far more pixels than the 50 million"),  # Pillow refuses it by itself
    "no width": (png_header(0, 9), "broken or cut short|not a picture"),
}


@pytest.mark.parametrize(("data", "sentence"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused_is_refused_in_a_sentence(data, sentence):
    for kind in ("scene", "word"):
        with pytest.raises(UserError, match=sentence) as found:
            prompt_of(data, kind)
        assert "\n" not in str(found.value) and str(found.value).endswith(".")


def test_100_megapixels_are_refused_before_they_are_decoded():
    """A real one of 12 kB, so that only the header can be why."""
    data = file(Image.new("1", (10_000, 10_000)), optimize=True)
    tracemalloc.start()
    with pytest.raises(UserError, match="at most 50 million"):
        prompt_of(data, "scene")
    assert tracemalloc.get_traced_memory()[1] < 2_000_000 and len(data) < 100_000
    tracemalloc.stop()


def test_no_damage_gives_anything_but_a_picture_or_a_sentence():
    rng, said = random.Random(0), [0, 0]
    for kind in ("PNG", "JPEG", "GIF", "WEBP", "BMP"):
        whole = file(corner(), kind)
        for _ in range(40):
            data = bytearray(whole[: rng.randrange(1, len(whole)) if rng.random() < 0.3 else None])
            for _ in range(rng.randrange(4)):
                data[rng.randrange(len(data))] = rng.randrange(256)
            try:
                said[0] += len(prompt_of(bytes(data), "scene")) > 300
            except UserError:
                said[1] += 1
    assert min(said) > 10, "both were seen"


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP", "BMP"])
def test_every_kind_shows_what_it_shows(kind):
    """Of a moving one the first frame; what the camera turned stands upright."""
    exif = Image.Exif()
    exif[0x0112] = 6 if kind == "JPEG" else 1  # turned by 90 degrees
    more = {"save_all": True, "append_images": [Image.new("RGB", (40, 20), GREEN)]} if kind == "GIF" else {"exif": exif}
    image = opened(file(corner(), kind, **({} if kind == "BMP" else more)), WHITE)
    turned = kind == "JPEG"
    assert image.mode == "RGB" and image.size == ((20, 40) if turned else (40, 20))
    assert close(image, (16, 3) if turned else (3, 3), RED, 40) and close(
        image, (3, 36) if turned else (36, 16), GREEN, 40
    )


def test_alpha_stands_on_the_paper_whatever_the_mode_and_16_bits_keep_their_shades():
    clear = Image.new("RGBA", (8, 8), (9, 9, 9, 0))
    half = Image.new("LA", (8, 8), (0, 128))
    indexed = corner().quantize(4)
    indexed.info["transparency"] = indexed.getpixel((0, 0))  # red is clear
    assert opened(file(clear), PAPER["scene"]).getpixel((4, 4)) == PAPER["scene"]
    assert close(opened(file(half), WHITE), (4, 4), (127, 127, 127), 2)
    shown = opened(file(indexed), WHITE)
    assert shown.getpixel((3, 3)) == WHITE and close(shown, (36, 16), GREEN)
    for mode in ("1", "CMYK"):
        assert opened(file(Image.new(mode, (9, 5)), "JPEG" if mode == "CMYK" else "PNG"), WHITE).mode == "RGB"
    ramp = Image.fromarray(np.linspace(0, 65535, 256, dtype=np.uint16).reshape(16, 16))
    shades = np.asarray(opened(file(ramp), WHITE).convert("L")).reshape(-1)
    assert np.abs(shades - np.arange(256)).max() <= 1


def test_a_scene_is_taken_as_it_is_a_larger_one_described_as_it_and_nothing_is_cut_off():
    picture, (thing, *_) = drawn(held_out(12)), held_out(12)
    assert (scene(Image.fromarray(picture)) == picture).all()
    assert prompt_of(file(Image.fromarray(picture)), "scene") == tasks.picture_prompt(picture, "scene")
    large = Image.fromarray(picture).resize((480, 480), Image.Resampling.NEAREST)
    text = engines.run("greedy", "tiny-vlm", prompt_of(file(large), "scene")).text
    assert f"a {thing.size} {thing.colour} {thing.shape} at the {thing.row} {thing.column}" in text
    wide = scene(opened(file(corner()), PAPER["scene"]))
    assert wide.shape == (24, 24, 3)
    assert (wide[0] == PAPER["scene"]).all() and (wide[-1] == PAPER["scene"]).all()
    assert tuple(wide[8, 2]) == RED and tuple(wide[15, 22]) == GREEN
    for size in ((1, 1), (1, 3000), (3000, 1)):
        assert len(SCENES.cut(scene(Image.new("RGB", size, RED)))) == 36
        assert word(Image.new("RGB", size, RED)).shape == (32, 128)


@pytest.mark.parametrize(("ink", "paper"), [(0, 255), (255, 20)])
def test_a_printed_word_is_found_and_read(ink, paper):
    image = Image.new("L", (1200, 700), paper)
    font = ImageFont.truetype(str(assets() / "fonts" / "DejaVuSans.ttf"), 90)
    ImageDraw.Draw(image).text((600, 350), "address", fill=ink, font=font, anchor="mm")
    assert engines.run("cppd", "tiny-reader", prompt_of(file(image), "word")).text == "address"
