"""A click on Run, and one on Stop; what the page is told of a job: how many runs it has, how it ended, and what Stop
sends again; and the endpoint `decode` for programs, without a page."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

import gradio as gr

from engines import Trace, UserError
from explorer.figures.compare import Tie, control_of, near_tie, same_forwards
from explorer.links import SLOTS
from explorer.page import tables
from explorer.page.catalogue import Form, load, name_of
from explorer.page.feed import MODEL_LOCK, Feed, message
from explorer.page.form import read
from explorer.page.handlers.desk import Desk, Outputs
from explorer.page.parts import alerts, refusals, say
from explorer.page.run_limits import Limits, check_seed, short
from explorer.page.sessions import Job
from explorer.page.starting import loading, reads, start

COUNTS = [kind(n + 1) for n in range(SLOTS) for kind in (int, str)]
STOP_PATIENCE = 30.0  # seconds that Stop waits for the forward under way


class Running(Desk):
    """Runs what the slots of a page ask for, and decodes for a program without a page."""

    @refusals(1, 3)
    def run(
        self, request: gr.Request, prompt: Any = None, seed: Any = None, count: Any = None, *forms: Any
    ) -> Iterator[Outputs]:
        """Run the slots one after the other. Yields before the first model call, so that a cancelled run is closed by
        Gradio. forms: of all slots; the first `count` are run.

        What the players show stays until the first run has begun: a refusal that only the loaded model can give costs
        nothing."""
        session = self.session(request)
        prompt, seed = self.limits.check_prompt(prompt), check_seed(seed)
        plans = self._plans(count, forms)
        job = session.begin()
        keep, methods = self.my_runs.keep_for(request), self.catalogue.methods
        feeds = [
            Feed(job, slot, methods[plan.method].title, keep, plan.invariant(self.limits))
            for slot, plan in enumerate(plans)
        ]
        job.queued = [feed.queued() for feed in feeds]
        words = beginning(len(plans))
        try:
            known = {slot: reads(plan, prompt, self.limits) for slot, plan in enumerate(plans)}
            yield message(expect=True, tokens=known), say(words), gr.skip()
            for feed, plan in zip(feeds, plans, strict=True):
                if not job.go_on():
                    break
                if first := loading(plan, self.limits):
                    waits = feed.loading(first) if job.cleared else message(expect=True, loading=first)
                    yield waits, gr.skip(), gr.skip()
                try:
                    for batch in feed.messages(plan, prompt, seed, self.limits):
                        if job.cleared:
                            yield batch, gr.skip(), gr.skip()
                        elif feed.waiting:
                            yield message(expect=True, loading=feed.waiting), gr.skip(), gr.skip()
                        elif job.begun:
                            session.show({})
                            yield joined(job), say(feed.caution or words, go="stage"), tables.results({})
                            job.cleared = True
                finally:
                    if feed.trace:
                        session.keep(feed.slot, feed.trace)
                        session.named[name_of(feed.trace)] = plan.model
            if job.begun:
                close = {} if job.stop.is_set() else ties(plans, session.traces, self.limits)
                yield idle(feeds), summary(job, feeds), tables.results(session.traces, close)
            else:
                yield message(expect=False), summary(job, feeds), gr.skip()
        finally:
            job.last.append(idle(feeds))
            job.finished.set()

    def _plans(self, count: Any, forms: tuple[Any, ...]) -> list[Form]:
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
        with alerts():
            prompt, seed = self.limits.check_prompt(prompt), check_seed(seed)
            plan = self._plan(method, model, params, form)
            with MODEL_LOCK:
                with closing(start(plan, prompt, seed, self.limits)) as run:
                    for _ in run:
                        pass
                trace = run.trace()
        return json.loads(trace.to_json())

    def _plan(self, method: object, model: object, params: object, form: object) -> Form:
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


def beginning(n: int) -> str:
    """The status line while so many runs are made. Whole sentences, so that each language can say them in its way."""
    return "Running one run." if n == 1 else f"Running {n} runs, one after the other."


def stopped(job: Job) -> str:
    """The status line after Stop."""
    return job.said or say(
        "Stopped; what was decoded so far stays."
        if job.begun
        else "Stopped before anything was decoded; what was shown stays.",
        "ok",
    )


def summary(job: Job, feeds: list[Feed]) -> str:
    """The status line at the end of a job."""
    if job.stop.is_set():
        return stopped(job)
    failed = [f"Slot {feed.slot + 1}: {feed.failure}" for feed in feeds if feed.failure]
    if failed:
        return say(" ".join(failed), "error")
    unkept = [feed.unkept for feed in feeds if feed.unkept]
    if unkept:
        return say(" ".join(unkept), "error")
    seconds, n = sum(feed.trace.totals.model_seconds for feed in feeds if feed.trace), len(feeds)
    if n == 1:
        done = f"Done: one run, {seconds:.2f} s of model time (measured)."
    else:
        done = f"Done: {n} runs, one after the other, {seconds:.2f} s of model time (measured)."
    notes = dict.fromkeys(feed.without for feed in feeds if feed.without)
    return say(" ".join([done, *notes, "Space plays and pauses, arrows step."]), "ok")


def joined(job: Job) -> str:
    """The last messages of a job as one; batches that the page has seen are ignored there by their number. Clears the
    page unless that is done."""
    return message(
        *job.queued, *(batch for text in job.last for batch in json.loads(text)["batches"]), clear=not job.cleared
    )


def idle(feeds: list[Feed]) -> str:
    """Slots that never got their turn say so."""
    return message(
        *(
            {**feed.queued(), "seq": 1, "state": "stopped", "message": "Stopped before its turn."}
            for feed in feeds
            if not feed.begun
        )
    )


def ties(plans: Sequence[Form], traces: Mapping[int, Trace], limits: Limits) -> dict[int, Tie]:
    """By slot the two logits where a lossless run diverged from its control: one more look at the model, which is
    loaded and has just run."""
    near_ties: dict[int, Tie] = {}
    for slot, trace in traces.items():
        control = control_of(trace, traces)
        if not control or not same_forwards(trace, control):  # the logits of one network explain no other's choice
            continue
        if trace.header.lossless and not trace.header.params.get("temperature", 0):
            with MODEL_LOCK:
                tie = near_tie(load(plans[slot].model, plans[slot].invariant(limits)), trace, control)
            if tie:
                near_ties[slot] = tie
    return near_ties
