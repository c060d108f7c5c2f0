"""Traces that are there already, or are run again, into the players: recorded, kept, linked and brought ones; lists
whose chosen row is run again with everything recorded and shown at the step that failed; and the tables and figures
below the players."""

import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any, NamedTuple

import gradio as gr

from engines import Trace, TraceError, UserError
from explorer.figures.names import name_of
from explorer.figures.verdict import judge
from explorer.page import curves, tables
from explorer.page.feed import MODEL_LOCK, message, whole
from explorer.page.handlers.desk import Desk, Outputs
from explorer.page.my_runs import batches
from explorer.page.parts import ONE_AT_A_TIME, alerts, capital, refusals, say
from explorer.page.sessions import packed
from explorer.runs.gallery import read_pasted

TITLE = 80  # characters of a title in a sentence
_asked = count(1)
log = logging.getLogger("decoding-explorer")


class Showing(Desk):
    """Puts traces into the players, and sums up what they show."""

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
    def run_again(self, decode: Callable[..., Trace], words: str, request: gr.Request) -> Iterator[Outputs]:
        """Run `decode(max_steps=, max_seconds=)` now and show its trace, and nothing else, still at the step that wrote
        the first wrong word where there is one. Yields before the model is touched."""
        yield gr.skip(), say(f"Running {words}."), gr.skip()
        with MODEL_LOCK:
            trace = decode(max_steps=self.limits.steps, max_seconds=self.limits.seconds)
        ids, _ = self.my_runs.keep_all({0: trace}, request) if self.my_runs.keep else ({}, "")
        step = failed_at(trace)
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

    def numbers(self, request: gr.Request) -> str:
        """The table of all numbers."""
        return tables.numbers(self.session(request).traces)

    def curves(self, request: gr.Request) -> tuple[Any, ...]:
        """Both summary figures; the first call imports plotly."""
        return curves.summary_figures(self.session(request).traces)

    def redraw(self, drawn: Any, request: gr.Request) -> tuple[Any, ...]:
        """The figures again, if they were drawn before; a page that never asked for curves never loads plotly."""
        return self.curves(request) if drawn else (gr.skip(), gr.skip())


class Replay(NamedTuple):
    """What a row runs again: `decode(max_steps=, max_seconds=)`, and the words for it."""

    decode: Callable[..., Trace]
    words: str


def listing(heads: list[str], name: str, label: str) -> gr.Dataframe:
    """A list with these columns, of which a row can be chosen."""
    return gr.Dataframe(headers=heads, interactive=False, elem_id=name, label=label, max_height=420, wrap=True)


def opens(
    frame: gr.Dataframe,
    find: Callable[[Any, Any, gr.Request], Replay],
    beside: Any,
    handlers: Showing,
    tabs: gr.Tabs,
    outputs: Sequence[Any],
) -> None:
    """Connect a list. find(row, value of `beside`, request) says what to run and raises UserError for what is no row:
    anyone can send one."""

    def play(value: Any, event: gr.SelectData, request: gr.Request) -> Iterator[tuple[Any, ...]]:
        with alerts():
            replay = find(event.row_value, value, request)
        for shown in handlers.run_again(replay.decode, replay.words, request):
            yield (*shown, gr.Tabs(selected="explore"))

    played = frame.select(play, beside, [*outputs, tabs], show_progress_on=[outputs[1]], **ONE_AT_A_TIME)
    played.then(None, js="() => window.scrollTo({ top: 0 })")  # the players are at the top of their tab


def failed_at(trace: Trace) -> int | None:
    """The number of finished steps that shows the first wrong word just written; None where nothing is wrong or nothing
    is known."""
    mark = judge(trace)
    return None if mark is None or mark.step is None else mark.step + 1


def row_number(row: Any, below: int, what: str) -> int:
    """The number that is first in a row. Raises UserError for what is no row."""
    number = str(row[0]) if isinstance(row, (list, tuple)) and row else ""
    if not number.isascii() or not number.isdigit() or len(number) > 9 or int(number) >= below:
        raise UserError(f"'{number[:20]}' is no {what}; choose a row of the list.")
    return int(number)
