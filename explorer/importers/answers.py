"""The interfaces of servers: what each is asked, and what an event of its answer says.

Written from the public documentation of the OpenAI interfaces (completions and chat, streamed, with `logprobs`), of
llama.cpp's server (`/completion` with `n_probs`) and of SGLang's `/generate`; vLLM, llama.cpp and transformers speak
the first two as well. Nothing in an answer is trusted."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from explorer.importers import sglang, vllm
from explorer.importers.build import Table, finite, first_choice, packed, part, step, words

MOST_TOKENS = 4096  # of one event
MAX_TOP = 20  # most likely tokens of one place
LARGEST = 1e15  # a number beyond is none that a server counts


@dataclass
class Token:
    """A token as the server names it. p: its probability; top: (text, id, probability) of the most likely ones."""

    text: str
    id: int | None = None
    p: float | None = None
    top: list[tuple[str, int | None, float]] = field(default_factory=list)


@dataclass
class Event:
    """What an event says. text: what is added to the answer; finish: why it ended, "" while it goes on; facts: numbers
    that the server reports."""

    text: str = ""
    tokens: list[Token] = field(default_factory=list)
    finish: str = ""
    facts: dict[str, float] = field(default_factory=dict)
    model: str = ""


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
    """An interface. One object reads one answer."""

    name, title, path = "", "", ""

    def body(self, wish: Wish) -> dict[str, Any]:
        """The request."""
        raise NotImplementedError

    def read(self, body: Mapping[str, Any]) -> Event:
        """An event of the answer, or the whole answer of a server that does not stream."""
        raise NotImplementedError


class Chat(Format):
    """OpenAI's chat completions."""

    name, title, path = "chat", "OpenAI chat", "/v1/chat/completions"

    def body(self, wish: Wish) -> dict[str, Any]:
        """What is asked of it."""
        asked = {"messages": [{"role": "user", "content": wish.prompt}], **_openai(wish)}
        return asked | ({"logprobs": True, "top_logprobs": wish.top} if wish.top else {})

    def read(self, body: Mapping[str, Any]) -> Event:
        """What an event says."""
        choice = first_choice(body)
        said = part(choice, "delta") or part(choice, "message")
        thought = words(said.get("reasoning_content"), said.get("reasoning"))
        return _event(body, choice, thought + words(said.get("content")))


class Completions(Format):
    """OpenAI's completions: a text that goes on, without a chat format."""

    name, title, path = "completions", "OpenAI completions", "/v1/completions"

    def body(self, wish: Wish) -> dict[str, Any]:
        """What is asked of it."""
        return {"prompt": wish.prompt, **_openai(wish)} | ({"logprobs": wish.top} if wish.top else {})

    def read(self, body: Mapping[str, Any]) -> Event:
        """What an event says."""
        choice = first_choice(body)
        return _event(body, choice, words(choice.get("text")))


class Llama(Format):
    """llama.cpp's own interface."""

    name, title, path = "llama", "llama.cpp /completion", "/completion"

    def body(self, wish: Wish) -> dict[str, Any]:
        """What is asked of it."""
        asked = {"prompt": wish.prompt, "n_predict": wish.max_tokens, "n_probs": wish.top, "stream": True}
        more = {"temperature": wish.temperature, "return_tokens": True, "cache_prompt": False}
        return asked | more | ({} if wish.seed is None else {"seed": wish.seed})

    def read(self, body: Mapping[str, Any]) -> Event:
        """What an event says."""
        told, text = body.get("completion_probabilities"), words(body.get("content"))
        tokens = [_named(one) for one in told[:MOST_TOKENS] if isinstance(one, dict)] if isinstance(told, list) else []
        ids = body.get("tokens")
        if not tokens and isinstance(ids, list) and len(ids) == 1 and text:
            tokens = [Token(text, _id(ids[0]))]
        finish = words(body.get("stop_type")) or "stop" if body.get("stop") is True else ""
        named = words(body.get("model")) if finish else ""
        return Event(text, tokens, finish, reported(body), named)


class SGLang(Format):
    """SGLang's own interface. Its events hold the text, and the log-probabilities, from the beginning; newer servers
    can be told to send what is new alone. Which of the two shows in the number of tokens."""

    name, title, path = "sglang", "SGLang /generate", "/generate"

    def __init__(self) -> None:
        self._text, self._count = "", 0

    def body(self, wish: Wish) -> dict[str, Any]:
        """What is asked of it."""
        sampling = {"max_new_tokens": wish.max_tokens, "temperature": wish.temperature}
        asked = {"text": wish.prompt, "sampling_params": sampling, "stream": True, "return_logprob": wish.top > 0}
        return asked | ({"top_logprobs_num": wish.top, "return_text_in_logprobs": True} if wish.top else {})

    def read(self, body: Mapping[str, Any]) -> Event:
        """What an event says."""
        meta, text = part(body, "meta_info"), words(body.get("text"))
        count = meta.get("completion_tokens")
        fresh = max(0, count - self._count) if type(count) is int else 0
        self._count += fresh
        if text.startswith(self._text):
            text, self._text = text[len(self._text) :], text
        else:
            self._text += text
        rows, tops = meta.get("output_token_logprobs"), meta.get("output_top_logprobs")
        rows = rows[-min(fresh, MOST_TOKENS) :] if isinstance(rows, list) and fresh else []
        tops = tops[-len(rows) :] if isinstance(tops, list) and rows else []
        tokens = [_row(row) for row in rows]
        for token, top in zip(tokens, tops, strict=len(tops) == len(tokens)):
            found = [_row(one) for one in top[:MOST_TOKENS]] if isinstance(top, list) else []
            token.top = [(one.text, one.id, one.p) for one in found if one.p is not None]
        finish = meta.get("finish_reason")
        why = words(finish, part(meta, "finish_reason").get("type"))
        return Event(text, tokens, why, finite(sglang.reported(meta)) if why else {})


