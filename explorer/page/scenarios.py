"""Scenes of the stage: a chip beside the prompt plays one and fills the controls, so that Run decodes it live. Above
the players stand its question, what is said of the moment, and its lever."""

from typing import Any

import gradio as gr
import msgspec

from explorer.page.handlers import Handlers
from explorer.page.parts import LAST, LIGHT, asked, hidden, module, say
from explorer.runs.scenarios import Scenario, scenarios

FIRST = 4  # chips in sight before "More scenes" is pressed; the style sheet counts them too


def recorded(handlers: Handlers) -> list[Scenario]:
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
            for shown in recorded(handlers)
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
    scenes = msgspec.json.encode(recorded(handlers)).decode().replace("<", "\\u003c")
    call = "page.mountStage(element, props, () => trigger('submit'))"
    return module("page/stage.js", call, scenes=scenes, elem_id="scene")


def connect(handlers: Handlers, made: list[tuple[gr.Button, list[str]]], scene: gr.HTML, outputs: list[Any]) -> None:
    """Let the chips play, and the lever of a scene exchange its run."""
    for button, names in made:
        button.click(_player(handlers, names), None, outputs, **LIGHT)
    stops = {
        (scenario.lever.slot, stop.trace)
        for scenario in recorded(handlers)
        if scenario.lever
        for stop in scenario.lever.stops
    }

    def exchange(value: Any, request: gr.Request) -> tuple[Any, ...]:
        slot, name = asked_for(value)
        if (slot, name) not in stops:
            return gr.skip(), say(f"No lever here leads to a recorded run '{name[:60]}'.", "error"), gr.skip()
        return handlers.showing.exchange(slot, name, request)

    scene.submit(exchange, scene, outputs, **LAST)


def asked_for(value: Any) -> tuple[int, str]:
    """The player and the id of the run that a lever asks for; whoever sends something else asks for a run that is not
    there."""
    wish = asked(value)
    slot = wish.get("slot")
    return slot if isinstance(slot, int) else -1, str(wish.get("stop", value))


def _player(handlers: Handlers, names: list[str]) -> Any:
    def play(request: gr.Request) -> tuple[Any, ...]:
        return handlers.showing.play(names, request)

    return play
