"""Recorded runs. The Gallery tab shows them as pictures, comparisons first, then one group for each idea: one component
draws it in the browser; a click asks for the runs by their ids. Scenes of the stage: a chip beside the prompt plays one
and fills the controls, so that Run decodes it live; above the players stand its question, what is said of the moment,
and its lever."""

import json
from typing import Any

import gradio as gr
import msgspec

from explorer.export.thumbs import beside
from explorer.links import SLOTS
from explorer.page import files
from explorer.page.handlers import Handlers
from explorer.page.parts import LAST, LIGHT, asked, hidden, module, say
from explorer.papers.schema import FAMILIES
from explorer.runs.gallery import Card, Gallery
from explorer.runs.scenarios import Scenario, scenarios

IDEAS = {
    "diffusion": "Many tokens in one call",
    "speculative": "Drafts that one call checks",
    "self-speculative": "A model that drafts for itself",
    "heads": "Heads that draft",
    "multi-token": "Several tokens from one call",
    "sampling": "What may be drawn",
    "search": "Paths through the text",
    "reasoning": "When to stop thinking",
    "routing": "Who writes the next token",
    "baselines": "Baselines of the other methods",
}
LONGEST = 160  # characters of a prompt or an output on a card


def section(handlers: Handlers, tabs: gr.Tabs, outputs: list[Any]) -> None:
    """The whole tab. outputs: bus, status, results."""
    gr.Markdown("Recorded runs of real models. They play at once and need no model.")
    if not handlers.gallery.cards:
        gr.Markdown(
            "No recorded run is installed here: the folder `assets/traces` holds none. Press Run on the Explore tab "
            "to make one."
        )
        return
    shown = module(
        "page/gallery.js",
        "page.mountGallery(element, props, () => trigger('submit'))",
        groups=json.dumps(groups(handlers.gallery), ensure_ascii=False).replace("<", "\\u003c"),
        elem_id="gallery-cards",
    )

    plays(shown, handlers, tabs, outputs)


def plays(box: gr.HTML, handlers: Handlers, tabs: gr.Tabs, outputs: list[Any]) -> None:
    """Let a click on a card of a component show its runs, for which it asks by their ids."""

    def play(value: Any, request: gr.Request) -> tuple[Any, ...]:
        return (*handlers.play(asked_for(value), request), gr.Tabs(selected="explore"))

    box.submit(play, box, [*outputs, tabs], **LAST)


def asked_for(value: Any) -> list[str]:
    """The ids that a click asks for; whoever sends something else asks for a run that is not there."""
    ids = asked(value).get("play")
    if not isinstance(ids, list) or not 1 <= len(ids) <= SLOTS:
        return [str(value)]
    return [str(card_id) for card_id in ids]


def groups(gallery: Gallery) -> list[dict[str, Any]]:
    """[{title, cards}]; a card is {ids, title, about, prompt, output, cost, watch, pictures}."""
    cards = {card.id: card for card in gallery.cards}
    compared = [_scenario(gallery, scenario.title, scenario.watch, [cards[name] for name in scenario.traces])
                for scenario in scenarios(cards)]  # fmt: skip
    known = {tuple(sorted(comparison["ids"])) for comparison in compared}
    listed = [card for card in gallery.cards if card.listed]
    for together in pairs(listed).values():
        if tuple(sorted(card.id for card in together)) not in known:
            compared.append(_scenario(gallery, ", ".join(card.title for card in together), "", together))
    made = [{"title": "Comparisons", "cards": compared}] if compared else []
    order = [*FAMILIES, *{card.family for card in listed if card.family not in FAMILIES}]
    for family in order:
        family_cards = [_single(gallery, card) for card in listed if card.family == family]
        if family_cards:
            made.append({"title": IDEAS.get(family, family.replace("_", " ").capitalize()), "cards": family_cards})
    return made


def pairs(cards: list[Card]) -> dict[str, list[Card]]:
    """Cards by prompt, where several methods ran on one; at most as many as there are players."""
    by_prompt: dict[str, list[Card]] = {}
    for card in cards:
        by_prompt.setdefault(card.prompt, []).append(card)
    return {prompt: group[:SLOTS] for prompt, group in by_prompt.items() if len({card.method for card in group}) > 1}


def _scenario(gallery: Gallery, title: str, watch: str, cards: list[Card]) -> dict[str, Any]:
    about = ", ".join(card.title for card in cards)
    return {
        "ids": [card.id for card in cards],
        "title": title,
        "about": about if about != title else " + ".join(dict.fromkeys(m for card in cards for m in card.models)),
        "prompt": cards[0].prompt[:LONGEST],
        "watch": watch,
        "pictures": pictures(gallery, cards),
    }


