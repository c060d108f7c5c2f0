"""*Why is it slow?* inside the *Sweeps* tab, at home: a published drafter along texts that its target writes. What was
found stands below, with a lever for an acceptance that is not measured; a report of it can be saved."""

from collections.abc import Iterator
from typing import Any

import gradio as gr
import msgspec

import engines
from engines import UserError
from explorer.export.diagnosis import diagnosis_page
from explorer.figures import diagnosed
from explorer.figures.diagnosed import rate
from explorer.page.feed import MODEL_LOCK
from explorer.page.handlers import Handlers
from explorer.page.parts import LIGHT, ONE_AT_A_TIME, either, fresh, module, refusals, say, status, until

HELP = """### Why is it slow?
A published drafter and its target: which guesses are right, at which depth, what is missed, which of the known slips
makes it better when it is turned, and what a round costs on this machine. The same as `decoding-explorer diagnose`;
formats and slips: [Published drafters](?doc=models).
"""
TOKENS = 48
MOST = 256
PROMPTS = 50


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


def build(handlers: Handlers) -> None:
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
