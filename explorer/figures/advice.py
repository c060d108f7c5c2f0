"""Whether a lossless method helps on given prompts, on the machine where they were timed: the verdict, why, and what it
would take. Pure functions of runs that `explorer.bench.advise` timed in turn with their control (`figures.pairs`).

The interval is that of a median by order statistics (95 %, `engines.median_interval`): over the repeats, and from six
prompts on over the prompts. It speaks of these prompts, this machine and one text at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, Literal

import msgspec

from engines import ModelRecord, get_method, median_interval
from explorer.figures.bits import ROUNDING, rows_note
from explorer.figures.calls import many
from explorer.figures.compare import Certificate
from explorer.figures.noise import ROOM, SHARE, displaced, explained
from explorer.figures.pairs import (
    ENOUGH,
    Pair,
    Text,
    break_even,
    break_evens,
    cost_of,
    kept,
    mean_per_call,
    near,
    speeds,
)
from explorer.figures.samples import gained

SOME = 3  # values: with so many, what there is can be said
LEVEL = 0.95
HALF = 0.5  # share of the pairs that others may have disturbed, where enough remain
Word = Literal["helps", "hurts", "even", "other", "busy", "few"]
Ended = Literal["complete", "stopped", "time"]


class Advised(msgspec.Struct, frozen=True):
    """What is said of one method. speed: the median; low, high: its 95 % interval, None where there are too few values.
    values: of which it is, repeats or prompts (`unit`). left_out: pairs of runs that others disturbed.

    level: of the interval; below six values what the least and the most have. seconds: median of a run of the control
    and of the method, over the pairs that count; tokens: median that the method wrote in one. need_low, need_high: the
    interval of `need`.

    same: prompts with the control's very tokens; parts: where the first other text leaves it, "" where none does; tied:
    whether rounding explains all of these; far: whether it does not
    explain the first of them. tokens_per_call, rows: means behind the prompt; rows_cost: of a forward of
    so many rows over one of a single row; need: tokens that a call has to write to break even, all of its work
    included, derived from measured seconds. verdict and the sentences: what follows."""

    method: str
    title: str
    params: dict[str, Any]
    word: Word
    speed: float | None
    low: float | None
    high: float | None
    values: int
    unit: Literal["repeat", "prompt"]
    left_out: int
    same: int
    prompts: int
    parts: str
    tied: bool
    tokens_per_call: float | None
    rows: float | None
    rows_cost: float | None
    need: float | None
    need_low: float | None = None
    need_high: float | None = None
    far: bool = False
    level: float = LEVEL
    seconds: tuple[float, float] | None = None
    tokens: float | None = None
    verdict: str = ""
    text: str = ""
    why: str = ""
    takes: str = ""

    @property
    def label(self) -> str:
        """The method, with its parameters where any was given."""
        given = ", ".join(f"{name}={value}" for name, value in self.params.items())
        return f"{self.title} ({given})" if given else self.title


class Advice(msgspec.Struct, frozen=True):
    """What was measured, as a record. batch: texts decoded at once. plain_seconds: median of one plain token.
    row_seconds: of a forward by rows. ended: whether all repeats were made. chosen: why these methods, "" where
    somebody named them. command, date: what was typed, and when."""

    model: ModelRecord
    control: str
    machine: str
    versions: dict[str, str]
    prompts: int
    max_new_tokens: int
    repeats: int
    plain_seconds: float
    row_seconds: dict[int, float]
    methods: list[Advised]
    ended: Ended
    seconds: float
    batch: int = 1
    chosen: str = ""
    conditions: str = ""
    sentence: str = ""
    command: str = ""
    date: str = ""


# --- the verdict


def advised(
    method: str,
    title: str,
    params: dict[str, Any],
    texts: Sequence[Text],
    pairs: Sequence[Pair],
    plain: float,
    row_seconds: Mapping[int, float],
) -> Advised:
    """What follows from the runs of one method. texts: of each prompt; plain: usual seconds of a plain token."""
    prompts, clean = len(texts), kept(pairs, plain)
    values, counts = speeds(clean, prompts), mean_per_call(texts)
    low, high = median_interval(values) or (None, None)
    level = LEVEL
    if low is None and len(values) >= SOME:  # all of them are on one side of the median with a chance of 2 / 2^n
        low, high, level = min(values), max(values), 1 - 2 / 2 ** len(values)
    needs = break_evens(clean)
    need = median_interval(needs)
    other = [text.held for text in texts if text.held.at is not None]
    tied = bool(other) and all(near(held.tie, held.dtype) for held in other)
    found = Advised(
        method=method,
        title=title,
        params=params,
        word=_word(other, tied, texts, pairs, clean, values),
        speed=median(values) if values else None,
        low=low,
        high=high,
        values=len(values),
        unit="prompt" if prompts >= ENOUGH else "repeat",
        left_out=len(pairs) - len(clean),
        same=prompts - len(other),
        prompts=prompts,
        parts=other[0].sentence if other else "",
        tied=tied,
        tokens_per_call=counts[0] if counts else None,
        rows=counts[1] if counts else None,
        rows_cost=cost_of(counts[1], row_seconds) if counts else None,
        need=break_even(clean),
        need_low=need.low if need else None,
        need_high=need.high if need else None,
        far=bool(other) and other[0].tie is not None and not near(other[0].tie, other[0].dtype),
        level=level,
        seconds=(median(p.control.seconds for p in clean), median(p.ours.seconds for p in clean)) if clean else None,
        tokens=median(gained(pair.ours.trace) for pair in clean) if clean else None,
    )
    return msgspec.structs.replace(
        found, verdict=verdict_of(found), text=text_of(found), why=why_of(found), takes=takes_of(found)
    )


def _word(
    other: Sequence[Certificate],
    tied: bool,
    texts: Sequence[Text],
    pairs: Sequence[Pair],
    clean: Sequence[Pair],
    values: Sequence[float],
) -> Word:
    if other and not tied:
        return "other"
    out = len(pairs) - len(clean)
    interval = median_interval(values)
    if len(values) < SOME:
        taken = any(displaced(trace) for text in texts for trace in (text.control, text.ours))
        return "busy" if taken or (out and out >= SHARE * len(pairs)) else "few"
    bounds = [most for text in texts if (most := explained(text.ours, text.control))]
    if out > HALF * len(pairs) or (bounds and median(values) > ROOM * max(bounds)):
        return "busy"
    if interval is None:
        return "few"
    low, high = (round(end, 2) for end in interval)  # as they are printed
    return "helps" if low > 1 else "hurts" if high < 1 else "even"


# --- in words


def verdict_of(one: Advised) -> str:
    """The verdict in a few words."""
    if one.word == "other":
        return "not the same text"
    if one.word == "busy":
        return "this machine is too busy to say"
    if one.low is None:
        return f"too few repeats to say: {one.values} of at least {ENOUGH}"
    low, high = f"{one.low:.2f}×", f"{one.high:.2f}×"
    if one.word == "few":
        seems = _seems(one)
        if seems == "helps":
            return f"seems to help: {low} to {high} in {one.values} repeats"
        return f"does not seem to help: {low} to {high} in {one.values} repeats"
    if one.word == "helps":
        return f"helps: {low} to {high}"
    return f"does not help: {low} to {high}" if one.word == "hurts" else f"no difference can be seen: {low} to {high}"


def _seems(one: Advised) -> Word:
    """What too few repeats point to; all of them have to be above 1 for a method that seems to help."""
    return "helps" if one.low is not None and round(one.low, 2) > 1 else "even"


def text_of(one: Advised) -> str:
    """Whether the text is the control's, and where it parts."""
    if not one.parts:
        return "Same text as the control."
    head = "" if one.prompts == 1 else f"Same text on {one.same} of {one.prompts} prompts."
    tail = "The two tokens are all but tied, so rounding decides between them." if one.tied else ""
    if one.word == "other" and one.far:
        tail = "They are not a near tie: rounding does not explain it."
    return " ".join(part for part in (head, one.parts, tail) if part)


