"""What the picture models are asked: a digit, or a caption of two shapes. Their answers are pictures, so there is no
exact check of them; a prompt is recognised so that a page can say which model it is for."""

from __future__ import annotations

import re

COLOURS, SHAPES = r"(red|green|blue|yellow|purple)", r"(circle|square|triangle)"
PICTURES = {  # slug -> a prompt's form, and an example
    "digit": (re.compile(r"\d"), "7"),
    "shapes": (
        re.compile(rf"{COLOURS} {SHAPES} (left of|above) {COLOURS} {SHAPES}"),
        "red circle left of blue square",
    ),
}


def picture_asked(prompt: str) -> str:
    """The slug of the picture that a prompt asks for; "" where it is none."""
    words = " ".join(prompt.lower().split())
    return next((slug for slug, (form, _) in PICTURES.items() if form.fullmatch(words)), "")
