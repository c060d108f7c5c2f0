"""Saved answers of the interfaces that `explorer.attach` watches live: a body of OpenAI's chat or completions or of
llama.cpp, or the text of their stream of events, where it names its tokens. An event becomes a step; when it came is
not in it."""

from __future__ import annotations

import json
from typing import Any

from engines import Trace, TraceError
from explorer.importers.answers import Chat, Completions, Event, Format, Llama, step_of, token_id
from explorer.importers.build import MAX_STEPS, MAX_TOKENS, Table, first_choice, trace

SOURCE = "a saved answer of a server"
OWN_NUMBERS = 2**24  # of texts without an id: beyond every vocabulary
DONE = "[DONE]"
HOW = (
    "besides traces, records are read of vLLM (--per-request-spec-decode-metrics detailed), SGLang "
    "(`return_spec_tokens_details`, or /generate), diffusers and LLaDA's text log, and answers of OpenAI's interfaces "
    "and llama.cpp that name their tokens (`logprobs`, `n_probs`); ask the server for one of these, or watch it with "
    "`decoding-explorer attach`"
)


def looks(text: Any) -> bool:
    """Whether the text is an answer of such an interface, or events of one."""
    return bool(_events(text))


def read(text: Any) -> Trace:
    """The trace of an answer. Raises TraceError."""
    found, table, output = _events(text), Table(OWN_NUMBERS), list[int]()
    if not any(event.tokens for event in found):
        raise TraceError(f"the answer names no tokens, so there is nothing to show of it; {HOW}.")
    if any(event.text and not event.tokens for event in found):
        raise TraceError(f"parts of the answer name no tokens, so their steps cannot be shown; {HOW}.")
    steps = list[dict[str, Any]]()
    for event in found:
        if event.tokens:
            made = step_of(len(steps), event.tokens, len(output), lambda *named: token_id(table, *named))
            steps.append(made | {"facts": event.facts})
            output += made["commits"]["tokens"]
        elif steps:
            steps[-1]["facts"] |= event.facts
        if len(steps) > MAX_STEPS or len(output) > MAX_TOKENS:
            raise TraceError(f"the answer has more than {MAX_STEPS:,} events or {MAX_TOKENS:,} tokens.")
    named = all(token.id is not None for event in found for token in event.tokens)
    whole = len(steps) == 1 and len(output) > 1
    note = {"note": "One step stands for the whole answer: it was not streamed."} if whole else {}
    return trace(
        source=SOURCE,
        title="Saved answer",
        model=next((event.model for event in found if event.model), ""),
        prompt="",
        steps=[*steps[:-1], steps[-1] | note],
        table=table,
        output_ids=output,
        text="".join(event.text for event in found).strip().encode("utf-8", "replace").decode(),
        missing=["end_marks", *([] if named else ["token_ids"]), *(["steps"] if whole else []), "params"],
        about="read from a saved answer; only what the server reported is here",
    )


def _events(text: Any) -> list[Event]:
    """What the bodies of an answer say; nothing where one is of no interface that is known here."""
    bodies = _bodies(text)
    format = _format(bodies)
    return [format.read(body) for body in bodies] if format else []


def _bodies(text: Any) -> list[dict[str, Any]]:
    """The answer, or the events of a stream."""
    if not isinstance(text, str):
        return []
    lines = [line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("data:")]
    found = []
    for piece in (
        [line for line in lines if line != DONE] if text.lstrip().startswith(("data:", ":", "event:")) else [text]
    ):
        try:
            body = json.loads(piece)
        except (ValueError, RecursionError):
            return []
        if not isinstance(body, dict):
            return []
        found.append(body)
    return found


def _format(bodies: list[dict[str, Any]]) -> Format | None:
    for body in bodies:
        choice = first_choice(body)
        if "message" in choice or "delta" in choice:
            return Chat()
        if "text" in choice:
            return Completions()
        if isinstance(body.get("content"), str) and ("completion_probabilities" in body or "tokens" in body):
            return Llama()
    return None
