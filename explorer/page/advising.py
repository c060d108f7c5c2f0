"""*Will it help on my text?*: the prompt is decoded by lossless methods in turn with their control, again and again;
verdicts with intervals stand above the players, which show the control and the method that helps most."""

from collections.abc import Generator, Iterator
from typing import Any

import gradio as gr

from engines import Trace, UserError, tasks
from explorer.bench import advise
from explorer.figures.advice import Advice, best_of
from explorer.links import SLOTS
from explorer.page import tables
from explorer.page.catalogue import Form, load, name_of
from explorer.page.feed import MODEL_LOCK, message, whole
from explorer.page.form import read
from explorer.page.handlers import Handlers
from explorer.page.parts import ONE_AT_A_TIME, fresh, refusals, say
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
        """The model of the first slot where it is causal and reads this prompt, else the first that reads any text.
        Raises UserError where there is none."""
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
