"""What the harness asks for, one request each, in a form that can be sent to another process and found again on disk:
an answer to decode, or a text to score; and what the answers to a task cost, in the figures of `decoding-explorer
compare`."""

import hashlib
import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

import engines
from engines import Run, Trace
from explorer.figures.calls import layer_rows, other_calls, target_calls, target_role
from explorer.figures.compare import answer_ids
from explorer.figures.samples import gained
from explorer.figures.verdict import cut_at


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What came of a request, with what it cost, counted as `decoding-explorer compare` counts.

    text: up to the first string that ends an answer. score: nats, of a text that was scored, and greedy whether greedy
    decoding writes it. gained: what the target's calls are held against; cut: all tokens that were allowed are there,
    and no end mark; left_out: tokens at the beginning of the context, for which the model has no room."""

    text: str = ""
    score: float | None = None
    greedy: bool = False
    steps: int = 0
    target_calls: int = 0
    other_calls: int = 0
    work: int = 0
    tokens_fed: int = 0
    tokens: int = 0
    gained: int = 0
    seconds: float = 0.0
    cut: bool = False
    left_out: int = 0


class Item(msgspec.Struct, frozen=True):
    """Everything that it takes to give an answer again. until: the strings that end it; left_out: see `Answer`."""

    method: str
    params: dict[str, Any]
    prompt: list[int]
    until: list[str]
    seed: int
    left_out: int = 0

    def run(self, model: Any, detail: Literal["none", "full"] = "none") -> Trace:
        """Decode it. A method that only appends to one text ends as soon as a string of `until` stands there; any other
        may still change what it has written, and goes on to its own end. Raises UserError."""
        info = engines.get_method(self.method).info
        appends = info.kind == "causal" and info.paths is None
        running = engines.stream(self.method, model, self.prompt, params=self.params, seed=self.seed, detail=detail)
        tokenizer = tokenizer_of(self.method, model)
        try:
            for _ in running:
                if appends and self.until and self._ended(running, tokenizer):
                    break
        finally:
            running.close()
        return running.trace()

    def _ended(self, running: Run, tokenizer: Any) -> bool:
        text = tokenizer.decode(running.end().output_ids)
        return any(end in text for end in self.until)

    def text(self, trace: Trace, model: Any) -> str:
        """The answer of a run as the harness takes it: with its leading spaces, up to the first string of `until`."""
        shown = [token for token in answer_ids(trace) if token != trace.header.mask_id]
        text: str = tokenizer_of(self.method, model).decode(shown)
        return text[: min((at for end in self.until if (at := text.find(end)) >= 0), default=None)]

    def work(self, model: Any) -> Answer:
        """Decode it and count. Raises UserError."""
        trace = self.run(model)
        role, totals = target_role(trace), trace.totals
        return Answer(
            text=self.text(trace, model),
            steps=len(trace.steps),
            target_calls=sum(target_calls(step, role) for step in trace.steps),
            other_calls=sum(other_calls(step, role) for step in trace.steps),
            work=sum(layer_rows(step) for step in trace.steps),
            tokens_fed=totals.tokens_fed,
            tokens=totals.tokens,
            gained=gained(trace),
            seconds=totals.model_seconds + totals.method_seconds,
            cut=cut_at(trace) is not None,
            left_out=self.left_out,
        )


class Scored(msgspec.Struct, frozen=True):
    """A text whose tokens from `start` on are scored by the method's model itself, in one forward. left_out: see
    `Answer`."""

    method: str
    ids: list[int]
    start: int
    left_out: int = 0

    def work(self, model: Any) -> Answer:
        """Score it and count. Raises UserError."""
        main = main_model(self.method, model)
        main.warm_up()
        began = time.perf_counter()
        score, greedy = engines.log_likelihood(main, self.ids, self.start)
        fed = len(self.ids) - 1
        return Answer(
            score=score,
            greedy=greedy,
            target_calls=1,
            work=fed * int(getattr(main, "num_layers", 0)),
            tokens_fed=fed,
            left_out=self.left_out,
            seconds=time.perf_counter() - began,
        )


def main_model(method: str, model: Any) -> Any:
    """The model that a person picked, of what `engines.run` takes as `model`. Raises UserError."""
    info = engines.get_method(method).info
    return engines.assign_roles(info, model)[info.role]


def tokenizer_of(method: str, model: Any) -> Any:
    """That model's tokenizer."""
    return main_model(method, model).tokenizer


def key(item: Item | Scored, weights: Sequence[Any] | None) -> str | None:
    """The hash of all that decides an answer: code, weights, and the request. None where the weights cannot be told
    apart from others, so that nothing may be reused."""
    if weights is None:
        return None
    asked = msgspec.json.encode(item, order="deterministic").decode()
    decides = ["eval", type(item).__name__, engines.code_version(), list(weights), asked]
    return hashlib.sha256(msgspec.json.encode(decides)).hexdigest()


COUNTS = ("steps", "target_calls", "other_calls", "work", "tokens_fed", "tokens", "seconds")
HEADS = {"target_calls": "model calls", "tokens_per_call": "tokens per call", "other_calls": "other calls"}
HEADS |= {"tokens_fed": "tokens fed", "reused": "from before"}
SHOWN = ("answers", "target_calls", "tokens_per_call", "other_calls", "work", "tokens_fed", "tokens", "seconds", "cut")
LEGEND = (
    "per answer, but for answers, cut (at max_new_tokens, with no end mark), shortened (its context was too long and "
    "lost its beginning) and from before (answered in an earlier run, with the seconds of then); work: rows x layers; "
    "seconds: model and method, without recording"
)


def means(answers: Sequence[Answer], reused: int) -> dict[str, Any]:
    """Means per answer to a task, and what all calls gave together; tokens per call is None where nothing was decoded.
    reused: how many were given in an earlier run."""
    calls = sum(answer.target_calls for answer in answers)
    gained = sum(answer.gained for answer in answers)
    decoded = any(answer.score is None for answer in answers)
    return {
        "answers": len(answers),
        "reused": reused,
        **{name: sum(getattr(answer, name) for answer in answers) / len(answers) for name in COUNTS},
        "tokens_per_call": gained / calls if decoded and calls else None,
        "cut": sum(answer.cut for answer in answers),
        "shortened": sum(answer.left_out > 0 for answer in answers),
    }


def table(costs: Mapping[str, Mapping[str, Any]]) -> tuple[list[str], list[list[Any]]]:
    """Heads and rows, one task each."""
    shown = [*SHOWN, "shortened", "reused"]
    heads = ["task", *(HEADS.get(name, name) for name in shown)]
    return heads, [[task, *(_short(cost[name]) for name in shown)] for task, cost in costs.items()]


def _short(value: Any) -> Any:
    """A mean of large counts without its decimals."""
    return round(value) if isinstance(value, float) and value >= 100 else value
