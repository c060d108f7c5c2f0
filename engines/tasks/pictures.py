"""What the models of pictures are asked: a digit or a caption of two shapes to draw, a word or a scene to read. There
is no task behind these; a prompt is recognised so that a page can say which model it is for."""

import re
from typing import Any

from engines.tasks import grid_scenes
from engines.tasks.blocks import SCENES, WORD, WORDS, own_picture
from engines.tasks.grid_scenes import FORM, described, held_out

THING = FORM.pattern
COLOURS, SHAPES = r"(red|green|blue|yellow|purple)", r"(circle|square|triangle)"
PICTURES = {  # slug -> a prompt's form, and an example
    "digit": (re.compile(r"\d"), "7"),
    "shapes": (
        re.compile(rf"{COLOURS} {SHAPES} (left of|above) {COLOURS} {SHAPES}"),
        "red circle left of blue square",
    ),
    "word": (re.compile(r"[a-z]{2,10}"), "address"),
    "scene": (
        re.compile(rf"((describe|form|answer) ?: ?)?(scene [1-9]\d{{0,2}}|{THING}( ?, ?{THING}){{1,2}})"),
        "scene 12",
    ),
}


ASKED = ("describe", "form", "answer")  # what a scene can be asked for; the first without being named
NUMBERED = 999  # held-out scenes that can be asked for by number
NUMBER = re.compile(rf"\s*(?:(?:{'|'.join(ASKED)})\s*:)?\s*scene\s+([0-9]{{1,3}})\s*", re.IGNORECASE)


def scene_words() -> dict[str, Any]:
    """All that a page needs to draw a scene and to write it: words, colours as red, green and blue, shapes as rows of
    bits."""
    return {
        "asked": ASKED,
        "sizes": grid_scenes.SIZES,
        "colours": grid_scenes.COLOURS,
        "shapes": grid_scenes.SHAPES,
        "rows": grid_scenes.ROWS,
        "columns": grid_scenes.COLUMNS,
        "fewest": grid_scenes.FEWEST,
        "most": grid_scenes.MOST,
        "numbered": NUMBERED,
    }


def numbered_scene(prompt: str) -> str:
    """The description of the scene that a prompt names by its number; "" where it names none."""
    match = NUMBER.fullmatch(prompt)
    return described(held_out(int(match[1]))) if match and 1 <= int(match[1]) <= NUMBERED else ""


def picture_size(kind: str) -> tuple[int, int]:
    """Height and width in pixels of what a model of scenes, or a reader of a "word", sees."""
    blocks = SCENES if kind == "scene" else WORDS
    return blocks.height, blocks.width


def picture_prompt(picture: Any, kind: str) -> str:
    """The prompt that holds a picture of that size: uint8 [24, 24, 3] of a scene, [32, 128] of a word."""
    blocks = SCENES if kind == "scene" else WORDS
    return f"{WORD}: {blocks.text(blocks.cut(picture))}"


def dark_on_light(greys: Any) -> Any:
    """See `engines.tasks.word_images`, which is loaded where it is asked for: it needs numpy."""
    from engines.tasks import word_images

    return word_images.dark_on_light(greys)


def picture_asked(prompt: str) -> str:
    """The slug of the picture that a prompt asks for; "" where it is none."""
    if (own := own_picture(prompt.partition(":")[2])) or (own := own_picture(prompt)):
        return "word" if len(own) == WORDS.count * WORDS.digits else "scene"
    words = " ".join(prompt.lower().split())
    return next((slug for slug, (form, _) in PICTURES.items() if form.fullmatch(words)), "")
