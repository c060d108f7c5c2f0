"""What happens on a click. Everything here can be called by anyone who reaches the server, so every value is checked
again."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import gradio as gr

from engines import Trace, TraceError, UserError
from explorer.page import curves, tables
from explorer.page.catalogue import Catalogue, Plan
from explorer.page.clients import client_of
from explorer.page.feed import MODEL_LOCK, Feed, message, whole
from explorer.page.form import read
from explorer.page.jobs import idle, joined, runs, stopped, summary, ties
from explorer.page.limits import SLOTS, Limits, check_seed, short
from explorer.page.my_runs import MyRuns, batches, script
from explorer.page.parts import fresh, say
from explorer.page.saving import files
from explorer.page.sessions import Session, Sessions, packed
from explorer.page.zerogpu import start
from explorer.runs.gallery import Gallery, read_pasted

COUNTS = [kind(n + 1) for n in range(SLOTS) for kind in (int, str)]
STOP_PATIENCE = 30.0  # seconds that Stop waits for the forward under way
TITLE = 80  # characters of a title in a sentence
log = logging.getLogger("decoding-explorer")

Outputs = tuple[Any, Any, Any]  # bus, status, results


class Handlers:
    """The page's event handlers over one gallery, one catalogue and the sessions."""

    def __init__(self, gallery: Gallery, catalogue: Catalogue, limits: Limits) -> None:
        self.gallery, self.catalogue, self.limits = gallery, catalogue, limits
        self.opened = dict(enumerate(gallery.opening().items()))  # slot -> (name, trace)
        self.opening = {slot: trace for slot, (_, trace) in self.opened.items()}
        self.sessions = Sessions(self.opening)
        self.my_runs = MyRuns.open(gallery, limits)

    def session(self, request: gr.Request) -> Session:
        """What is remembered of the page that asks."""
        return self.sessions.of(request.session_hash, client_of(request))

    def run(
        self, request: gr.Request, prompt: Any = None, seed: Any = None, count: Any = None, *forms: Any
    ) -> Iterator[Outputs]:
        """Run the slots one after the other. Yields before the first model call, so that a cancelled run is closed by
        Gradio. forms: of all slots; the first `count` are run.

        What the players show stays until the first run has begun: a refusal that only the loaded model can give costs
        nothing."""
        session = self.session(request)
        try:
            prompt, seed = self.limits.check_prompt(prompt), check_seed(seed)
            plans = self._plans(count, forms)
        except UserError as error:
            yield gr.skip(), say(str(error), "error"), gr.skip()
            return
        job = session.begin()
        feeds = [
            Feed(job, slot, self.catalogue.methods[plan.method].title, self.my_runs.keep_for(request))
            for slot, plan in enumerate(plans)
        ]
        job.queued = [feed.queued() for feed in feeds]
        words = f"Running {runs(len(plans))}. The first run of a model loads it."
        try:
            yield message(expect=True), say(words), gr.skip()
            for feed, plan in zip(feeds, plans, strict=True):
                if not job.go_on():
                    break
                try:
                    for one in feed.messages(plan, prompt, seed, self.limits):
                        if job.cleared:
                            yield one, gr.skip(), gr.skip()
                        elif job.begun:
                            session.show({})
                            yield joined(job), say(words, go="stage"), tables.results({})
                            job.cleared = True
                finally:
                    if feed.trace:
                        session.keep(feed.slot, feed.trace)
                        session.named[feed.trace.header.models[0].name] = plan.model
            if job.begun:
                close = {} if job.stop.is_set() else ties(plans, session.traces)
                yield idle(feeds), summary(job, feeds), tables.results(session.traces, close)
            else:
                yield message(expect=False), summary(job, feeds), gr.skip()
        finally:
            job.last.append(idle(feeds))
            job.finished.set()

    def _plans(self, count: Any, forms: tuple[Any, ...]) -> list[Plan]:
        """The plans of the slots that run. Raises UserError, with the slot's number, before anything that is shown is
        put away."""
        slots = int(count) if count in COUNTS else 0
        if not 1 <= slots <= min(SLOTS, len(forms)):
            raise UserError(f"{short(count)} slots cannot be run; choose 1 to {SLOTS}.")
        plans = []
        for slot in range(slots):
            try:
                plans.append(self.catalogue.read_form(read(forms[slot])))
            except UserError as error:
                raise UserError(f"slot {slot + 1}: {error}") from None
        return plans

    def stop(self, request: gr.Request) -> Outputs:
        """Ask the run to end, wait for the forward under way, and show what there is. The cancelled event itself can
        show nothing any more."""
        session = self.session(request)
        job = session.running
        if job is None:
            return gr.skip(), say("Nothing is running; a run that was waiting is withdrawn."), gr.skip()
        job.end()
        if not job.finished.wait(STOP_PATIENCE):
            return gr.skip(), say("Stopping: the work under way is not finished yet.", "error"), gr.skip()
        if not job.begun:
            return message(expect=False), stopped(job), gr.skip()
        return joined(job), stopped(job), tables.results(session.traces)

    def play(self, names: list[str], request: gr.Request) -> Outputs:
        """Show recorded traces, and nothing else. No model is touched."""
        try:
            traces = {slot: self.gallery.get(name) for slot, name in enumerate(names)}
        except TraceError as error:
            return gr.skip(), say(str(error), "error"), gr.skip()
        said = ", ".join(trace.header.title for trace in traces.values())
        return self._show(self.session(request), traces, f"Recorded: {said}.", dict(enumerate(names)))

    def follow(self, query: Any, request: gr.Request) -> Outputs:
        """Show the runs of a link, at the step, clock and lane that it names."""
        try:
            found, view, gone = self.my_runs.linked(query)
        except UserError as error:
            return gr.skip(), say(f"The link could not be followed: {error}", "error"), gr.skip()
        missing = " ".join(one[:1].upper() + one[1:] for one in gone)
        if not found:
            return gr.skip(), say(missing, "error") if missing else gr.skip(), gr.skip()
        session = self.session(request)
        traces = {slot: trace for slot, (_, trace) in found.items()}
        kept = {slot: packed(trace) for slot, trace in traces.items()}
        try:
            self._check_room(kept.values(), request)
        except UserError as error:
            return gr.skip(), say(f"The link could not be followed: {error}", "error"), gr.skip()
        session.show(kept)
        session.opened = set(traces)
        text = say(" ".join(["Opened from the link.", missing]).strip(), "error" if missing else "ok", go="stage")
        return message(*batches(found), clear=True, view=view), text, tables.results(traces)

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
            return self._show(
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

    def keep_shown(self, request: gr.Request) -> tuple[Any, Any]:
        """Keep the traces that the players show, such as one that was opened from a file. Returns (bus, status)."""
        found, said = self.my_runs.keep_all(self.session(request).traces, request)
        return message(ids=found) if found else gr.skip(), say(said, "ok" if found else "error")

    def as_python(self, request: gr.Request) -> str:
        """The lines that repeat what is shown."""
        return script(self.session(request).traces)

    @staticmethod
    def free_player(session: Session) -> int:
        """The player that takes the next run: the first empty one, else the last."""
        return next((i for i in range(SLOTS) if i not in session.slots), SLOTS - 1)

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
        try:
            with MODEL_LOCK:
                trace = decode(max_steps=self.limits.steps, max_seconds=self.limits.seconds)
        except UserError as error:
            yield gr.skip(), say(str(error), "error"), gr.skip()
            return
        found, _ = self.my_runs.keep_all({0: trace}, request) if self.my_runs.keep else ({}, "")
        step = at(trace)
        where = "" if step is None else f" Shown after step {step}, which wrote the first wrong word."
        yield self._show(self.session(request), {0: trace}, f"Run again: {words}.{where}", found, step)

    def _check_room(self, kept: Iterable[bytes], request: gr.Request) -> None:
        """Raises UserError where a public host has no room for these packed traces."""
        if self.limits.public:
            self.sessions.check_room(sum(map(len, kept)), client_of(request))

    def take_in(self, text: Any, request: gr.Request) -> Outputs:
        """Show a trace that a person brought, beside what is shown already."""
        session = self.session(request)
        try:
            if session.running:
                raise TraceError("a run is going on; stop it or wait for its end, then open the trace.")
            trace = read_pasted(text, self.limits.trace_characters)
            kept = packed(trace)
            self._check_room([kept], request)
            shown = tables.results(
                {0: trace}
            )  # a trace that passes validation but cannot be measured is refused as well
        except (TraceError, UserError) as error:
            return gr.skip(), say(f"The trace was not opened: {error}", "error"), gr.skip()
        except Exception:
            log.exception("an imported trace could not be shown")
            return gr.skip(), say("The trace was not opened: its parts contradict each other.", "error"), gr.skip()
        del shown
        slot = self.free_player(session)
        session.keep(slot, kept)
        session.opened = {slot}
        words = say(f"Opened in player {slot + 1}: {trace.header.title[:TITLE]}.", "ok", f"panel-{slot}")
        return message(whole(slot, trace)), words, tables.results(session.traces)

    def _show(
        self,
        session: Session,
        traces: dict[int, Trace],
        text: str,
        names: Mapping[int, str] = {},
        at: int | None = None,
    ) -> Outputs:
        if session.running:
            return (
                gr.skip(),
                say("A run is going on; stop it or wait for its end, then open the recorded run.", "error"),
                gr.skip(),
            )
        session.show(traces)
        session.opened = set(traces)
        shown = (whole(slot, trace, at, name=names.get(slot, "")) for slot, trace in traces.items())
        return message(*shown, clear=True, play=at is None), say(text, "ok", go="stage"), tables.results(traces)

    def chosen(self, what: Any, request: gr.Request) -> dict[int, Trace]:
        """The traces of one player or of "all". Raises UserError where there is none."""
        session = self.session(request)
        slots = sorted(slot for slot in session.slots if what == "all" or str(slot) == str(what))
        chosen = {slot: trace for slot in slots if (trace := session.trace(slot)) is not None}
        if not chosen:
            raise UserError("there is nothing to save in that player; run or open something first.")
        return chosen

    def save(self, what: Any, kind: str, request: gr.Request) -> tuple[Any, Any]:
        """Compose files from the shown traces: `kind` is json (one player), html or csv (one or all). Returns
        (download, status)."""
        try:
            found = files(self.chosen(what, request), kind)
        except UserError as error:
            return gr.skip(), say(str(error), "error")
        return fresh(files=found), say("Saved " + ", ".join(file["name"] for file in found) + ".", "ok")

    def save_json(self, what: Any, request: gr.Request) -> tuple[Any, Any]:
        """One trace file per chosen player."""
        return self.save(what, "json", request)

    def save_html(self, what: Any, request: gr.Request) -> tuple[Any, Any]:
        """One page with the chosen players."""
        return self.save(what, "html", request)

    def save_events(self, what: Any, request: gr.Request) -> tuple[Any, Any]:
        """The events of the chosen players as one table."""
        return self.save(what, "csv", request)

    def closed(self, request: gr.Request) -> None:
        """The page was closed."""
        self.sessions.drop(request.session_hash)

    def numbers(self, request: gr.Request) -> str:
        """The table of all numbers."""
        return tables.numbers(self.session(request).traces)

    def curves(self, request: gr.Request) -> tuple[Any, Any]:
        """Both summary figures; the first call imports plotly."""
        traces = self.session(request).traces
        return curves.tokens_figure(traces), curves.confidence_figure(traces)

    def redraw(self, drawn: Any, request: gr.Request) -> tuple[Any, Any]:
        """The figures again, if they were drawn before; a page that never asked for curves never loads plotly."""
        return self.curves(request) if drawn else (gr.skip(), gr.skip())

    def decode(
        self,
        method: str = "",
        model: str = "",
        prompt: str = "",
        params: dict = {},  # type: ignore[type-arg]  # noqa: B006 - Gradio reads this signature
        seed: int = 0,
        form: dict = {},  # type: ignore[type-arg]  # noqa: B006
    ) -> dict:  # type: ignore[type-arg]
        """Decode a prompt and return the finished trace as JSON. What runs is a slot's form, an object with method,
        model and params, or these three by themselves."""
        try:
            prompt, seed = self.limits.check_prompt(prompt), check_seed(seed)
            plan = self._plan(method, model, params, form)
            with MODEL_LOCK:
                run = start(plan, prompt, seed, self.limits)
                try:
                    for _ in run:
                        pass
                finally:
                    run.close()
                trace = run.trace()
        except UserError as error:
            raise gr.Error(str(error), print_exception=False) from None
        return json.loads(trace.to_json())

    def _plan(self, method: object, model: object, params: object, form: object) -> Plan:
        """What the endpoint was given, as a plan. Raises UserError."""
        if form:
            if method or model or params:
                raise UserError("both a form and a method, model or params are given; give either.")
            return self.catalogue.read_form(read(form))
        if not isinstance(params, Mapping):
            raise UserError('params is not an object; give names and values such as {"max_new_tokens": 32}.')
        if not isinstance(model, str):
            raise UserError("the model is not text; give its name.")
        return self.catalogue.plan(self.catalogue.known(method).slug, model, params)
