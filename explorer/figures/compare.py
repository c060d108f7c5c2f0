"""Two runs of one prompt side by side: where their texts part, whether a lossless method kept its word, and which of
them was faster and why.

Pure functions of traces, but for `near_tie`, which asks the model for the two logits at the place where the texts part.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import median
from typing import Any, Literal

import msgspec

import engines
from engines import Trace
from explorer.figures.calls import target_role
from explorer.figures.definitions import DEFINITIONS
from explorer.figures.noise import LEAST
from explorer.figures.samples import gained


def answer_ids(trace: Trace) -> list[int]:
    """The emitted ids before the first end mark."""
    ids, ends = trace.output_ids, set(trace.header.eos_ids)
    return ids[: next((i for i, token in enumerate(ids) if token in ends), len(ids))]


def first_difference(a: Sequence[object], b: Sequence[object]) -> int | None:
    """Index of the first token, or word, in which two outputs differ, one of them ending counts too; None where they
    are the same."""
    at = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), None)
    return at if at is not None or len(a) == len(b) else min(len(a), len(b))


class Difference(msgspec.Struct, frozen=True):
    """Where two outputs part. unit: token where both have the same tokenizer, else character; at: how many are the same
    before it, None where all `count` are. limited: compared only as far as both go, because they were asked for
    different lengths or one of the runs was stopped; respelled: the same text in other tokens. ours, theirs: what
    stands there, "" where a text ends; position: where that is on this run's board, None where its tokens do not spell
    its text out."""

    unit: Literal["token", "character"]
    at: int | None
    count: int
    limited: bool
    respelled: bool = False
    ours: str = ""
    theirs: str = ""
    position: int | None = None

    @property
    def formula(self) -> str:
        """How it was found."""
        return DEFINITIONS[f"same_{self.unit}s"].formula


def difference(trace: Trace, other: Trace) -> Difference:
    """The first place where the outputs of two finished runs part."""
    start = len(trace.header.prompt_ids)
    if (own := _tokenizer(trace)) and own == _tokenizer(other):
        ours, theirs, limited = _comparable(trace, other)
        at = first_difference(ours, theirs)
        if at is None:
            return Difference("token", None, len(theirs), limited)
        respelled = not limited and trace.text == other.text
        pieces = _piece(trace, ours, at), _piece(other, theirs, at)
        return Difference("token", at, len(theirs), limited, respelled, *pieces, start + at)
    limited = any(run.end.reason != "complete" for run in (trace, other))
    end = min(len(trace.text), len(other.text)) if limited else None
    a, b = trace.text[:end], other.text[:end]
    at = first_difference(a, b)
    if at is None:
        return Difference("character", None, len(b), limited)
    token = _token_at(trace, at)
    position = None if token is None else start + token
    return Difference("character", at, len(b), limited, False, a[at : at + 1], b[at : at + 1], position)


def _token_at(trace: Trace, character: int) -> int | None:
    """The token that holds a character of the output; None where the tokens do not spell the text out."""
    known = {piece.id: piece.text for piece in trace.pieces}
    texts = [known.get(token, "") for token in answer_ids(trace)]
    whole = "".join(texts)
    if not whole.endswith(trace.text):
        return None
    ends = list(accumulate(map(len, texts)))
    return bisect_right(ends, character + len(whole) - len(trace.text))


def _tokenizer(trace: Trace) -> str:
    """Whose ids a run has; "" where they are not known."""
    known = trace.header.models and not {"token_ids", "tokens"} & set(trace.header.missing)
    return trace.header.models[0].tokenizer if known else ""


def control_of(trace: Trace, traces: Mapping[int, Trace]) -> Trace | None:
    """Among some traces the run of this one's baseline on the same prompt, main model, weights and number type; None
    where there is none. Of several the first whose forwards are row-invariant where this one's are, else the first.

    A run that a person changed has no control, and is none; one that failed is none.
    """
    if trace.header.edits:
        return None
    wanted, controls = (trace.header.baseline, main_model(trace), trace.header.prompt_ids), list[Trace]()
    for other in traces.values():
        same = (other.header.method, main_model(other), other.header.prompt_ids) == wanted
        if other is not trace and same and other.end.reason != "failed" and not other.header.edits:
            controls.append(other)
    return next((other for other in controls if same_forwards(other, trace)), controls[0] if controls else None)


def same_forwards(trace: Trace, other: Trace) -> bool:
    """Whether both or neither of two runs had row-invariant forwards, which round otherwise than plain ones."""
    ours, theirs = (
        any(model.options.get("row_invariant") is True for model in run.header.models[:1]) for run in (trace, other)
    )
    return ours == theirs


def main_model(trace: Trace) -> tuple[str, str, str]:
    """Name, weights and number type of the model that was picked: runs of one model have the same."""
    model = next(iter(trace.header.models), None)
    return (model.name, model.sha256, model.dtype) if model else ("", "", "")


def place(trace: Trace) -> tuple[str, ...]:
    """Where times were clocked: times of two places are no ratio."""
    if trace.header.arrivals:
        return (trace.header.imported_from,)
    return (trace.header.machine, *(f"{m.device} {m.threads}" for m in trace.header.models[:1]))


@dataclass(frozen=True)
class Tie:
    """The logits of two tokens at the place where two texts part: the control's token first, then ours.

    alone: the last row fed by itself, as plain decoding does it; together: the whole text in one forward, as a
    verifying forward does it."""

    alone: tuple[float, float]
    together: tuple[float, float]

    @property
    def gap(self) -> float:
        """Logits between the two tokens, where plain decoding chose."""
        return self.alone[0] - self.alone[1]


@dataclass(frozen=True)
class Certificate:
    """What became of a lossless method's claim in one run: `at` is the first differing token of the answer (None: the
    texts are the same).

    tokens: of the control up to its end. ours, control: the pieces at the difference, "" behind the end of a text.
    limited: the texts were compared only as far as both go, because they were asked for different lengths or one of the
    runs was stopped."""

    tokens: int
    at: int | None
    ours: str = ""
    control: str = ""
    dtype: str = ""
    tie: Tie | None = None
    limited: bool = False

    @property
    def sentence(self) -> str:
        """The certificate in one sentence."""
        if self.at is None:
            if self.limited:
                return f"Same {self.tokens} tokens as far as both go ({self.dtype})."
            return f"Same {self.tokens} tokens ({self.dtype})."
        diverged = (
            f"Parts at token {self.at + 1}: “{self.ours or 'end'}” here, “{self.control or 'end'}” in the "
            f"control ({self.dtype})."
        )
        if self.tie is None:
            return diverged
        (a, b), (c, d) = self.tie.alone, self.tie.together
        shown = (
            f"Logits there: {b:.3f} against {a:.3f} one row at a time (gap {a - b:.3f}), {d:.3f} against {c:.3f} "
            f"in one forward (gap {c - d:.3f})."
        )
        return f"{diverged} {shown}"


def certificate(trace: Trace, control: Trace, tie: Tie | None = None) -> Certificate:
    """Hold a run against the plain run that it claims to equal. Runs of different lengths, or stopped ones, are
    compared as far as both go."""
    ours, plain, limited = _comparable(trace, control)
    at = first_difference(ours, plain)
    dtype = main_model(trace)[2]
    if at is None:
        return Certificate(len(plain), None, dtype=dtype, limited=limited)
    return Certificate(len(plain), at, _piece(trace, ours, at), _piece(control, plain, at), dtype, tie, limited)


def _comparable(trace: Trace, control: Trace) -> tuple[list[int], list[int], bool]:
    """Both answers, cut to the length that both runs reached where they did not both come to their own end, and whether
    they had to be."""
    ours, plain = answer_ids(trace), answer_ids(control)
    runs, asked = (trace, control), {t.header.params.get("max_new_tokens") for t in (trace, control)}
    by_themselves = all(set(t.output_ids) & set(t.header.eos_ids) for t in runs)
    if by_themselves or (len(asked) == 1 and all(t.end.reason == "complete" for t in runs)):
        return ours, plain, False
    shorter = min(len(trace.output_ids), len(control.output_ids))
    return ours[:shorter], plain[:shorter], True


def _piece(trace: Trace, ids: Sequence[int], at: int) -> str:
    if at >= len(ids):
        return ""
    return next((piece.text for piece in trace.pieces if piece.id == ids[at]), f"‹token {ids[at]}›")


def near_tie(model: Any, trace: Trace, control: Trace) -> Tie | None:
    """The logits of both tokens at the first difference, by one more look at the model; None where the texts are the
    same or one of them ends there."""
    ours, plain, _ = _comparable(trace, control)
    return _tie(model, control, ours, plain)


def _tie(model: Any, control: Trace, ours: Sequence[int], theirs: Sequence[int]) -> Tie | None:
    at = first_difference(ours, theirs)
    if at is None or at >= min(len(ours), len(theirs)):
        return None
    logits = engines.next_logits(model, [*control.header.prompt_ids, *theirs[:at]], [theirs[at], ours[at]])
    return Tie((logits["alone"][0], logits["alone"][1]), (logits["together"][0], logits["together"][1]))


def saved_at_end(trace: Trace, control: Trace) -> tuple[int, int] | None:
    """(calls, all calls) of the control's main model: those that wrote only what stands after its first end mark, when
    everything up to it was written. A rule for the end saves such calls whatever else a method does, so they are told
    apart where one run filled the rest of its board by such a rule and the other has none. None elsewhere, and for a
    control whose board moved or whose commits or calls were not recorded."""
    filled, plain = fills_end(trace), fills_end(control)
    steps, ends, start = control.steps, set(control.header.eos_ids), len(control.header.prompt_ids)
    end = next((at for at, token in enumerate(control.output_ids, start) if token in ends), None)
    moved = any(step.commits and (step.commits.removed or step.commits.inserted) for step in steps)
    if not filled or plain or end is None or moved or {"commits", "forwards"} & set(control.header.missing):
        return None
    role, positions, after = target_role(control), set[int](), 0
    for step in steps:
        if step.commits and positions.issuperset(range(start, end + 1)):
            after += step.forwards.get(role, 0)
        positions |= set(step.commits.positions) if step.commits else set()
    return (after, sum(step.forwards.get(role, 0) for step in steps)) if after else None


def fills_end(trace: Trace) -> bool:
    """Whether a rule for the end filled the rest of the run's board without asking the model."""
    return any("fill" in step.commits.causes for step in trace.steps if step.commits)


