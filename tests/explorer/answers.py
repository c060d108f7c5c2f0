"""Answers that are made up, and what a server of each form sends for them: bodies, streams and files, as the public
documentation of the forms has them."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

from hypothesis import strategies as st

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=4)
CHANCE = st.integers(1, 64).map(lambda n: -n / 16)


@dataclass
class Named:
    """A token: its text, its id and the log-probability that it got; other: the likeliest ones as (text, id, that)."""

    text: str
    id: int
    logprob: float
    other: list[tuple[str, int, float]] = field(default_factory=list)


LIKELY = st.tuples(TEXT, st.integers(0, 12), CHANCE)  # few ids, so that each has several texts
NAMED = st.builds(
    Named,
    TEXT,
    st.integers(0, 9),
    CHANCE,
    st.lists(LIKELY, max_size=2, unique_by=(lambda one: one[0], lambda one: one[1])),
)


@dataclass
class Answer:
    """What is put in. events: the tokens of each event; finish: why it ended, None where it was cut; prompt: tokens of
    the prompt that are sent with it; lines: how lines end; done: whether the mark of the end follows; several: whether
    another answer is beside it, and first: whether that comes first; ids: whether the server names ids; error: what it
    says in the end."""

    events: list[list[Named]]
    finish: str | None
    prompt: list[Named]
    lines: str
    done: bool
    several: bool
    first: bool
    ids: bool
    error: str

    @property
    def tokens(self) -> list[Named]:
        return [token for event in self.events for token in event]

    @property
    def usage(self) -> dict:
        return {"prompt_tokens": len(self.prompt) or 3, "completion_tokens": len(self.tokens)}


ANSWERS = st.builds(
    Answer,
    st.lists(st.lists(NAMED, min_size=1, max_size=3), min_size=1, max_size=5),
    st.sampled_from(["stop", "length", "abort", None]),
    st.just([]),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["", "", "out of memory"]),
)


def joined(tokens):
    return "".join(token.text for token in tokens)


def chat_logprobs(tokens):
    return {"content": [entry(token) | {"top_logprobs": likely(token)} for token in tokens]}


def entry(token):
    return {"token": token.text, "logprob": token.logprob, "bytes": [*token.text.encode()]}


def likely(token):
    return [{"token": text, "logprob": logprob, "bytes": None} for text, _, logprob in token.other]


def lists(tokens, start=0, begins=False, names=False):
    """The older lists side by side. begins: they begin with a prompt, whose first token has no probability."""
    name = (lambda text, number: f"token_id:{number}") if names else lambda text, number: text
    found = [name(token.text, token.id) for token in tokens]
    tops = [{name(text, number): logprob for text, number, logprob in token.other} for token in tokens]
    chances = [token.logprob for token in tokens]
    if begins:
        chances[0], tops[0] = None, None
    places = [*accumulate((len(one) for one in found), initial=start)][:-1]
    return {"tokens": found, "token_logprobs": chances, "top_logprobs": tops, "text_offset": places}


def openai(given: Answer, whole: bool, chat: bool, echo: bool = False, names: bool = False) -> list[dict]:
    """Bodies of chat completions or completions, of vLLM where ids are named."""

    def choice(tokens, index=0, finish=None, begins=False):
        told = {"index": index, "finish_reason": finish}
        if given.ids and not names:
            told["token_ids"] = [token.id for token in tokens[len(given.prompt) if begins else 0 :]]
        if begins and given.ids:
            told["prompt_token_ids"] = [token.id for token in given.prompt]
        if chat:
            said = {"message" if whole else "delta": {"content": joined(tokens)}}
            return told | said | {"logprobs": chat_logprobs(tokens)}
        return told | {"text": joined(tokens), "logprobs": lists(tokens, begins=begins, names=names)}

    def body(*choices, **more):
        return {"id": "c-1", "object": "chat.completion.chunk", "model": "m", "choices": [*choices]} | more

    first = given.prompt if echo else []
    if whole:
        mine = choice([*first, *given.tokens], finish=given.finish, begins=bool(first))
        other = [choice([Named("other", 7, -1.0)], 1, "stop")] if given.several else []
        return [body(*other, mine, usage=given.usage)]
    found = []
    for place, tokens in enumerate(given.events):
        mine = body(choice([*(first if not place else []), *tokens], begins=bool(first) and not place))
        found += beside(given, mine, body(choice([Named("other", 7, -1.0)], 1)))
    if given.error:
        return [*found, {"error": {"message": given.error, "code": 500}}]
    if given.several:
        found.append(body({"index": 1, "finish_reason": "stop", **({"delta": {}} if chat else {"text": ""})}))
    if given.finish:
        last = {"index": 0, "finish_reason": given.finish, "logprobs": None}
        found.append(body(last | ({"delta": {}} if chat else {"text": ""})))
    return [*found, body(usage=given.usage)] if given.finish or given.done else found


def beside(given: Answer, mine: dict, other: dict) -> list[dict]:
    """An event, with one of the other answer where there is one."""
    if not given.several:
        return [mine]
    return [other, mine] if given.first else [mine, other]


def llama(given: Answer, whole: bool) -> list[dict]:
    """Bodies of llama.cpp's own interface, of a batch where there are several answers."""
    ends = {"stop": "eos", "length": "limit", "abort": "abort"}

    def named(token):
        tops = [{"id": i, "token": text, "bytes": [], "logprob": logprob} for text, i, logprob in token.other]
        return {"id": token.id, **entry(token), "top_logprobs": tops}

    def body(tokens, index=0, **more):
        told = {"index": index, "content": joined(tokens), "tokens": [token.id for token in tokens], "stop": False}
        return told | {"completion_probabilities": [named(token) for token in tokens]} | more

    end = {"stop": True, "stop_type": ends.get(given.finish), "model": "m", "timings": {"predicted_ms": 5.0}}
    other = [Named("other", 7, -1.0)]
    if whole:
        both = [body(given.tokens, **end), body(other, 1, stop=True, stop_type="eos")]
        return both if given.several else both[:1]
    found = []
    for tokens in given.events:
        found += beside(given, body(tokens), body(other, 1))
    if given.error:
        return [*found, {"error": {"message": given.error, "code": 500, "type": "server_error"}}]
    return [*found, body([]) | end] if given.finish else found