FORMATS: dict[str, type[Format]] = {one.name: one for one in (Chat, Completions, Llama, SGLang)}


def reported(body: Mapping[str, Any]) -> dict[str, float]:
    """The numbers that a server reports of an answer: how many tokens, its own times, what was drafted and accepted."""
    usage, timings, metrics = part(body, "usage"), part(body, "timings"), part(body, "metrics")
    told = {
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
        told[name] = None if (ms := _number(timings.get(key))) is None else ms / 1000
    found = finite({name: _number(value) for name, value in told.items()})
    return found | vllm.reported(body) | sglang.of_answer(body)


def step_of(
    number: int, tokens: Sequence[Token], first: int, known: Callable[[str, int | None], int]
) -> dict[str, Any]:
    """A step that writes some tokens from a place on, with their probabilities and the most likely others. known: the
    id of a text in the token table."""
    ids = [known(token.text, token.id) for token in tokens]
    at = list(range(first, first + len(ids)))
    groups: dict[str, Any] = {"commits": {"positions": at, "tokens": ids, "causes": ["reported"] * len(ids)}}
    if any(token.p is not None for token in tokens):
        groups["commits"]["probabilities"] = [None if token.p is None else round(token.p, 6) for token in tokens]
    tops = {p: sorted(t.top, key=lambda one: -one[2])[:MAX_TOP] for p, t in zip(at, tokens, strict=True) if t.top}
    if tops:
        k = min(len(top) for top in tops.values())
        named = [[known(text, number) for text, number, _ in top[:k]] for top in tops.values()]
        shares = [[p for _, _, p in top[:k]] for top in tops.values()]
        arrays = {"tokens": packed(named, "i4"), "probabilities": packed(shares, "f4")}
        groups["candidates"] = {"positions": list(tops), **arrays}
    return step(number, **groups)


def token_id(table: Table, text: str, number: int | None) -> int:
    """The id of a token in the table, by its own id or else its text."""
    clean = text.encode("utf-8", "replace").decode()
    if number is None:
        return table.text(clean)
    return table.known(number, clean or f"‹token {number}›", special=not clean)


def _openai(wish: Wish) -> dict[str, Any]:
    asked = {"model": wish.model, "max_tokens": wish.max_tokens, "temperature": wish.temperature, "stream": True}
    told = {"stream_options": {"include_usage": True}}
    return asked | told | ({} if wish.seed is None else {"seed": wish.seed})


def _event(body: Mapping[str, Any], choice: Mapping[str, Any], text: str) -> Event:
    tokens = _tokens(choice.get("logprobs"))
    ids = choice.get("token_ids")
    if isinstance(ids, list) and len(ids) == len(tokens):
        for token, number in zip(tokens, ids, strict=True):
            token.id = _id(number) if token.id is None else token.id
    return Event(text, tokens, words(choice.get("finish_reason")), reported(body), words(body.get("model")))


def _tokens(told: Any) -> list[Token]:
    """The tokens of `logprobs`: a list of `content`, or the older lists side by side."""
    if not isinstance(told, dict):
        return []
    if isinstance(content := told.get("content"), list):
        return [_named(one) for one in content[:MOST_TOKENS] if isinstance(one, dict)]
    texts = told.get("tokens")
    if not isinstance(texts, list) or not all(isinstance(one, str) for one in texts):
        return []
    chances, tops = told.get("token_logprobs"), told.get("top_logprobs")
    found = []
    for i, text in enumerate(texts[:MOST_TOKENS]):
        p = _chance(chances[i]) if isinstance(chances, list) and i < len(chances) else None
        top = tops[i] if isinstance(tops, list) and i < len(tops) and isinstance(tops[i], dict) else {}
        named: list[tuple[str, int | None, float]] = [
            (t, None, q) for t, lp in list(top.items())[:MOST_TOKENS] if (q := _chance(lp)) is not None
        ]
        found.append(Token(text, None, p, named))
    return found


def _named(one: Mapping[str, Any]) -> Token:
    """A token with its own entry. Older servers of llama.cpp say `content` and `probs`, with probabilities."""
    top = one.get("top_logprobs", one.get("top_probs", one.get("probs")))
    found = [_entry(other) for other in top[:MOST_TOKENS] if isinstance(other, dict)] if isinstance(top, list) else []
    text, number, p = _entry(one)
    if p is None:
        p = next((q for t, n, q in found if (t, n) == (text, number)), None)
    return Token(text, number, p, [(t, n, q) for t, n, q in found if q is not None])


def _entry(one: Mapping[str, Any]) -> tuple[str, int | None, float | None]:
    """(text, id, probability)."""
    p = _chance(one["logprob"]) if "logprob" in one else _share(one.get("prob"))
    return words(one.get("token"), one.get("tok_str"), one.get("content")), _id(one.get("id")), p


def _row(row: Any) -> Token:
    """SGLang's [log-probability, id, text]."""
    if not isinstance(row, list) or len(row) < 2:
        return Token("")
    return Token(words(*row[2:3]), _id(row[1]), _chance(row[0]))


def _chance(logprob: Any) -> float | None:
    value = _number(logprob)
    return None if value is None else math.exp(min(value, 0.0))


def _share(p: Any) -> float | None:
    value = _number(p)
    return value if value is not None and 0 <= value <= 1 else None


def _id(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 2**31 else None


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not -LARGEST < value < LARGEST:
        return None  # nan is neither
    return float(value)
