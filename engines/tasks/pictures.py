"""What the models of pictures are asked: a digit or a caption of two shapes to draw, a word or a scene to read. There
is no task behind these; a prompt is recognised so that a page can say which model it is for."""

from __future__ import annotations

import re

from engines.tasks.grid_scenes import FORM

THING = FORM.pattern
COLOURS, SHAPES = r"(red|green|blue|yellow|purple)", r"(circle|square|triangle)"
PICTURES = {  # slug -> a prompt's form, and an example
    "digit": (re.compile(r"\d"), "7"),
    "shapes": (
        re.compile(rf"{COLOURS} {SHAPES} (left of|above) {COLOURS} {SHAPES}"),
        "red circle left of blue square",
    ),
    "word": (re.compile(r"[a-z]{2,10}"), "address"),
    "scene": (re.compile(rf"((form|answer) ?: ?)?(scene [1-9]\d{{0,2}}|{THING}( ?, ?{THING}){{1,2}})"), "scene 12"),
}


def picture_asked(prompt: str) -> str:
    """The slug of the picture that a prompt asks for; "" where it is none."""
    words = " ".join(prompt.lower().split())
    return next((slug for slug, (form, _) in PICTURES.items() if form.fullmatch(words)), "")