def network_certificate(model: Any, control: Trace) -> Certificate | None:
    """Hold a greedy run against what the network's own forward over the same text chooses at each place, which goes
    through neither our cache nor our masks; None for a model without such a network, or an answer without tokens."""
    prompt, output = control.header.prompt_ids, control.output_ids
    chosen = engines.network_choices(model, [*prompt, *output], len(prompt)) if output else None
    if chosen is None:
        return None
    return of_ids(model, control, output, chosen)


def of_ids(model: Any, control: Trace, ours: Sequence[int], theirs: Sequence[int], asked: bool = False) -> Certificate:
    """Hold ids of a greedy run against others. asked: the model tells the logits of both tokens where they part."""
    at, dtype = first_difference(ours, theirs), main_model(control)[2]
    if at is None:
        return Certificate(len(theirs), None, dtype=dtype)
    here, there = (model.tokenizer.piece(ids[at]).text if at < len(ids) else "" for ids in (ours, theirs))
    tie = _tie(model, control, ours, theirs) if asked else None
    return Certificate(len(theirs), at, here, there, dtype, tie)


@dataclass(frozen=True)
class Pace:
    """Seconds per token of a run that verifies drafts against its plain control, both measured, the reading of the
    prompt left out.

    round_seconds: median of one round (all model calls and the method's own work); plain_seconds: of one token of the
    control; gained: mean tokens per round; rows: mean rows of a verifying forward; forward_seconds: share of the round
    spent in models."""

    round_seconds: float
    plain_seconds: float
    gained: float
    rows: float

    @property
    def break_even(self) -> float:
        """Tokens that a round has to gain to cost no more than plain decoding."""
        return self.round_seconds / self.plain_seconds

    @property
    def speed(self) -> float:
        """Tokens per second over the control's; above 1 is faster."""
        return self.gained / self.break_even

    @property
    def sentence(self) -> str:
        """Which is faster and why, in two sentences."""
        if self.speed > 1.02:
            verdict = f"After the prompt, by the median round: faster, {self.speed:.2f}×."
        elif self.speed < 0.98:
            verdict = f"After the prompt, by the median round: slower, {self.speed:.2f}×."
        else:
            verdict = f"After the prompt, by the median round: as fast, {self.speed:.2f}×."
        return (
            f"{verdict} A round of {self.rows:.0f} rows takes {1000 * self.round_seconds:.1f} ms where a plain token "
            f"takes {1000 * self.plain_seconds:.1f} ms, so it pays from {self.break_even:.2f} tokens per round on and "
            f"gained {self.gained:.2f}."
        )


