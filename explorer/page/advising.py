"""What a person asks of their own prompts. *Will it help on my text?*: the prompt is decoded by lossless methods in
turn with their control, again and again; verdicts with intervals stand above the players, which show the control and
the method that helps most. *Why is it slow?* inside the *Sweeps* tab, at home: a published drafter along texts that its
target writes; what was found stands below, with a lever for an acceptance that is not measured, and a report of it can
be saved."""

from collections.abc import Generator, Iterator
from typing import Any

import gradio as gr
import msgspec

import engines
from engines import Trace, UserError, tasks
from explorer.bench import advise
from explorer.export.diagnosis import diagnosis_page
from explorer.figures import diagnosed
from explorer.figures.advice import Advice, best_of
from explorer.figures.drafting import rate
from explorer.links import SLOTS
from explorer.page import tables
from explorer.page.catalogue import Form, load, name_of
from explorer.page.feed import MODEL_LOCK, message, whole
from explorer.page.form import read
from explorer.page.handlers import Handlers
from explorer.page.parts import LIGHT, ONE_AT_A_TIME, either, fresh, module, refusals, say, status, until
from explorer.page.sessions import Job, Session, packed

Outputs = tuple[Any, Any, Any, Any]  # panel, bus, status, results
SENTENCES = ("label", "word", "verdict", "text", "why", "takes")
TOLD = (*SENTENCES, "speed", "low", "high", "level", "values", "unit", "left_out")
SHOWN = 40  # characters of a prompt on the status line


class Advising:
    """The handler of the button. Everything can be called by anyone, so every value is checked again."""

    def __init__(self, handlers: Handlers, first: str = "") -> None:
        """first: the prompt of a page that has no recorded runs."""
        self.handlers, self.limits, self.first = handlers, handlers.limits, first

    @refusals(2, 4, "The measuring failed with an error of ours; the server's log has the details.")
    def ask(self, request: gr.Request, prompt: Any = None, form: Any = None) -> Iterator[Outputs]:
        """Measure, with the progress on the status line; then the verdicts, and two of the runs in the players. Yields
        before a model is touched; Stop ends it at the next step, and what was measured by then is judged."""
        session = self.handlers.session(request)
        if session.running:
            raise UserError("a run is going on; stop it or wait for its end, then ask what helps.")
        prompt = self.limits.check_prompt(prompt)
        model = self.model(read(form), prompt)
        with session.begin() as job:
            example = prompt.strip() in self.examples()
            words = _beginning(model, prompt, example)
            yield "", gr.skip(), say(words), gr.skip()  # an earlier verdict is none on this text
            if not job.go_on():
                return
            findings = yield from self._measure(job, model, prompt)
            job.said = _ending(findings.advice)
            box, played = fresh(**verdicts(findings, prompt, example)), self._played(session, findings, model, prompt)
            yield box, *played, tables.results(session.traces, judged=True)

    def examples(self) -> set[str]:
        """The prompts that the page brings by itself: those of its recorded runs, and the one that it opens with."""
        return {self.first.strip(), *(card.prompt.strip() for card in self.handlers.gallery.cards)}

    def model(self, form: Form, prompt: str) -> str:
        """The model of slot 1 if causal and fit for it, else the first that reads any text. Raises UserError."""
        catalogue, known = self.handlers.catalogue, tasks.recognise(prompt)
        causal = [model for model in catalogue.models if model.kind == "causal"]
        mine = next((model for model in causal if model.name == form.model), None)
        if mine and (not mine.tasks or (known and known.task in mine.tasks)):
            return form.model
        if catalogue.open and form.model and form.model not in {model.name for model in catalogue.models}:
            return form.model  # a hub id or a folder of the person's own
        able = next((str(model.name) for model in causal if not model.tasks), None)
        if able is None:
            raise UserError("no model that reads any text is installed here; choose a causal model in slot 1.")
        return able

    def _measure(self, job: Job, model: str, prompt: str) -> Generator[Outputs, None, advise.Found]:
        with MODEL_LOCK:
            loaded = load(model, self.limits.row_invariant)
        going = advise.measuring(
            loaded,
            [prompt],
            max_new_tokens=self.limits.advice_tokens,
            seconds=self.limits.advice_seconds,
            stopped=job.stop.is_set,
            guard=lambda: MODEL_LOCK,
        )
        while True:
            try:
                now = next(going)
            except StopIteration as end:
                findings: advise.Found = end.value
                return findings
            words = f"Measuring {now.title}: {now.done} of {now.total} runs are made."
            yield gr.skip(), gr.skip(), say(words), gr.skip()

    def _played(self, session: Session, findings: advise.Found, model: str, prompt: str) -> tuple[Any, Any]:
        """(bus, status): the control beside the method that helps most, else the fastest one, at their ends. The slots
        take their settings and, out of sight, those of the other methods. model: what loaded it."""
        advice = findings.advice
        tried = sorted(advice.methods, key=lambda method: -(method.speed or 0))
        ours = best_of(advice) or next(iter(tried), None)
        names = [advice.control, ours.method] if ours else []
        traces: dict[int, Trace] = {slot: findings.traces[name] for slot, name in enumerate(names)}
        line = _ending(advice)
        if not traces:
            return gr.skip(), line
        session.show(traces)
        session.opened, session.asked = set(traces), prompt
        others = [trace for name, trace in findings.traces.items() if name not in names]
        session.spare = {slot: packed(trace) for slot, trace in zip(range(len(names), SLOTS), others, strict=False)}
        session.named |= {name_of(trace): model for trace in traces.values()}
        # the longest comes last, which leaves the clock at its end
        ordered = sorted(traces.items(), key=lambda item: len(item[1].steps))
        batches = (whole(slot, trace, len(trace.steps)) for slot, trace in ordered)
        return message(*batches, clear=True), line


