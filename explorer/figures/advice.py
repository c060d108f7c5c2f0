"""Whether a lossless method helps on given prompts, on the machine where they were timed: the verdict, why, and what it
would take. Pure functions of runs that `explorer.bench.advise` timed in turn with their control (`figures.pairs`).

The interval is that of a median by order statistics (95 %, `engines.median_interval`): over the repeats, and from six
prompts on over the prompts. It speaks of these prompts, this machine and one text at a time."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, Literal

import msgspec

from engines import ModelRecord, get_method, median_interval
from explorer.figures import pairs as pairing
from explorer.figures.bits import ROUNDING, rows_note
from explorer.figures.calls import many
from explorer.figures.compare import Certificate
from explorer.figures.noise import ROOM, SHARE, displaced, explained
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
    texts: Sequence[pairing.Text],
    pairs: Sequence[pairing.Pair],
    plain: float,
    row_seconds: Mapping[int, float],
) -> Advised:
    """What follows from the runs of one method. texts: of each prompt; plain: usual seconds of a plain token."""
    prompts, clean = len(texts), pairing.kept(pairs, plain)
    values, counts = pairing.speeds(clean, prompts), pairing.mean_per_call(texts)
    low, high = median_interval(values) or (None, None)
    level = LEVEL
    if low is None and len(values) >= SOME:  # all of them are on one side of the median with a chance of 2 / 2^n
        low, high, level = min(values), max(values), 1 - 2 / 2 ** len(values)
    needs = pairing.break_evens(clean)
    need = median_interval(needs)
    other = [text.held for text in texts if text.held.at is not None]
    tied = bool(other) and all(pairing.near(held.tie, held.dtype) for held in other)
    method_advice = Advised(
        method=method,
        title=title,
        params=params,
        word=_word(other, tied, texts, pairs, clean, values),
        speed=median(values) if values else None,
        low=low,
        high=high,
        values=len(values),
        unit="prompt" if prompts >= pairing.ENOUGH else "repeat",
        left_out=len(pairs) - len(clean),
        same=prompts - len(other),
        prompts=prompts,
        parts=other[0].sentence if other else "",
        tied=tied,
        tokens_per_call=counts[0] if counts else None,
        rows=counts[1] if counts else None,
        rows_cost=pairing.cost_of(counts[1], row_seconds) if counts else None,
        need=pairing.break_even(clean),
        need_low=need.low if need else None,
        need_high=need.high if need else None,
        far=bool(other) and other[0].tie is not None and not pairing.near(other[0].tie, other[0].dtype),
        level=level,
        seconds=(median(p.control.seconds for p in clean), median(p.ours.seconds for p in clean)) if clean else None,
        tokens=median(gained(pair.ours.trace) for pair in clean) if clean else None,
    )
    sentences = {"verdict": verdict_of, "text": text_of, "why": why_of, "takes": takes_of}
    return msgspec.structs.replace(method_advice, **{name: of(method_advice) for name, of in sentences.items()})


def _word(
    other: Sequence[Certificate],
    tied: bool,
    texts: Sequence[pairing.Text],
    pairs: Sequence[pairing.Pair],
    clean: Sequence[pairing.Pair],
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


def verdict_of(method_advice: Advised) -> str:
    """The verdict in a few words."""
    if method_advice.word == "other":
        return "not the same text"
    if method_advice.word == "busy":
        return "this machine is too busy to say"
    if method_advice.low is None:
        return f"too few repeats to say: {method_advice.values} of at least {pairing.ENOUGH}"
    low, high = f"{method_advice.low:.2f}×", f"{method_advice.high:.2f}×"
    if method_advice.word == "few":
        seems = _seems(method_advice)
        if seems == "helps":
            return f"seems to help: {low} to {high} in {method_advice.values} repeats"
        return f"does not seem to help: {low} to {high} in {method_advice.values} repeats"
    if method_advice.word == "helps":
        return f"helps: {low} to {high}"
    return (
        f"does not help: {low} to {high}"
        if method_advice.word == "hurts"
        else f"no difference can be seen: {low} to {high}"
    )


def _seems(method_advice: Advised) -> Word:
    """What too few repeats point to; all of them have to be above 1 for a method that seems to help."""
    return "helps" if method_advice.low is not None and round(method_advice.low, 2) > 1 else "even"


def text_of(method_advice: Advised) -> str:
    """Whether the text is the control's, and where it parts."""
    if not method_advice.parts:
        return "Same text as the control."
    head = (
        "" if method_advice.prompts == 1 else f"Same text on {method_advice.same} of {method_advice.prompts} prompts."
    )
    tail = "The two tokens are all but tied, so rounding decides between them." if method_advice.tied else ""
    if method_advice.word == "other" and method_advice.far:
        tail = "They are not a near tie: rounding does not explain it."
    return " ".join(filter(None, (head, method_advice.parts, tail)))


