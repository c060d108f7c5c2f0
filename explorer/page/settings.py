"""The controls take the settings of the runs that a person opens, so that Run repeats what is seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gradio as gr

from engines import Trace
from explorer.page import bundles
from explorer.page.controls import Catalogue, Slot, slot_updates
from explorer.page.limits import SLOTS


def wire(desk: Any, results: gr.HTML, above: Sequence[Any], slots: Sequence[Slot]) -> None:
    """Whenever the results change: what was opened since then goes into the controls. above: prompt, seed, number of slots."""

    def take(request: gr.Request) -> str:
        session = desk.sessions.of(request.session_hash)
        opened, session.opened = session.opened, {}
        return bundles.pack(updates(desk.catalogue, opened, len(session.traces), session.named)) if opened else ""

    controls = [one for slot in slots for one in (slot.box, slot.method, slot.model, slot.about, *slot.pool)]
    bundles.spread(results.change, take, None, [*above, *controls])


def updates(catalogue: Catalogue, opened: Mapping[int, Trace], shown: int, named: Mapping[str, str]) -> list[Any]:
    """Values for prompt, seed, number of slots and all slots. A run that was added beside others changes its own slot only; one that cannot
    run here (a record of another tool, a model that is not known) changes none. shown: how many players are filled; named: see `Session`."""
    width, wide = 4 + len(catalogue.pool), max(1, shown)
    plans = {slot: plan for slot, trace in opened.items() if (plan := catalogue.repeat(trace, named))}
    if not plans:
        return [gr.skip()] * (3 + SLOTS * width)
    first = opened[min(plans)].header
    above = [first.prompt, first.seed] if 0 in opened else [gr.skip(), gr.skip()]
    made: list[Any] = [*above, str(min(SLOTS, wide))]
    for slot in range(SLOTS):
        box = gr.update(visible=slot < wide)
        if plan := plans.get(slot):
            made += [box, plan.method, *slot_updates(catalogue, catalogue.methods[plan.method], plan.model, plan.params)]
        else:
            made += [box, *[gr.skip()] * (width - 1)]
    return made
