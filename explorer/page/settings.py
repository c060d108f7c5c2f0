"""The controls take the settings of the runs that a person opens, so that Run repeats what is seen; but not one that
the person has changed while the settings were under way."""

from collections.abc import Mapping, Sequence
from typing import Any

import gradio as gr

from engines import Trace
from explorer.links import SLOTS
from explorer.page.catalogue import Catalogue
from explorer.page.parts import LIGHT

FILL = "(filled, ...now) => globalThis.dxFill?.(filled, now) ?? now.map((value, at) => filled[at] ?? value)"


def connect(handlers: Any, changed: Any, controls: Sequence[Any]) -> None:
    """Whenever the results change: what was opened since then goes into the controls. changed: what else that event
    does, after which it is this one's turn. controls: prompt, seed, number of slots, and the forms of the slots."""

    def take(request: gr.Request) -> list[Any]:
        session = handlers.session(request)
        asked, session.asked = session.asked, ""
        return updates(handlers.catalogue, session.take_opened(), len(session.slots), session.named, asked)

    values = gr.JSON(visible="hidden")
    taken = changed.then(take, None, values, **LIGHT)
    taken.then(None, [values, *controls], list(controls), js=FILL, api_visibility="private")


def updates(
    catalogue: Catalogue, opened: Mapping[int, Trace], shown: int, named: Mapping[str, str], asked: str = ""
) -> list[Any]:
    """Values for prompt, seed, number of slots and the form of each slot, None for what stays. A run that was added
    beside others changes its own slot only; one that cannot run here (a record of another tool, a model that is not
    known) changes none. shown: how many players are filled; named: see `Session`; asked: a prompt that the page has
    sent itself, which is not written over what was typed meanwhile."""
    plans = {slot: plan for slot, trace in opened.items() if (plan := catalogue.repeat(trace, named))}
    if not plans:
        return [None] * (3 + SLOTS)
    first = opened[min(plans)].header
    own = asked.strip() == first.prompt.strip()
    above = [None if own else first.prompt, first.seed] if 0 in opened else [None, None]
    forms = [catalogue.form(plans[slot]).text() if slot in plans else None for slot in range(SLOTS)]
    return [*above, str(min(SLOTS, max(1, shown))), *forms]
