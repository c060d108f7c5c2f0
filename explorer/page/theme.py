"""Gradio's theme and the little CSS of the page. Colours come from `assets/theme.json` alone."""

from typing import Any

import gradio as gr

from engines import ASSETS
from explorer.export.look import declared
from explorer.own_files import own_json

FONTS = ("system-ui", "-apple-system", "Segoe UI", "Roboto", "Noto Sans", "sans-serif")
MONO = ("ui-monospace", "SFMono-Regular", "Menlo", "Consolas", "Noto Sans Mono", "monospace")
TOKENS = {
    "page": ("body_background_fill",),
    "text": (
        "body_text_color", "block_label_text_color", "block_title_text_color", "button_secondary_text_color",
        "checkbox_label_text_color", "checkbox_label_text_color_selected", "table_text_color",
    ),
    "muted": (
        "body_text_color_subdued", "block_info_text_color", "input_placeholder_color", "checkbox_border_color",
    ),
    "panel": (
        "background_fill_primary", "block_background_fill", "block_label_background_fill", "input_background_fill",
        "button_cancel_text_color", "checkbox_background_color", "table_even_background_fill",
    ),
    "raised": (
        "background_fill_secondary", "color_accent_soft", "button_secondary_background_fill",
        "checkbox_label_background_fill", "checkbox_label_background_fill_selected", "table_odd_background_fill",
        "table_row_focus",
    ),
    "line": (
        "block_border_color", "border_color_primary", "input_border_color",
        "button_secondary_background_fill_hover", "table_border_color",
    ),
    "accent": (
        "border_color_accent", "input_border_color_focus", "link_text_color", "link_text_color_hover",
        "link_text_color_visited", "link_text_color_active", "button_primary_background_fill",
        "button_primary_background_fill_hover", "checkbox_background_color_selected",
        "checkbox_border_color_selected", "slider_color",
    ),
    "on-accent": ("button_primary_text_color",),
    "warn": ("button_cancel_background_fill", "button_cancel_background_fill_hover"),
}  # fmt: skip
"""Of `assets/theme.json`, with what Gradio draws in it, in either mode."""


def colours() -> dict[str, Any]:
    """The tokens of `assets/theme.json`."""
    return own_json("theme.json")


def theme() -> gr.themes.Base:
    """A Gradio theme from the surface colours, light and dark; the fills pass a contrast of 4.5 with their text."""
    light, dark = colours()["surface"]["light"], colours()["surface"]["dark"]
    both = {name: token for token, names in TOKENS.items() for name in names}
    values = {name: light[token] for name, token in both.items()} | {
        f"{name}_dark": dark[token] for name, token in both.items()
    }
    base = gr.themes.Default(
        primary_hue="blue",
        neutral_hue="slate",
        font=FONTS,
        font_mono=MONO,
        spacing_size="sm",
        text_size="md",
        radius_size="md",
    )
    return base.set(color_accent=light["accent"], **values)


def tokens() -> str:
    """The surface tokens as `--dx-<name>` in both modes."""
    return f":root{{{declared('light', '--dx-')}}}.dark{{{declared('dark', '--dx-')}}}"


def css() -> str:
    """The page's rules behind its tokens, for Gradio, which gives them more weight than its own."""
    return tokens() + (ASSETS / "client/page/page.css").read_text("utf-8")
