"""Traces that are there already, or are run again, into the players: recorded, kept, linked and brought ones; and the
tables and figures below the players."""

import logging
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import gradio as gr

from engines import Trace, TraceError, UserError
from explorer.figures.names import name_of
from explorer.page import curves, tables
from explorer.page.feed import MODEL_LOCK, message, whole
from explorer.page.handlers.desk import Desk, Outputs
from explorer.page.my_runs import batches
from explorer.page.parts import capital, refusals, say
from explorer.page.sessions import packed
from explorer.runs.gallery import read_pasted

TITLE = 80  # characters of a title in a sentence
_asked = count(1)
log = logging.getLogger("decoding-explorer")


class Showing(Desk):
    """Puts traces into the players."""

    @refusals(1, 3)
    def play(self, names: list[str], request: gr.Request) -> Outputs:
        """Show recorded traces, and nothing else. No model is touched."""
        traces = {slot: self.gallery.get(name) for slot, name in enumerate(names)}
        titles = ", ".join(name_of(trace, traces.values()) for trace in traces.values())
        return self.show(self.session(request), traces, f"Recorded: {titles}.", dict(enumerate(names)))

    @refusals(1, 3)
    def exchange(self, slot: int, name: str, request: gr.Request) -> Outputs:
        """Show a recorded trace at its end in one player; the others stay. No model is touched."""
        session = self.session(request)
        if session.running:
            raise TraceError("a run is going on; stop it or wait for its end, then move the lever again.")
        trace = self.gallery.get(name)
        session.keep(slot, trace)
        session.opened = {slot}
        return message(whole(slot, trace, len(trace.steps), name=name)), gr.skip(), tables.results(session.traces)

    def follow(self, query: Any, request: gr.Request) -> Outputs:
        """Show the runs of a link, at the step, clock and lane that it names."""
        try:
            linked, view, gone = self.my_runs.linked(query)
        except UserError as error:
            return gr.skip(), say(f"The link could not be followed: {error}", "error"), gr.skip()
        missing = " ".join(map(capital, gone))
        if not linked:
            return gr.skip(), say(missing, "error") if missing else gr.skip(), gr.skip()
        session = self.session(request)
        if session.running:
            return gr.skip(), say("A run is going on; stop it or wait for its end, then go back.", "error"), gr.skip()
        traces = {slot: trace for slot, (_, trace) in linked.items()}
        kept = {slot: packed(trace) for slot, trace in traces.items()}
        try:
            self.check_room(kept.values(), request)
        except UserError as error:
            return gr.skip(), say(f"The link could not be followed: {error}", "error"), gr.skip()
        session.show(kept)
        session.opened = set(traces)
        text = say(" ".join(["Opened from the link.", missing]).strip(), "error" if missing else "ok", go="stage")
        again = next(_asked)  # the same link followed twice begins anew
        return (
            message(*batches(linked), clear=True, play=view.pop("play", False), view=view, again=again),
            text,
            tables.results(traces),
        )

    def open_kept(self, name: str, beside: bool, request: gr.Request) -> tuple[Outputs, bool]:
        """Show a kept run, alone or in the next free player; and whether it is shown."""
        session = self.session(request)
        try:
            if not self.my_runs.listed:
                raise TraceError(self.my_runs.why)
            trace = self.my_runs.get(name)
        except TraceError as error:
            return (gr.skip(), say(str(error), "error"), gr.skip()), False
        if not beside or session.running:
            return self.show(
                session, {0: trace}, f"From your runs: {trace.header.title}.", {0: name}
            ), session.running is None
        slot = self.free_player(session)
        session.keep(slot, trace)
        session.opened = {slot}
        return (
            message(whole(slot, trace, name=name)),
            say(f"Added in player {slot + 1}: {trace.header.title}.", "ok", f"panel-{slot}"),
            tables.results(session.traces),
        ), True

    @refusals(1, 3)
    def run_again(
        self,
        decode: Callable[..., Trace],
        words: str,
        request: gr.Request,
        at: Callable[[Trace], int | None] = lambda trace: None,
    ) -> Iterator[Outputs]:
        """Run `decode(max_steps=, max_seconds=)` now and show its trace, and nothing else. Yields before the model is
        touched.

        at: the number of finished steps to show it at, still; None plays it from the start.
        """
        yield gr.skip(), say(f"Running {words}."), gr.skip()
        with MODEL_LOCK:
            trace = decode(max_steps=self.limits.steps, max_seconds=self.limits.seconds)
        ids, _ = self.my_runs.keep_all({0: trace}, request) if self.my_runs.keep else ({}, "")
        step = at(trace)
        where = "" if step is None else f" Shown after step {step}, which wrote the first wrong word."
        yield self.show(self.session(request), {0: trace}, f"Run again: {words}.{where}", ids, step)

    def take_in(self, text: Any, request: gr.Request) -> Outputs:
        """Show a trace that a person brought, next to what is shown already."""
        session = self.session(request)
        try:
            if session.running:
                raise TraceError("a run is going on; stop it or wait for its end, then open the trace.")
            trace = read_pasted(text, self.limits.trace_characters)
            kept = packed(trace)
            self.check_room([kept], request)
            slot = self.free_player(session)
            # a trace that passes validation but cannot be measured is refused as well
            shown = tables.results(dict(sorted({**session.traces, slot: trace}.items())))
            batch = message(whole(slot, trace))
        except (TraceError, UserError) as error:
            return gr.skip(), say(f"The trace was not opened: {error}", "error"), gr.skip()
        except Exception:
            log.exception("an imported trace could not be shown")
            return gr.skip(), say("The trace was not opened: its parts contradict each other.", "error"), gr.skip()
        session.keep(slot, kept)
        session.opened = {slot}
        words = say(f"Opened in player {slot + 1}: {trace.header.title[:TITLE]}.", "ok", f"panel-{slot}")
        return batch, words, shown


class Summing(Desk):
    """Sums up what the players show."""

    def numbers(self, request: gr.Request) -> str:
        """The table of all numbers."""
        return tables.numbers(self.session(request).traces)

    def curves(self, request: gr.Request) -> tuple[Any, ...]:
        """Both summary figures; the first call imports plotly."""
        return curves.summary_figures(self.session(request).traces)

    def redraw(self, drawn: Any, request: gr.Request) -> tuple[Any, ...]:
        """The figures again, if they were drawn before; a page that never asked for curves never loads plotly."""
        return self.curves(request) if drawn else (gr.skip(), gr.skip())
