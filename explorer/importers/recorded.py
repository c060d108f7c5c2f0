"""Saved answers of the interfaces that `explorer.attach` watches live: a body of OpenAI's chat or completions, of
llama.cpp or of SGLang, a list of them, or the text of their stream of events, where it names its tokens. An event
becomes a step; when it came is not in it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from engines import Trace, TraceError, texts
from explorer.importers.answers import Chat, Completions, Event, Format, Llama, SGLang, step_of
from explorer.importers.build import MAX_STEPS, MAX_TOKENS, OWN_NUMBERS, Table, part, trace
from explorer.importers.choices import SEVERAL, behind, beside, fed, first_choice, last_count
from explorer.importers.endings import ending, failure, finished
from explorer.importers.events import DONE, Lines, decoded

TITLE = "a server's saved answer that names its tokens"
SOURCE = "a saved answer of a server"
HOW = (
    "besides traces, records are read of vLLM (--per-request-spec-decode-metrics detailed), SGLang "
    "(`return_spec_tokens_details`, or /generate), diffusers and LLaDA's text log, and answers of OpenAI's interfaces "
    "and llama.cpp that name their tokens (`logprobs`, `n_probs`); ask the server for one of these, or watch it with "
    "`decoding-explorer attach`"
)
FIELDS = ("data:", ":", "event:", "id:", "retry:", "error:")  # what a stream begins with


@dataclass
class Saved:
    """What a file holds. whole: one body, not a stream; done: how many bodies stand before the mark that ends a stream,
    -1 where there is none; error: why the rest cannot be read."""

    bodies: list[dict[str, Any]] = field(default_factory=list)
    stream: bool = False
    whole: bool = False
    done: int = -1
    error: str = ""


def looks(text: Any) -> bool:
    """Whether the text is an answer of such an interface, events of one, or a server's error."""
    saved = _saved(text)
    fails = (saved.stream or saved.whole) and any(map(failure, saved.bodies))
    return _format(saved.bodies) is not None or fails


def read(text: Any) -> Trace:
    """The trace of an answer. Raises TraceError."""
    saved = _saved(text)
    format, events, several = _events(saved)
    error = next((event.error for event in events if event.error), "") or saved.error
    if error and not any(event.tokens for event in events):
        raise TraceError(f"the server answered with an error: {error}.")
    if not any(event.tokens for event in events):
        raise TraceError(f"the answer names no tokens, so there is nothing to show of it; {HOW}.")
    prompt = _without_prompt(events, saved.bodies, several) if isinstance(format, Completions) else ""
    prompt = _without_beginning(events, saved.bodies) if isinstance(format, Chat) else prompt
    if not any(event.tokens for event in events):
        raise TraceError("the answer is the echo of its prompt alone: no token was written (`echo`, `max_tokens`).")
    if any(event.text and not event.tokens for event in events):
        raise TraceError(f"parts of the answer name no tokens, so their steps cannot be shown; {HOW}.")
    table, output, steps = Table(OWN_NUMBERS), list[int](), list[dict[str, Any]]()
    for event in events:
        if event.tokens:
            made = step_of(len(steps), event.tokens, len(output), table)
            steps.append(made | {"facts": event.facts})
            output += made["commits"]["tokens"]
        elif steps:
            steps[-1]["facts"] |= event.facts
        if len(steps) > MAX_STEPS or len(output) > MAX_TOKENS:
            raise TraceError(f"the answer has more than {MAX_STEPS:,} events or {MAX_TOKENS:,} tokens.")
    tokens = [token for event in events for token in event.tokens]
    absent = [] if all(token.id is not None for token in tokens) else ["token_ids"]
    absent += [] if any(token.text for token in tokens) else ["token_texts"]
    whole = len(steps) == 1 and len(output) > 1
    finish = next((event.finish for event in reversed(events) if event.finish), "")
    notes = ["One step stands for the whole answer: it was not streamed."] if whole else []
    notes += [SEVERAL] * several + [finished(finish)] * bool(finish)
    notes += [note] if (note := beside([name for event in events for name in event.beside])) else []
    steps[-1] |= {"note": " ".join(notes)} if notes else {}
    about = "read from a saved answer; only what the server reported is here"
    about += "; its text begins with what was fed, which is not shown as written" if prompt else ""
    text = "".join(event.text for event in events).strip().encode("utf-8", "replace").decode()
    reason, message = ending(finish or _closed(saved), error)
    return trace(
        source=SOURCE,
        title="Saved answer",
        model=next((event.model for event in events if event.model), ""),
        prompt=prompt.encode("utf-8", "replace").decode(),
        steps=steps,
        table=table,
        output_ids=table.ids(output),
        text=text,
        missing=["end_marks", *absent, *(["steps"] if whole else []), "params"],
        about=about,
        end={"reason": reason, "message": message},
    )