def _begun(prompt: str) -> str:
    """The begin of a prompt, on one line and in quotation marks."""
    line = " ".join(prompt.split())
    return f"“{line if len(line) <= SHOWN else line[: SHOWN - 1] + '…'}”"


def _beginning(model: str, prompt: str, example: bool) -> str:
    """What is said before the first run."""
    if example:
        return (
            f"Measuring with {model} what helps on the page's example {_begun(prompt)}; to measure your own text, "
            "press Stop and type it. The first run of a model loads it."
        )
    return f"Measuring with {model} what helps on {_begun(prompt)}. The first run of a model loads it."


def verdicts(findings: advise.Found, prompt: str, example: bool) -> dict[str, Any]:
    """What `assets/client/page/advice.js` draws. example: whether the prompt is the page's own."""
    advice = findings.advice
    methods = [{name: getattr(method, name) for name in TOLD} for method in advice.methods]
    on = f"Measured on the page's example {_begun(prompt)}; type your own prompt to measure that." if example else ""
    params = {slug: trace.header.params for slug, trace in findings.traces.items()}
    return {
        "sentence": advice.sentence,
        "on": on,
        "runs": {
            "prompt": prompt,
            "model": advice.model.name,
            "options": advice.model.options,
            "control": advice.control,
            "params": params,
        },
        "conditions": advice.conditions,
        "chosen": advice.chosen,
        "methods": methods,
    }


def _ending(advice: Advice) -> str:
    head = {"complete": "", "stopped": "Stopped. ", "time": "Its time was over. "}[advice.ended]
    conclusive = any(method.word not in ("busy", "few") for method in advice.methods)
    if advice.ended == "time" and not conclusive and any(method.word == "few" for method in advice.methods):
        head = "Its time was over before enough was known; give it more: decoding-explorer advise --seconds 300. "
    return say(f"{head}{advice.sentence}", "ok" if conclusive else "warn", go="advice" if advice.methods else "")


def connect(
    handlers: Handlers, first: str, button: gr.Button, box: gr.HTML, given: list[Any], outputs: list[Any]
) -> Any:
    """Let the button measure. first: see `Advising`; given: prompt, form of the first slot; outputs: bus, status,
    results. Returns the event, which is not cancelled by Stop but ends by itself, with what was measured."""
    # the players stay as they are until it is over
    tell = '() => { document.dispatchEvent(new CustomEvent("dx-asked", { detail: { boards: false } })); }'
    button.click(None, js=tell, api_visibility="private")
    return button.click(
        Advising(handlers, first).ask,
        given,
        [box, *outputs],
        preprocess=False,
        show_progress_on=[outputs[1]],
        **ONE_AT_A_TIME,
    )


HELP = """### Why is it slow?
A published drafter and its target: which guesses are right, at which depth, what is missed, which of the known slips
makes it better when it is turned, and what a round costs on this machine. The same as `decoding-explorer diagnose`;
formats and slips: [Published drafters](?doc=models).
"""
TOKENS, MOST, PROMPTS = 48, 256, 50