def why_of(method_advice: Advised) -> str:
    """What was timed, and what a call brings against what it costs."""
    return " ".join(filter(None, (_timed(method_advice), _per_call(method_advice))))


def _timed(method: Advised) -> str:
    if method.seconds is None or method.tokens is None or method.word == "busy":
        return ""
    plain, ours = method.seconds
    return (
        f"By the median a run takes {ours:.2f} s, the control's {plain:.2f} s, for "
        f"{many(round(method.tokens), 'token')}."
    )


def _per_call(method: Advised) -> str:
    if method.tokens_per_call is None or method.rows is None:
        return "The answer ends with its first call, so there is no call to save."
    if method.rows_cost is None or method.word == "busy":
        return f"After the prompt it writes {method.tokens_per_call:.2f} tokens per model call."
    return (
        f"After the prompt it writes {method.tokens_per_call:.2f} tokens per model call; a call on "
        f"{many(round(method.rows), 'row')}, its mean, costs {method.rows_cost:.2f} calls on one row here."
    )


def takes_of(method: Advised) -> str:
    """What it would take to break even on this machine."""
    if method.need is None or method.tokens_per_call is None or method.word == "busy":
        return ""
    low, high, writes = method.need_low, method.need_high, method.tokens_per_call
    if low is None or high is None:
        sentence = (
            f"With drafting and checking it pays from {method.need:.2f} tokens per call (derived from these seconds)."
        )
    else:
        sentence = (
            f"With drafting and checking it pays from {method.need:.2f} tokens per call ({low:.2f} to "
            f"{high:.2f}, derived "
            "from these seconds)."
        )
    return " ".join(filter(None, (sentence, _against(method, method.need, writes))))


def _against(method: Advised, need: float, writes: float) -> str:
    """What a call writes against what it has to, and why a whole run may tell otherwise."""
    if method.need_low is not None and method.need_high is not None and method.need_low <= writes <= method.need_high:
        return "What it writes is within that, so they do not tell whether it pays."
    if writes < need:
        return f"That is {need - writes:.2f} more than it writes."
    if method.word == "even":
        return "It writes more, but whole runs, reading the prompt included, differ by less than they vary."
    return ""


def conditions_of(advice: Advice) -> str:
    """What was measured, on what."""
    m = advice.model
    threads = "one thread" if m.threads == 1 else f"{m.threads} threads"
    prompts = "one prompt" if advice.prompts == 1 else f"{advice.prompts} prompts"
    conditions = (
        f"{m.name}, {m.dtype}, {threads}, {m.device}, {advice.machine}; {prompts}, one text at a time "
        f"(batch {advice.batch}), at most {advice.max_new_tokens} new tokens. Speeds are of whole runs over those of "
        f"{get_method(advice.control).info.title}, reading the prompt included."
    )
    if m.dtype == "float32" and m.slower is None:
        return conditions
    if m.moved is not None and m.moved < ROUNDING:
        return f"{conditions} {rows_note(m)}"
    return f"{conditions} In {m.dtype} no method promises the same text; each row says whether it wrote it here."


def sentence_of(advice: Advice) -> str:
    """The answer in one sentence."""
    best = best_of(advice)
    if best is not None:
        return f"{best.label} helps on this text here: {best.low:.2f}× to {best.high:.2f}×."
    words = {method.word for method in advice.methods}
    if not words and advice.ended == "stopped":
        return "Stopped before any method could be compared."
    if not words:
        return (
            f"In {advice.seconds:.0f} s not even one run of each method could be made: give it more seconds, ask for "
            "fewer new tokens, or try again when this machine is quiet."
        )
    if "busy" in words:
        return "This machine is too busy to say whether anything helps: try again when it is quiet."
    if some := best_of(advice, "few"):
        if _seems(some) == "helps":
            return (
                f"{some.label} seems to help on this text here: {some.low:.2f}× to {some.high:.2f}× in "
                f"{some.values} repeats; for an interval of 95 % it takes {pairing.ENOUGH}."
            )
        return "Too few repeats were measured to say whether anything helps."
    if words == {"other"}:
        return "No method here gives the control's text."
    if "even" in words:
        return "No help can be seen on this text here, and where the interval contains 1 none can be ruled out either."
    return "None of these methods helps on this text here."


def best_of(advice: Advice, word: Word = "helps") -> Advised | None:
    """The method that helps most, by the low end of its interval; None where none does."""
    methods = (method for method in advice.methods if method.word == word)
    return max(methods, key=lambda method: method.low or 0, default=None)


def worded(advice: Advice) -> Advice:
    """The record with its sentences."""
    return msgspec.structs.replace(advice, conditions=conditions_of(advice), sentence=sentence_of(advice))
