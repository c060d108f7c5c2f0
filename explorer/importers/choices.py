"""What an answer says of itself, whichever server sent it: which of several answers is read, its text, the tokens it
names, and what is fed and was not written. Nothing in it is trusted."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from engines import TraceError
from explorer.importers.build import DEEPEST, MAX_TOKENS, Table, part, short, words

MOST = MAX_TOKENS + 1  # tokens of one event; more than a trace takes, so that it is refused and not cut
LARGEST = 1e15  # a number beyond is none that a server counts
SEVERAL = "There was more than one answer; the first is shown."
_NUMBERED = re.compile(r"token_id:(\d{1,10})")  # vLLM's --return-tokens-as-token-ids
_TEXTS = ("text", "thinking", "reasoning", "refusal", "content", "summary")  # where parts of a message hold their text


@dataclass
class Token:
    """A token as the server names it, without a text where it names the id alone. p: its probability; top: (text, id,
    probability) of the most likely ones."""

    text: str
    id: int | None = None
    p: float | None = None
    top: list[tuple[str, int | None, float]] = field(default_factory=list)
    textless: bool = False
    at: int | None = None  # where its text begins


def numbered(body: Mapping[str, Any]) -> dict[int, dict[str, Any]]:
    """The `choices` of an OpenAI-like body by the number of the answer that each belongs to: its `index`, or else its
    place."""
    choices = dict[int, dict[str, Any]]()
    for place, choice in enumerate(raw for raw in _list(body.get("choices")) if isinstance(raw, dict)):
        choices.setdefault(index if type(index := choice.get("index")) is int else place, choice)
    return choices


def first_choice(body: Any) -> dict[str, Any]:
    """The choice with the lowest number; empty where there is none."""
    choices = numbered(body) if isinstance(body, dict) else {}
    return choices[min(choices)] if choices else {}


def spoken(message: Mapping[str, Any]) -> tuple[str, list[str]]:
    """(text, names of what is no text) of a message or a piece of one: thoughts, what it says or refuses to say, and
    calls of functions."""
    texts, rest = list[str](), list[str]()
    thought = next((reasoning for name in ("reasoning_content", "reasoning") if (reasoning := message.get(name))), "")
    for content in (thought, message.get("content"), message.get("refusal")):
        _collect(content, texts, rest)
    for call in [*_list(message.get("tool_calls")), message.get("function_call")]:
        if isinstance(call, dict):
            name = words(part(call, "function").get("name"), part(call, "custom").get("name"), call.get("name"))
            rest.append(f"a call of {short(name)[:60]}" if name else "")  # its arguments follow in pieces
    rest += [name for name in ("audio", "images") if message.get(name)]
    return "".join(texts), rest


def _collect(content: Any, texts: list[str], rest: list[str], depth: int = 0) -> None:
    """The text of `content`, which may be a list of parts, and the kinds of those without any."""
    if isinstance(content, str):
        texts.append(content)
    elif isinstance(content, list) and depth < DEEPEST:
        for piece in content:
            _collect(piece, texts, rest, depth + 1)
    elif isinstance(content, dict):
        inner = next((nested for name in _TEXTS if isinstance(nested := content.get(name), (str, list))), None)
        if inner is None:
            rest.append(short(words(content.get("type")))[:60] or "a part of no kind")
        else:
            _collect(inner, texts, rest, depth + 1)


def beside(names: Sequence[str]) -> str:
    """A sentence on what is no text in an answer; nothing where all is."""
    known = [*dict.fromkeys(name for name in names if name)] or (["a call"] if names else [])
    some = ", ".join(known[:8]) + (" …" if len(known) > 8 else "")
    return f"The answer holds something that is not text: {some}." if known else ""


def named(choice: Mapping[str, Any]) -> list[Token]:
    """The tokens that a choice names: in `logprobs`, as a list of `content` (and `refusal`) or as the older lists side
    by side; with their ids where `token_ids` has as many, or alone."""
    logprobs = choice.get("logprobs")
    tokens = _of_lists(logprobs) if isinstance(logprobs, dict) else []
    prompt, ids = ([token_id(entry) for entry in _list(choice.get(name))] for name in ("prompt_token_ids", "token_ids"))
    if ids and len(tokens) in (len(ids), len(prompt) + len(ids)):  # the latter of an answer that echoes its prompt
        ids = [*prompt, *ids][-len(tokens) :]
        for token, number in zip(tokens, ids, strict=True):
            token.id = number if token.id is None else token.id
    return tokens


def _of_lists(logprobs: Mapping[str, Any]) -> list[Token]:
    lists = [entries for name in ("content", "refusal") if isinstance(entries := logprobs.get(name), list)]
    if lists:
        return [named_one(fields) for fields in list(chain(*lists))[:MOST] if isinstance(fields, dict)]
    texts = logprobs.get("tokens")
    if not isinstance(texts, list) or not all(isinstance(piece, str) for piece in texts):
        return []
    chances, tops, places = (_list(logprobs.get(name)) for name in ("token_logprobs", "top_logprobs", "text_offset"))
    tokens = []
    for i, name in enumerate(texts[:MOST]):
        p = chance(chances[i]) if i < len(chances) else None
        top = tops[i] if i < len(tops) and isinstance(tops[i], dict) else {}
        likely = [(*_of(t), q) for t, lp in list(top.items())[:MOST] if (q := chance(lp)) is not None]
        text, known = _of(name)
        at = places[i] if i < len(places) and type(places[i]) is int else None
        tokens.append(Token(text, known, p, likely, textless=text != name, at=at))
    return tokens


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _of(name: str) -> tuple[str, int | None]:
    """(text, id) of a name: some servers name the id in place of the text."""
    match = _NUMBERED.fullmatch(name)
    return ("", token_id(int(match[1]))) if match else (name, None)


def named_one(fields: Mapping[str, Any]) -> Token:
    """A token with its own entry. Older servers of llama.cpp say `content` and `probs`, with probabilities."""
    top = _list(fields.get("top_logprobs", fields.get("top_probs", fields.get("probs"))))
    candidates = [_entry(other) for other in top[:MOST] if isinstance(other, dict)]
    text, known, p = _entry(fields)
    if p is None:
        p = next((q for t, n, q in candidates if (t, n) == (text, known)), None)
    return Token(text, known, p, [(t, n, q) for t, n, q in candidates if q is not None], textless=text != _name(fields))


def _entry(fields: Mapping[str, Any]) -> tuple[str, int | None, float | None]:
    """(text, id, probability)."""
    p = chance(fields["logprob"]) if "logprob" in fields else _share(fields.get("prob"))
    text, known = _of(_name(fields))
    return text, token_id(fields.get("id")) if known is None else known, p


def _name(fields: Mapping[str, Any]) -> str:
    return words(fields.get("token"), fields.get("tok_str"), fields.get("content"))


def row(given: Any) -> Token:
    """SGLang's [log-probability, id, text]."""
    if not isinstance(given, list) or len(given) < 2:
        return Token("")
    return Token(words(*given[2:3]), token_id(given[1]), chance(given[0]))


