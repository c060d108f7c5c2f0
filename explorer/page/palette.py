"""A scene to draw, below the prompt where a chosen model sees scenes. The prompt's text is the truth: the browser reads
the cells from it and writes them into it; which scene a number stands for is said here."""

from __future__ import annotations

import json
from typing import Any

import gradio as gr

from engines import tasks
from explorer.page.parts import LIGHT, fresh, module


def section(prompt: gr.Textbox) -> None:
    """The palette; told of the prompt whenever it changes, by whomever."""
    drawn = module(
        "page/form.js",
        "page.mountPalette(element, props, watch)",
        value=look(prompt.value),
        words=json.dumps(tasks.scene_words()),
        themed=False,
        elem_id="palette",
    )
    prompt.change(look, prompt, drawn, trigger_mode="always_last", **LIGHT)


def look(prompt: Any) -> str:
    """As the component's value: the prompt, and the description of the scene that it names by its number."""
    text = prompt if isinstance(prompt, str) else ""
    return fresh(text=text[:100], scene=tasks.numbered_scene(text) if len(text) <= 100 else "")
