"""A scene to draw, below the prompt where a chosen model sees scenes. The prompt's text is the truth: the browser reads
the cells from it and writes them into it; which scene a number stands for is said here."""

from __future__ import annotations

import json
from typing import Any

import gradio as gr

from engines import tasks
from explorer.page.parts import LAST, fresh, module


def section(prompt: gr.Textbox) -> None:
    """The palette. The browser tells it of every change of the prompt; it asks the server only of one that names a
    scene by its number, while it is seen."""
    drawn = module(
        "page/form.js",
        "page.mountPalette(element, props, watch, trigger)",
        words=json.dumps(tasks.scene_words()),
        themed=False,
        elem_id="palette",
    )
    prompt.change(None, js='() => { document.dispatchEvent(new Event("dx-prompt")); }', api_visibility="private")
    drawn.submit(answer, drawn, drawn, **LAST)


def answer(value: Any) -> str:
    """The component's value for the one that it sent: JSON of {text}. Anything else may come from anyone, and names no
    scene."""
    try:
        return look(json.loads(value).get("text"))
    except (ValueError, TypeError, AttributeError, RecursionError):
        return look(None)


def look(prompt: Any) -> str:
    """As the component's value: the prompt, and the description of the scene that it names by its number."""
    text = prompt if isinstance(prompt, str) else ""
    return fresh(text=text[:100], scene=tasks.numbered_scene(text) if len(text) <= 100 else "")
