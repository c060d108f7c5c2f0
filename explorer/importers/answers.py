"""The interfaces of servers: what each is asked, and what an event of its answer says.

Written from the public documentation of the OpenAI interfaces (completions and chat, streamed, with `logprobs`), of
llama.cpp's server (`/completion` with `n_probs`) and of SGLang's `/generate`; vLLM, llama.cpp and transformers speak
the first two as well. Nothing in an answer is trusted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from explorer.importers import sglang, vllm
from explorer.importers.build import Table, finite, packed, part, step, words
from explorer.importers.choices import MOST, Token, entry, named, named_one, number, numbered, row, spoken
from explorer.importers.endings import failure

MAX_TOP = 20  # most likely tokens of one place


@dataclass
class Event:
    """What an event says. text: what is added to the answer; finish: why it ended, "" while it goes on; facts: numbers
    that the server reports; error: the server's words for what went wrong; beside: names of what is no text."""

    text: str = ""
    tokens: list[Token] = field(default_factory=list)
    finish: str = ""
    facts: dict[str, float] = field(default_factory=dict)
    model: str = ""
    error: str = ""
    beside: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Wish:
    """What a server is asked. top: how many of the most likely tokens it shall name; 0: none."""

    model: str
    prompt: str
    max_tokens: int
    temperature: float
    top: int
    seed: int | None = None


class Format:
    """An interface. One object reads one answer, of several in a record that of the number `answer`, or else the one
    that comes first. several: whether there were others."""

    name, title, path = "", "", ""

    def __init__(self, answer: int | None = None) -> None:
        self.answer, self.several = answer, False

    def body(self, wish: Wish) -> dict[str, Any]:
        """The request."""
        raise NotImplementedError

    def read(self, body: Mapping[str, Any]) -> Event:
        """An event of the answer, or the whole answer of a server that does not stream."""
        error = failure(body)
        answers = self.answers(body)
        if self.answer is None and answers:
            self.answer = min(answers)
        self.several |= any(index != self.answer for index in answers)
        mine = answers.get(self.answer or 0, {})
        about = not answers and not error  # of the request as a whole
        event = self._event(body, mine) if about or self.answer in answers else Event()
        event.error = event.error or error
        if self.several and (count := event.facts.pop("completion tokens", None)) is not None:
            event.facts["completion tokens of all answers"] = count
        return event

    def answers(self, body: Mapping[str, Any]) -> dict[int, Mapping[str, Any]]:
        """What a body holds of each answer, by its number; nothing where it is about the request alone."""
        return {} if failure(body) else {index if type(index := body.get("index")) is int else 0: body}

    def _event(self, body: Mapping[str, Any], mine: Mapping[str, Any]) -> Event:
        """What a body says of the answer that is read. mine: the part of it that is that answer's."""
        raise NotImplementedError


class OpenAI(Format):
    """What the two OpenAI interfaces share: an answer is one of the `choices`."""

    def answers(self, body: Mapping[str, Any]) -> dict[int, Mapping[str, Any]]:
        """The choices."""
        return {**numbered(body)}

    def _event(self, body: Mapping[str, Any], mine: Mapping[str, Any]) -> Event:
        text, beside = self._said(mine)
        tokens = named(mine)
        if len(tokens) == 1 and tokens[0].textless:
            tokens[0].text = text
        finish, model = words(mine.get("finish_reason")), words(body.get("model"))
        return Event(text, tokens, finish, reported(body), model, beside=beside)

    def _said(self, choice: Mapping[str, Any]) -> tuple[str, list[str]]:
        """(text, names of what is no text) of a choice."""
        raise NotImplementedError


class Chat(OpenAI):
    """OpenAI's chat completions."""

    name, title, path = "chat", "OpenAI chat", "/v1/chat/completions"

    def __init__(self, answer: int | None = None) -> None:
        super().__init__(answer)
        self._begun = False

    def body(self, wish: Wish) -> dict[str, Any]:
        """What is asked of it."""
        asked = {"messages": [{"role": "user", "content": wish.prompt}], **_openai(wish)}
        return asked | ({"logprobs": True, "top_logprobs": wish.top} if wish.top else {})

    def _said(self, choice: Mapping[str, Any]) -> tuple[str, list[str]]:
        text, beside = spoken(part(choice, "delta"))
        if not (text or beside or self._begun):  # some servers send the whole message so far beside each piece
            text, beside = spoken(part(choice, "message"))
        self._begun |= bool(text or beside)
        return text, beside


class Completions(OpenAI):
    """OpenAI's completions: a text that goes on, without a chat format."""

    name, title, path = "completions", "OpenAI completions", "/v1/completions"

    def body(self, wish: Wish) -> dict[str, Any]:
        """What is asked of it."""
        return {"prompt": wish.prompt, **_openai(wish)} | ({"logprobs": wish.top} if wish.top else {})

    def _said(self, choice: Mapping[str, Any]) -> tuple[str, list[str]]:
        return spoken({"content": choice.get("text")})