class Diagnosing:
    """The handler of the button. Everything can be called by anyone, so every value is checked again."""

    def __init__(self, handlers: Handlers) -> None:
        self.handlers = handlers

    @refusals(1, 2, "It failed with an error of ours; the server's log has the details.")
    def ask(
        self, request: gr.Request, target: Any = None, drafter: Any = None, prompts: Any = None, tokens: Any = None
    ) -> Iterator[tuple[Any, Any]]:
        """Look at the drafter; yields (panel, line). prompts: one a line."""
        session = self.handlers.session(request)
        if session.sweeping and not session.sweeping.finished.is_set():
            raise UserError("a sweep is going on; cancel it or wait for its end.")
        given = self.read(target, drafter, prompts, tokens)
        with session.begin_sweep() as job:
            yield gr.skip(), say("The target and the drafter are loaded.")
            if not job.go_on():
                return
            with MODEL_LOCK:
                model = engines.load_model(given[0])
                going = engines.diagnosing(model, engines.load_drafter(given[1], model), given[2], tokens=given[3])
            while not job.stop.is_set():
                try:
                    with MODEL_LOCK:
                        what, which = next(going)
                except StopIteration as end:
                    yield findings(end.value), say("Done; the findings are below.", "ok")
                    return
                yield gr.skip(), say(_now(what, which, len(given[2])))
            yield gr.skip(), say("Stopped: nothing was kept, since a part of it would say nothing.")

    def read(self, target: Any, drafter: Any, prompts: Any, tokens: Any) -> tuple[str, str, list[str], int]:
        """What was asked for. Raises UserError."""
        if not self.handlers.catalogue.open:
            raise UserError("a public page loads no drafters; run it at home: decoding-explorer diagnose.")
        names = [str(given or "").strip() for given in (target, drafter)]
        for name, what in zip(names, ("target", "drafter"), strict=True):
            if not name:
                raise UserError(f"no {what} is given; write a hub id or a folder.")
        lines = [line.strip() for line in str(prompts or "").split("\n") if line.strip()]
        if not 0 < len(lines) <= PROMPTS:
            raise UserError(f"{len(lines)} prompts are given; give 1 to {PROMPTS}, one a line.")
        if not isinstance(tokens, (int, float)) or not 3 <= tokens <= MOST:
            raise UserError(f"{tokens!r:.40} tokens are asked for; give 3 to {MOST}.")
        return names[0], names[1], [self.handlers.limits.check_prompt(line) for line in lines], int(tokens)

    def stop(self, request: gr.Request) -> None:
        """Let it end."""
        session = self.handlers.session(request)
        if session.sweeping:
            session.sweeping.end()


def _now(what: str, which: str, prompts: int) -> str:
    """What begins, in words."""
    if what == "text":
        return f"The target writes behind prompt {which} of {prompts}."
    if what == "turn":
        return f"Turning {which}."
    return "Each place is looked at." if what == "places" else "A round is timed."


def findings(diagnosis: Any) -> str:
    """What `assets/client/page/diagnosis.js` draws, and the files that it saves."""
    return fresh(
        headline=diagnosed.headline(diagnosis),
        findings=[*diagnosis.notes, *diagnosed.findings(diagnosis)],
        tables=[table._asdict() for table in diagnosed.tables(diagnosis) if table.rows],
        places=[place._asdict() for place in diagnosed.places(diagnosis)],
        rate=rate(diagnosis),
        rows=diagnosis.cost.rows,
        drafts=diagnosis.cost.drafts,
        name=diagnosis.drafter,
        report=diagnosis_page(diagnosis),
        json=msgspec.json.format(msgspec.json.encode(diagnosis), indent=1).decode(),
    )


def diagnosis(handlers: Handlers) -> None:
    """The whole diagnosis."""
    asked = Diagnosing(handlers)
    gr.Markdown(HELP)
    with gr.Row():
        target = gr.Textbox("", label="Target: name, hub id or folder", elem_id="why-target", min_width=220)
        drafter = gr.Textbox("", label="Drafter: hub id or folder", elem_id="why-drafter", min_width=220)
        tokens = gr.Number(TOKENS, label="Tokens behind each prompt", precision=0, elem_id="why-tokens", min_width=120)
    prompts = gr.Textbox("", label="Prompts, one a line", lines=3, max_lines=8, elem_id="why-prompts")
    start, stop = either("why-go", ("Look at it", "why-start"), ("Stop", "why-stop"))
    line = status(say("Nothing was looked at yet."), elem_id="why-status")
    panel = module("page/diagnosis.js", "page.mountDiagnosis(element, props, watch)", elem_id="why")
    running = start.click(
        asked.ask, [target, drafter, prompts, tokens], [panel, line], preprocess=False, **ONE_AT_A_TIME
    )
    stop.click(asked.stop, None, None, **LIGHT)
    until("why-go", [running], stop)