def _single(gallery: Gallery, card: Card) -> dict[str, Any]:
    return {
        "ids": [card.id, *([card.beside] if card.beside else [])],
        "title": card.caption or card.title,
        "about": f"{card.title} · {' + '.join(card.models)}",
        "prompt": card.prompt[:LONGEST],
        "output": card.text[:LONGEST],
        "cost": f"{card.tokens:,} tokens in {card.calls}",
        "watch": card.watch,
        "pictures": pictures(gallery, [card]),
    }


def pictures(gallery: Gallery, cards: list[Card]) -> list[str]:
    """Addresses of those that are there."""
    addresses = []
    for card in cards:
        path = beside(gallery.path(card.id))
        try:
            addresses += [files.address(path)] if path.is_file() else []
        except ValueError:  # a folder of one's own is not served
            continue
    return addresses


FIRST = 4  # chips in sight before "More scenes" is pressed; the style sheet counts them too


def recorded_scenes(handlers: Handlers) -> list[Scenario]:
    """The scenes whose runs are recorded here."""
    return scenarios([card.id for card in handlers.gallery.cards])


def chips(handlers: Handlers) -> tuple[list[tuple[gr.Button, list[str]]], gr.Button]:
    """A button and the runs that it plays, for each scene that is recorded here; and the button that asks what helps.
    Beside them one unfolds the scenes after the first ones, one shows those of a lecture alone, and one puts the slots
    on a model which reads any text, and the focus into the prompt."""
    with gr.Row(elem_id="scenarios"):
        looks = {"size": "sm", "min_width": 40, "elem_classes": ["scenario"]}
        made = [
            (gr.Button(shown.title, elem_id=f"scene-{shown.name}", **looks), [*shown.traces])
            for shown in recorded_scenes(handlers)
        ]
        if len(made) > FIRST:
            more = gr.Button("More scenes", size="sm", min_width=40, elem_id="more-scenes")
            more.click(None, js=UNFOLD)
        lecture = gr.Button("Lecture", size="sm", min_width=40, elem_id="lecture-door")
        lecture.click(None, js='() => { document.dispatchEvent(new Event("dx-lecture-open")); }')
        own = gr.Button("Compare on my text", size="sm", min_width=40, elem_id="own-text")
        own.click(None, js='() => { document.dispatchEvent(new Event("dx-own")); }')
        advise = gr.Button("Will it help on my text?", size="sm", min_width=40, elem_id="advise")
    hidden("chips", "mountChips()")
    return made, advise


UNFOLD = """() => { document.querySelector("#scenarios").setAttribute("data-all", "");
  document.querySelector("#scenarios button:nth-of-type(5)")?.focus(); }"""


def stage(handlers: Handlers) -> gr.HTML:
    """The voice of a scene; `submit` asks for the run at a place of its lever."""
    scenes = msgspec.json.encode(recorded_scenes(handlers)).decode().replace("<", "\\u003c")
    call = "page.mountStage(element, props, () => trigger('submit'))"
    return module("page/stage.js", call, scenes=scenes, elem_id="scene")


def connect_scenes(
    handlers: Handlers, made: list[tuple[gr.Button, list[str]]], scene: gr.HTML, outputs: list[Any]
) -> None:
    """Let the chips play, and the lever of a scene exchange its run."""
    for button, names in made:
        button.click(_plays(handlers, names), None, outputs, **LIGHT)
    stops = {
        (scenario.lever.slot, stop.trace)
        for scenario in recorded_scenes(handlers)
        if scenario.lever
        for stop in scenario.lever.stops
    }

    def exchange(value: Any, request: gr.Request) -> tuple[Any, ...]:
        slot, name = wished_stop(value)
        if (slot, name) not in stops:
            return gr.skip(), say(f"No lever here leads to a recorded run '{name[:60]}'.", "error"), gr.skip()
        return handlers.exchange(slot, name, request)

    scene.submit(exchange, scene, outputs, **LAST)


def wished_stop(value: Any) -> tuple[int, str]:
    """(player, run id) that a lever asks for; anything else that was sent asks for a run that is not there."""
    wish = asked(value)
    slot = wish.get("slot")
    return slot if isinstance(slot, int) else -1, str(wish.get("stop", value))


def _plays(handlers: Handlers, names: list[str]) -> Any:
    def play(request: gr.Request) -> tuple[Any, ...]:
        return handlers.play(names, request)

    return play