class Llama(Format):
    """llama.cpp's own interface."""

    name, title, path = "llama", "llama.cpp /completion", "/completion"

    def body(self, wish: Wish) -> dict[str, Any]:
        """What is asked of it."""
        asked = {"prompt": wish.prompt, "n_predict": wish.max_tokens, "n_probs": wish.top, "stream": True}
        more = {"temperature": wish.temperature, "return_tokens": True, "cache_prompt": False}
        return asked | more | ({} if wish.seed is None else {"seed": wish.seed})

    def _event(self, body: Mapping[str, Any], mine: Mapping[str, Any]) -> Event:
        probabilities, text = body.get("completion_probabilities"), words(body.get("content"))
        listed = probabilities[:MOST] if isinstance(probabilities, list) else []
        tokens = [named_one(token) for token in listed if isinstance(token, dict)]
        ids = body.get("tokens")
        if not tokens and isinstance(ids, list) and len(ids) == 1 and text:
            tokens = [row([None, ids[0], text])]
        why = next((reason for reason in ("limit", "word", "eos") if body.get(f"stopped_{reason}") is True), "stop")
        finish = words(body.get("stop_type")) or why if body.get("stop") is True else ""
        named = words(body.get("model")) if finish else ""
        return Event(text, tokens, finish, reported(body), named)


class SGLang(Format):
    """SGLang's own interface. Its events hold the text, and the log-probabilities, from the beginning; newer servers
    can be told to send what is new alone. Which of the two shows in the number of tokens."""

    name, title, path = "sglang", "SGLang /generate", "/generate"

    def __init__(self, answer: int | None = None) -> None:
        super().__init__(answer)
        self._text, self._count = "", 0

    def body(self, wish: Wish) -> dict[str, Any]:
        """What is asked of it."""
        sampling = {"max_new_tokens": wish.max_tokens, "temperature": wish.temperature}
        asked = {"text": wish.prompt, "sampling_params": sampling, "stream": True, "return_logprob": wish.top > 0}
        return asked | ({"top_logprobs_num": wish.top, "return_text_in_logprobs": True} if wish.top else {})

    def _event(self, body: Mapping[str, Any], mine: Mapping[str, Any]) -> Event:
        meta, text = part(body, "meta_info"), words(body.get("text"))
        count = meta.get("completion_tokens")
        fresh = max(0, count - self._count) if type(count) is int else 0
        rows, tops = meta.get("output_token_logprobs"), meta.get("output_top_logprobs")
        new = isinstance(rows, list) and self._count > 0 and len(rows) == fresh  # else all from the beginning
        self._count += fresh
        if text.startswith(self._text) and not new:
            text, self._text = text[len(self._text) :], text
        else:
            self._text += text
        rows = rows[-min(fresh, MOST) :] if isinstance(rows, list) and fresh else []
        tops = tops[-len(rows) :] if isinstance(tops, list) and rows else []
        tokens = [row(raw) for raw in rows]
        for token, top in zip(tokens, tops, strict=len(tops) == len(tokens)):
            likely = [row(raw) for raw in top[:MOST]] if isinstance(top, list) else []
            token.top = [(other.text, other.id, other.p) for other in likely if other.p is not None]
        why, error = sglang.ended(meta)
        return Event(text, tokens, why, finite(sglang.reported(meta)) if why else {}, error=error)


FORMATS: dict[str, type[Format]] = {kind.name: kind for kind in (Chat, Completions, Llama, SGLang)}


def reported(body: Mapping[str, Any]) -> dict[str, float]:
    """The numbers that a server reports of an answer: how many tokens, its own times, what was drafted and accepted."""
    usage, timings, metrics = part(body, "usage"), part(body, "timings"), part(body, "metrics")
    fields = {
        "prompt tokens": usage.get("prompt_tokens"),
        "completion tokens": usage.get("completion_tokens"),
        "drafted tokens": timings.get("draft_n"),
        "accepted drafts": timings.get("draft_n_accepted"),
        **({name: metrics.get(name) for name in vllm.TIMES} if metrics else {}),
    }
    for name, key in (
        ("prompt seconds, as the server says", "prompt_ms"),
        ("generation seconds, as the server says", "predicted_ms"),
    ):
        fields[name] = None if (ms := number(timings.get(key))) is None else ms / 1000
    numbers = finite({name: number(value) for name, value in fields.items()})
    return numbers | vllm.reported(body) | sglang.of_answer(body)


def step_of(index: int, tokens: Sequence[Token], first: int, table: Table) -> dict[str, Any]:
    """A step that writes some tokens from a place on, with their probabilities and the most likely others. One of those
    with the id of what was written is the same token, however it is spelled there."""
    ids = [entry(table, token.text, token.id) for token in tokens]
    at = list(range(first, first + len(ids)))
    groups: dict[str, Any] = {"commits": {"positions": at, "tokens": ids, "causes": ["reported"] * len(ids)}}
    if any(token.p is not None for token in tokens):
        groups["commits"]["probabilities"] = [None if token.p is None else round(token.p, 6) for token in tokens]
    tops = {i: sorted(t.top, key=lambda candidate: -candidate[2])[:MAX_TOP] for i, t in enumerate(tokens) if t.top}
    if tops:
        k = min(len(top) for top in tops.values())
        likely = [
            [ids[i] if n is not None and n == tokens[i].id else entry(table, text, n) for text, n, _ in top[:k]]
            for i, top in tops.items()
        ]
        shares = [[p for _, _, p in top[:k]] for top in tops.values()]
        arrays = {"tokens": packed(likely, "i4"), "probabilities": packed(shares, "f4")}
        groups["candidates"] = {"positions": [at[i] for i in tops], **arrays}
    return step(index, **groups)


def _openai(wish: Wish) -> dict[str, Any]:
    asked = {"model": wish.model, "max_tokens": wish.max_tokens, "temperature": wish.temperature, "stream": True}
    options = {"stream_options": {"include_usage": True}}
    return asked | options | ({} if wish.seed is None else {"seed": wish.seed})