def _events(saved: Saved) -> tuple[Format | None, list[Event], bool]:
    """(interface, what the bodies say of the first answer, whether there are others)."""
    made = _format(saved.bodies)
    if made is None:
        return None, [Event(error=failure(body)) for body in saved.bodies], False
    several = _parted(saved, made)
    numbers = {number for body in saved.bodies for number in made().answers(body)}
    several |= len(numbers) > 1
    format, events, closed = made(min(numbers, default=None)), list[Event](), False
    name: Any = None  # of the response that the bodies so far belong to
    for place, body in enumerate(saved.bodies):
        event, own = format.read(body), body.get("id")
        other = made is Llama or not saved.stream if None in (name, own) else own != name
        name = name if own is None else own
        if (event.text or event.tokens) and (0 <= saved.done <= place or (closed and other)):
            several, saved.bodies = True, saved.bodies[:place]
            break
        events.append(event)
        closed |= bool(event.finish) or (not saved.stream and "message" in first_choice(body))
        if event.error:
            break
    return format, events, several


def _parted(saved: Saved, made: type[Format]) -> bool:
    """Leave the pieces of the first response where those of several come by turns, which their ids tell: one comes
    again behind another. Says whether they did. Ids that never come again are no responses'."""
    pieces = [body for body in saved.bodies if (event := made().read(body)).text or event.tokens]
    names = [name for name, _ in groupby(body.get("id") for body in pieces) if isinstance(name, str) and name]
    if len(set(names)) == len(names):
        return False
    saved.bodies = [body for body in saved.bodies if body.get("id", names[0]) == names[0]]
    saved.done = min(saved.done, len(saved.bodies))
    return True


def _closed(saved: Saved) -> str:
    """That an answer without a finish reason came to its end, where the record shows it: by the mark that ends a
    stream, or since it is a whole body of a form that tells no reason."""
    body = saved.bodies[0]
    has_reason = "finish_reason" in {**first_choice(body), **part(body, "meta_info")} or "stop" in body
    return "done" if saved.done >= 0 or (saved.whole and not has_reason) else ""


def _without_prompt(events: Sequence[Event], bodies: Sequence[dict[str, Any]], several: bool) -> str:
    """Take the prompt that a completion echoes out of its events; the text of it."""
    left, prompt = fed([token for event in events for token in event.tokens], bodies, several), ""
    for event in events:
        tokens = event.tokens[left:]
        if left and event.tokens:
            text = behind(event.text, event.tokens, left)
            prompt += event.text[: len(event.text) - len(text)]
            left, event.text, event.tokens = left - (len(event.tokens) - len(tokens)), text, tokens
    return prompt


def _without_beginning(events: Sequence[Event], bodies: Sequence[dict[str, Any]]) -> str:
    """Take the beginning of a message that the request gave and the server continued out of its events, where the named
    tokens are all that were written; the text of it."""
    tokens, begun = [token for event in events for token in event.tokens], ""
    if last_count(bodies, "completion_tokens") != len(tokens):
        return ""
    for event in events:
        own = "".join(token.text for token in event.tokens)
        if event.tokens and not (own and event.text.endswith(own)):
            return begun
        begun += event.text.removesuffix(own)
        event.text = own
        if event.tokens:
            return begun
    return begun


def _saved(text: Any) -> Saved:
    """The answer, answers or events in a text; no bodies where it is none."""
    if not isinstance(text, str):
        return Saved()
    if text.lstrip().startswith(FIELDS):
        return _stream(text.lstrip())
    body = decoded(text)
    bodies = body if isinstance(body, list) else [body]
    if body is None:  # a body a line
        bodies = [decoded(line) for line in texts.lines(text) if line.strip()]
    objects = [parsed for parsed in bodies if isinstance(parsed, dict)]
    if len(objects) < len(bodies):
        return Saved()
    return Saved(objects, whole=isinstance(body, dict))


def _stream(text: str) -> Saved:
    saved, lines = Saved(stream=True), Lines()
    events = [data for line in [*texts.lines(text), ""] for data in lines.take(line)]
    for place, data in enumerate(events):
        if data.strip() == DONE:
            saved.done = len(saved.bodies) if saved.done < 0 else saved.done
            continue
        body = decoded(data)
        if not isinstance(body, dict):
            if not saved.bodies:
                return Saved()
            if place < len(events) - 1:  # the last one may have been cut
                saved.error = "an event is not JSON"
            break
        saved.bodies.append(body)
    return saved


def _format(bodies: Sequence[dict[str, Any]]) -> type[Format] | None:
    for body in bodies:
        choice = first_choice(body)
        if "message" in choice or "delta" in choice:
            return Chat
        if "text" in choice:
            return Completions
        if isinstance(body.get("content"), str) and ("completion_probabilities" in body or "tokens" in body):
            return Llama
        if "text" in body and isinstance(body.get("meta_info"), dict):
            return SGLang
    return None