def sglang(given: Answer, whole: bool, new: bool) -> list[dict]:
    """Bodies of SGLang's own interface. new: events hold what is new alone, not all from the beginning."""

    def body(tokens, count, finish=None, index=0):
        rows = [[token.logprob, token.id, token.text] for token in tokens]
        tops = [[[logprob, i, text] for text, i, logprob in token.other] for token in tokens]
        why = {"type": finish} | ({"message": "stopped", "status_code": 503} if finish == "abort" else {})
        meta = {"id": "s", "completion_tokens": count, "output_token_logprobs": rows, "output_top_logprobs": tops}
        return {"text": joined(tokens), "meta_info": meta | {"finish_reason": why if finish else None}, "index": index}

    if whole:
        return [body(given.tokens, len(given.tokens), given.finish)]
    ends = [0, *accumulate(len(event) for event in given.events)]
    found = []
    for begin, end in pairwise(ends):
        last = given.finish if end == ends[-1] and not given.error else None
        mine = body(given.tokens[begin if new else 0 : end], end, last)
        found += beside(given, mine, body([Named("other", 7, -1.0)], 1, index=1))
    return [*found, {"error": {"message": given.error}}] if given.error else found


def stream(given: Answer, bodies: list[dict]) -> str:
    """The text of a stream."""
    end = given.lines
    events = [": a comment", *(json.dumps(one, ensure_ascii=False) for one in bodies)]
    events += ["[DONE]"] if given.done and not given.error else []
    return "".join(f"{one}{end}{end}" if one[0] == ":" else f"data: {one}{end}{end}" for one in events)


def probability(token: Named) -> float:
    return round(math.exp(token.logprob), 6)