def why_of(one: Advised) -> str:
    """What was timed, and what a call brings against what it costs."""
    timed = _timed(one)
    return f"{timed} {_per_call(one)}" if timed else _per_call(one)


def _timed(one: Advised) -> str:
    if one.seconds is None or one.tokens is None or one.word == "busy":
        return ""
    plain, ours = one.seconds
    return (
        f"By the median a run takes {ours:.2f} s, the control's {plain:.2f} s, for {many(round(one.tokens), 'token')}."
    )


def _per_call(one: Advised) -> str:
    if one.tokens_per_call is None or one.rows is None:
        return "The answer ends with its first call, so there is no call to save."
    if one.rows_cost is None or one.word == "busy":
        return f"After the prompt it writes {one.tokens_per_call:.2f} tokens per model call."
    return (
        f"After the prompt it writes {one.tokens_per_call:.2f} tokens per model call; a call on "
        f"{many(round(one.rows), 'row')}, its mean, costs {one.rows_cost:.2f} calls on one row here."
    )


def takes_of(one: Advised) -> str:
    """What it would take to break even on this machine."""
    if one.need is None or one.tokens_per_call is None or one.word == "busy":
        return ""
    low, high, writes = one.need_low, one.need_high, one.tokens_per_call
    if low is None or high is None:
        said = f"With drafting and checking it pays from {one.need:.2f} tokens per call (derived from these seconds)."
    else:
        said = (
            f"With drafting and checking it pays from {one.need:.2f} tokens per call ({low:.2f} to {high:.2f}, derived "
            "from these seconds)."
        )
    return " ".join(part for part in (said, _against(one, one.need, writes)) if part)