def entry(table: Table, text: str, number: int | None) -> int:
    """The number in the table of a text, with the id that the record gives it, if any."""
    clean = text.encode("utf-8", "replace").decode()
    if number is None:
        return table.text(clean)
    return table.known(number, clean or f"‹token {number}›", special=not clean)


def fed(tokens: Sequence[Token], bodies: Sequence[Mapping[str, Any]], several: bool) -> int:
    """How many of the first tokens of a completion are its prompt's, which `echo` asks for: as many as the prompt has,
    where they are more than were written. Raises TraceError where the answer does not say how many those are."""
    begins = len(tokens) > 1 and tokens[0].p is None and any(token.p is not None for token in tokens)
    completion, prompt = None if several else last_count(bodies, "completion_tokens"), _prompt(bodies)
    ids = 0 if several else sum(len(_list(first_choice(body).get("token_ids"))) for body in bodies)
    if ids:  # of what was written
        completion, prompt = completion or ids, len(tokens) - ids if prompt is None else prompt
    if prompt is not None and completion is not None and len(tokens) == prompt + completion:
        return prompt
    if not begins or (completion is not None and len(tokens) <= completion):
        return 0
    if prompt is None or prompt > len(tokens):
        raise TraceError(
            "the answer begins with its prompt (`echo`), and its `usage` does not say how many tokens that has; ask "
            "for it (`stream_options`: `include_usage`), or leave `echo` out."
        )
    return prompt


def _prompt(bodies: Sequence[Mapping[str, Any]]) -> int | None:
    """How many tokens a prompt has, as its answer says."""
    places = [place for body in bodies for place in (body, first_choice(body))]
    lists = (_list(place.get(name)) for place in places for name in ("prompt_token_ids", "prompt_logprobs"))
    return next((len(entries) for entries in lists if entries), None) or last_count(bodies, "prompt_tokens")


def last_count(bodies: Sequence[Mapping[str, Any]], name: str) -> int | None:
    """A number of tokens in `usage`, as the last body that has one says it."""
    counts = [count for body in bodies if type(count := part(body, "usage").get(name)) is int and count >= 0]
    return counts[-1] if counts else None


def behind(text: str, tokens: Sequence[Token], first: int) -> str:
    """The text of some tokens from number `first` on, where `text` is that of all. Raises TraceError where it does not
    show."""
    left, own = ("".join(token.text for token in some) for some in (tokens[:first], tokens[first:]))
    if first >= len(tokens):
        return ""
    if any(token.textless for token in tokens):
        begin: int | None = None  # and the places are not those of the text
    elif own and text.endswith(own):
        begin = len(text) - len(own)
    elif left and text.startswith(left):
        begin = len(left)
    else:  # a character of several tokens, or a mark that the text leaves out
        start, end = tokens[0].at, tokens[first].at
        begin = None if start is None or end is None or not 0 <= end - start <= len(text) else end - start
    if begin is None:
        raise TraceError(
            "the answer begins with its prompt (`echo`), and its tokens do not show where in the text that ends; leave "
            "`echo` out."
        )
    return text[begin:]


def chance(logprob: Any) -> float | None:
    """The probability of a log-probability."""
    value = number(logprob)
    return None if value is None else math.exp(min(value, 0.0))


def _share(p: Any) -> float | None:
    value = number(p)
    return value if value is not None and 0 <= value <= 1 else None


def token_id(value: Any) -> int | None:
    """What can be the id of a token; None for anything else."""
    return value if type(value) is int and 0 <= value < 2**31 else None


def number(value: Any) -> float | None:
    """A number that a server may count; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not -LARGEST < value < LARGEST:
        return None  # nan is neither
    return float(value)
