"""Gradio's theme and the little CSS of the page. Colours come from `assets/theme.json` alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gradio as gr

from explorer.own_files import own_json

FONTS = ("system-ui", "-apple-system", "Segoe UI", "Roboto", "Noto Sans", "sans-serif")
MONO = ("ui-monospace", "SFMono-Regular", "Menlo", "Consolas", "Noto Sans Mono", "monospace")


def colours() -> dict[str, Any]:
    """The tokens of `assets/theme.json`."""
    return own_json("theme.json")


def theme() -> gr.themes.Base:
    """A Gradio theme from the surface colours, light and dark; the fills pass a contrast of 4.5 with their text."""
    light, dark = colours()["surface"]["light"], colours()["surface"]["dark"]
    both = {
        "body_background_fill": "page",
        "body_text_color": "text",
        "body_text_color_subdued": "muted",
        "background_fill_primary": "panel",
        "background_fill_secondary": "raised",
        "block_background_fill": "panel",
        "block_border_color": "line",
        "block_label_background_fill": "panel",
        "block_label_text_color": "text",
        "block_title_text_color": "text",
        "block_info_text_color": "muted",
        "border_color_primary": "line",
        "border_color_accent": "accent",
        "color_accent_soft": "raised",
        "input_background_fill": "panel",
        "input_border_color": "line",
        "input_border_color_focus": "accent",
        "input_placeholder_color": "muted",
        "link_text_color": "accent",
        "link_text_color_hover": "accent",
        "link_text_color_visited": "accent",
        "link_text_color_active": "accent",
        "button_primary_background_fill": "accent",
        "button_primary_background_fill_hover": "accent",
        "button_primary_text_color": "on-accent",
        "button_secondary_background_fill": "raised",
        "button_secondary_background_fill_hover": "line",
        "button_secondary_text_color": "text",
        "button_cancel_background_fill": "warn",
        "button_cancel_background_fill_hover": "warn",
        "button_cancel_text_color": "panel",
        "checkbox_background_color": "panel",
        "checkbox_border_color": "muted",
        "checkbox_background_color_selected": "accent",
        "checkbox_border_color_selected": "accent",
        "checkbox_label_background_fill": "raised",
        "checkbox_label_background_fill_selected": "raised",
        "checkbox_label_text_color": "text",
        "checkbox_label_text_color_selected": "text",
        "slider_color": "accent",
        "table_border_color": "line",
        "table_even_background_fill": "panel",
        "table_odd_background_fill": "raised",
        "table_row_focus": "raised",
        "table_text_color": "text",
    }
    values = {name: light[token] for name, token in both.items()} | {
        f"{name}_dark": dark[token] for name, token in both.items()
    }
    known = set(gr.themes.Default().set.__code__.co_varnames)
    base = gr.themes.Default(
        primary_hue="blue",
        neutral_hue="slate",
        font=FONTS,
        font_mono=MONO,
        spacing_size="sm",
        text_size="md",
        radius_size="md",
    )
    return base.set(color_accent=light["accent"], **{name: value for name, value in values.items() if name in known})


def css() -> str:
    """Page rules; the surface tokens as `--dx-<name>` in both modes in front of them."""
    light, dark = colours()["surface"]["light"], colours()["surface"]["dark"]
    declare = lambda tokens: ";".join(f"--dx-{name}:{value}" for name, value in tokens.items())  # noqa: E731
    return f":root{{{declare(light)}}}.dark{{{declare(dark)}}}" + (Path(__file__).parent / "page.css").read_text(
        encoding="utf-8"
    )
