"""A picture of a person's own, from a file to the prompt of a model that reads pictures: opened with limits, brought to
the few pixels that the model sees, and written as text (engines/tasks/blocks.py), so that the text is all of it.

Needs Pillow. An image is a PIL image; a picture the array that a model gets."""

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from engines import UserError, tasks

log = logging.getLogger("decoding-explorer")
BYTES = 6_000_000  # of a file
SIDE = 30_000  # pixels of a picture's longer side
MEGAPIXELS = 50  # of a picture; they are counted in its header, before one of them is decoded
FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP")  # each is decoded in this process, without another program
PAPER = {"scene": (228, 228, 228), "word": (255, 255, 255)}  # behind what lets light through
AWAY = 0.35  # of the largest difference from the ground: from there on it is ink
AIR, SPARE = 0.5, 5  # room over and under a word, as a share of its height, and pixels left and right of it
SAID = {
    "scene": "The prompt has the picture as the model gets it: 24 x 24 pixels, two colours in each 4 x 4. It "
    "knows scenes of two or three coloured shapes only, and of anything else says something in those words.",
    "word": "The prompt has the picture as the reader gets it: 32 x 128 greys, two in each 4 x 4. It knows one "
    "printed word of 2 to 10 small letters only, and reads letters in anything else too.",
}


def prompt_of(data: bytes, kind: str) -> str:
    """The prompt that holds the picture of a file. kind: "scene" or "word", what the model reads. Raises UserError."""
    if kind not in SAID:
        raise UserError(f"'{str(kind)[:20]}' is not a kind of picture; choose scene or word.")
    image = opened(data, PAPER[kind])
    picture = scene(image) if kind == "scene" else word(image)
    return tasks.picture_prompt(picture, kind)


def opened(data: bytes, paper: tuple[int, int, int]) -> Any:
    """The first image of a file, upright, 8 bits of red, green and blue, on paper where it lets light through. Raises
    UserError for what is not a picture or too large a one."""
    from PIL import Image, ImageOps

    if not data:
        raise UserError("the file has 0 bytes; choose one that holds a picture.")
    if len(data) > BYTES:
        raise UserError(f"the file has {len(data):,} bytes; at most {BYTES:,} are taken. Save the picture smaller.")
    with _refusals():
        image: Any = Image.open(io.BytesIO(data), formats=FORMATS)  # reads the header only
        width, height = image.size
        if width * height > MEGAPIXELS * 1_000_000:
            raise UserError(
                f"the picture has {width:,} x {height:,} pixels; at most {MEGAPIXELS} million are taken. "
                "Save it smaller."
            )
        if max(width, height) > SIDE:
            raise UserError(
                f"the picture has {width:,} x {height:,} pixels; a side may have at most {SIDE:,}. Cut it or save it "
                "smaller."
            )
        image.draft("RGB", (1024, 1024))  # a JPEG is decoded at a fraction of its size where that is enough
        image.load()
        image = ImageOps.exif_transpose(image)
        if image.mode.startswith("I"):  # 16 bits, which Pillow would cut at 255
            image = Image.fromarray((np.asarray(image).astype(np.int64).clip(0, 65535) // 257).astype(np.uint8))
        if image.mode in ("LA", "PA") or "transparency" in image.info:
            image = image.convert("RGBA")
        if image.mode == "RGBA":
            under = Image.new("RGBA", image.size, (*paper, 255))
            image = Image.alpha_composite(under, image)
        return image.convert("RGB")


@contextmanager
def _refusals() -> Iterator[None]:
    """What Pillow says of a file, in sentences: it raises almost anything for one that was made to break it."""
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of many pixels, which are counted here, and of odd chunks
            yield
    except UserError:
        raise
    except UnidentifiedImageError:
        raise UserError("the file is not a picture that is read here; choose a PNG, JPEG, GIF, WebP or BMP.") from None
    except Image.DecompressionBombError:
        raise UserError(
            f"the picture has far more pixels than the {MEGAPIXELS} million that are taken; save it smaller."
        ) from None
    except Exception:
        log.info("a picture could not be read", exc_info=True)
        raise UserError("the picture is broken or cut short; save it anew.") from None


def scene(image: Any) -> Any:
    """The whole of an image in the middle of a square of a scene's paper: uint8 [24, 24, 3]."""
    from PIL import Image

    side = tasks.picture_size("scene")[0]
    factor = side / max(image.size)
    width, height = (max(1, round(length * factor)) for length in image.size)
    sheet = Image.new("RGB", (side, side), PAPER["scene"])
    small = image.resize((width, height), Image.Resampling.BOX)
    sheet.paste(small, ((side - width) // 2, (side - height) // 2))
    return np.asarray(sheet)


def word(image: Any) -> Any:
    """What differs from the ground of an image, as the reader was taught to see words: dark on light, as large as fits,
    at the left. uint8 [32, 128]."""
    from PIL import Image

    height, width = tasks.picture_size("word")
    grey = image.convert("L")
    if grey.size == (width, height):
        return np.asarray(grey)  # as the reader's pictures are
    left, top, right, bottom = box = ink_box(grey)
    h = bottom - top
    factor = min(height / (h * (1 + 2 * AIR)), (width - 2 * SPARE) / (right - left))
    sheet = Image.new("L", (width, height), ground(np.asarray(grey)))
    size = (max(1, round((right - left) * factor)), max(1, round(h * factor)))
    how = Image.Resampling.BOX if factor < 1 else Image.Resampling.BICUBIC
    sheet.paste(grey.resize(size, how, box=box), (SPARE, (height - size[1]) // 2))
    return tasks.dark_on_light(np.asarray(sheet, dtype=np.float32))


def ground(greys: Any) -> int:
    """The grey behind: the median of the border."""
    return int(np.median(np.concatenate([greys[0], greys[-1], greys[:, 0], greys[:, -1]])))


def ink_box(grey: Any) -> tuple[int, int, int, int]:
    """Left, top, right and bottom of what differs from the ground; of the whole image where nothing does."""
    greys = np.asarray(grey, dtype=np.float32)
    away = np.abs(greys - ground(greys))
    rows, columns = (away > max(8.0, AWAY * float(away.max()))).nonzero()
    if not len(rows):
        return 0, 0, grey.width, grey.height
    return int(columns.min()), int(rows.min()), int(columns.max()) + 1, int(rows.max()) + 1