def _against(one: Advised, need: float, writes: float) -> str:
    """What a call writes against what it has to, and why a whole run may tell otherwise."""
    if one.need_low is not None and one.need_high is not None and one.need_low <= writes <= one.need_high:
        return "What it writes is within that, so they do not tell whether it pays."
    if writes < need:
        return f"That is {need - writes:.2f} more than it writes."
    if one.word == "even":
        return "It writes more, but whole runs, reading the prompt included, differ by less than they vary."
    return ""


def conditions_of(advice: Advice) -> str:
    """What was measured, on what."""
    m = advice.model
    threads = "one thread" if m.threads == 1 else f"{m.threads} threads"
    prompts = "one prompt" if advice.prompts == 1 else f"{advice.prompts} prompts"
    said = (
        f"{m.name}, {m.dtype}, {threads}, {m.device}, {advice.machine}; {prompts}, one text at a time "
        f"(batch {advice.batch}), at most {advice.max_new_tokens} new tokens. Speeds are of whole runs over those of "
        f"{get_method(advice.control).info.title}, reading the prompt included."
    )
    if m.dtype == "float32" and m.slower is None:
        return said
    if m.moved is not None and m.moved < ROUNDING:
        return f"{said} {rows_note(m)}"
    return f"{said} In {m.dtype} no method promises the same text; each row says whether it wrote it here."


def sentence_of(advice: Advice) -> str:
    """The answer in one sentence."""
    best = best_of(advice)
    if best is not None:
        return f"{best.label} helps on this text here: {best.low:.2f}× to {best.high:.2f}×."
    words = {one.word for one in advice.methods}
    if not words and advice.ended == "stopped":
        return "Stopped before any method could be compared."
    if not words:
        return (
            f"In {advice.seconds:.0f} s not even one run of each method could be made: give it more seconds, ask for "
            "fewer new tokens, or try again when this machine is quiet."
        )
    if "busy" in words:
        return "This machine is too busy to say whether anything helps: try again when it is quiet."
    if some := max((one for one in advice.methods if one.word == "few"), key=lambda one: one.low or 0, default=None):
        if _seems(some) == "helps":
            return (
                f"{some.label} seems to help on this text here: {some.low:.2f}× to {some.high:.2f}× in "
                f"{some.values} repeats; for an interval of 95 % it takes {ENOUGH}."
            )
        return "Too few repeats were measured to say whether anything helps."
    if words == {"other"}:
        return "No method here gives the control's text."
    if "even" in words:
        return "No help can be seen on this text here, and where the interval contains 1 none can be ruled out either."
    return "None of these methods helps on this text here."


def best_of(advice: Advice) -> Advised | None:
    """The method that helps most, by the low end of its interval; None where none does."""
    return max((one for one in advice.methods if one.word == "helps"), key=lambda one: one.low or 0, default=None)


def worded(advice: Advice) -> Advice:
    """The record with its sentences."""
    return msgspec.structs.replace(advice, conditions=conditions_of(advice), sentence=sentence_of(advice))