def tokens_per_second(trace: Trace) -> float | None:
    """Tokens, of all samples, ÷ (model time + method time) of the whole run, the reading of the prompt included; None
    where a run has no time or no tokens, or did not record them."""
    sums, lost = trace.totals, {"tokens", "model_seconds"} & set(trace.header.missing)
    seconds, tokens = sums.model_seconds + sums.method_seconds, 0 if lost else gained(trace)
    return tokens / seconds if seconds and tokens else None


def speed(trace: Trace, other: Trace) -> float | None:
    """Tokens per second over the other run's; None where one of them has none, or was clocked at another place."""
    ours, theirs = tokens_per_second(trace), tokens_per_second(other)
    return ours / theirs if ours and theirs and place(trace) == place(other) else None


def whole_run(trace: Trace, control: Trace) -> float | None:
    """Tokens per second over the control's; None where one of them did not record the method's own time."""
    if any("method_seconds" in run.header.missing for run in (trace, control)):
        return None
    ours, plain = tokens_per_second(trace), tokens_per_second(control)
    return ours / plain if ours and plain else None


def pace(trace: Trace, control: Trace) -> Pace | None:
    """How a run that verifies drafts stands against its control; None where it drafts nothing or either run has too few
    rounds behind the prompt to say which are usual."""
    rounds = [step for step in trace.steps[1:] if step.tree and step.commits]
    plain = [step for step in control.steps[1:] if step.commits]
    if min(len(rounds), len(plain)) < LEAST:
        return None
    seconds = [step.model_seconds + step.method_seconds for step in rounds]
    alone = [(step.model_seconds + step.method_seconds) / len(step.commits.positions) for step in plain if step.commits]
    gained = sum(len(step.commits.positions) for step in rounds if step.commits) / len(rounds)
    rows = sum(len(step.tree.parents) for step in rounds if step.tree) / len(rounds)
    return Pace(median(seconds), median(alone), gained, rows) if median(alone) > 0 else None
