"""The chooser of the Methods tab: four questions, one search, a card for each method. What it shows is sent when the
tab is opened first."""

import re
from typing import Any

import gradio as gr

from explorer.page import entries
from explorer.page.gallery import pictures, plays
from explorer.page.handlers import Handlers
from explorer.page.parts import LIGHT, fresh, module


def section(tab: gr.Tab, handlers: Handlers, tabs: gr.Tabs, outputs: list[Any]) -> None:
    """outputs: bus, status, results."""
    sent = gr.State(False)
    box = module(
        "page/chooser.js",
        "page.mountChooser(element, props, watch, () => trigger('submit'))",
        elem_id="chooser",
    )

    tab.select(lambda before: (gr.skip() if before else fresh(**payload(handlers)), True), sent, [box, sent], **LIGHT)
    plays(box, handlers, tabs, outputs)


def payload(handlers: Handlers) -> dict[str, Any]:
    """{entries} for the module. An entry is what `explorer.page.entries` says, with the addresses of its pictures,
    and whether a model that it runs on is here."""
    infos, cards = handlers.catalogue.methods, {card.id: card for card in handlers.gallery.cards}
    choices = entries.entries(infos, list(cards.values()))
    for entry in choices:
        entry["pictures"] = pictures(handlers.gallery, [cards[entry["play"][0]]]) if entry["play"] else []
        entry["runs"] = _to_try(entry, handlers.catalogue.fitting(infos[entry["id"]])) if entry["method"] else []
    return {"entries": choices}


def _to_try(entry: dict[str, Any], fitting: list[str]) -> list[str]:
    """The models that a method is tried on: those that its recordings or its paper's file name, where any does. Others
    fit too, but a method for pictures says little on a model of words."""
    named = set(entry["recorded"]) | set(re.findall(r"[\w.-]*\w", entry["on"]))
    return [name for name in fitting if name in named or not entry["on"]] or fitting
