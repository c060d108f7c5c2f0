"""Runs of a method that were timed in turn with those of its control, and what follows from them: which count, how fast
they were, what a call brought and what it cost. Pure functions.

A speed is seconds per token of the control over those of the method: a value per repeat, each of which holds all
prompts, and from six prompts on a value per prompt, the median of its repeats."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import frexp
from statistics import median, quantiles

from engines import Trace
from explorer.figures.calls import target_calls, target_role
from explorer.figures.compare import Certificate, Tie
from explorer.figures.noise import ROOM, SHARE, displaced, stalled
from explorer.figures.samples import gained

ENOUGH = 6  # values: fewer have no interval of their median
_MANTISSA = {"bfloat16": 8, "float16": 11}  # bits; all others count as float32


@dataclass(frozen=True)
class Timed:
    """One timed run. seconds: wall; plain: wall seconds of one plain token, just before and just after it."""

    seconds: float
    plain: tuple[float, float]
    trace: Trace

    @property
    def round(self) -> float | None:
        """Mean seconds of a call of the target with all that belongs to it, the first step, which reads the prompt,
        left out; None where there is no other."""
        steps, role = self.trace.steps[1:], target_role(self.trace)
        calls = sum(target_calls(step, role) for step in steps)
        return sum(step.model_seconds + step.method_seconds for step in steps) / calls if calls else None


@dataclass(frozen=True)
class Pair:
    """A run of a method and the control's run of the same prompt in the same repeat."""

    prompt: int
    repeat: int
    control: Timed
    ours: Timed


@dataclass(frozen=True)
class Text:
    """What became of a method's claim on one prompt: `held` against the control, with the recorded runs of both."""

    held: Certificate
    control: Trace
    ours: Trace


# --- which pairs count


def usual(plain: Sequence[float]) -> float:
    """Seconds of a plain token on this machine where nothing is in its way: the lower quartile of all that were
    timed."""
    return quantiles(plain, n=4)[0] if len(plain) > 1 else plain[0]


def disturbed(run: Timed, plain: float) -> bool:
    """Whether others had the machine during a run, by what is independent of how fast the method is: a plain token
    beside it took more than ROOM times the usual, its calls' threads did not run, or single steps stalled."""
    return max(run.plain) > ROOM * plain or displaced(run.trace) or stalled(run.trace) > SHARE


def kept(pairs: Sequence[Pair], plain: float) -> list[Pair]:
    """The pairs in which neither run was disturbed."""
    return [pair for pair in pairs if not (disturbed(pair.control, plain) or disturbed(pair.ours, plain))]


# --- how fast


def _rate(runs: Sequence[Timed]) -> float:
    return sum(run.seconds for run in runs) / max(1, sum(gained(run.trace) for run in runs))


def _ratio(pairs: Sequence[Pair]) -> float:
    return _rate([pair.control for pair in pairs]) / _rate([pair.ours for pair in pairs])


def speeds(pairs: Sequence[Pair], prompts: int) -> list[float]:
    """A value per repeat that has all prompts; from ENOUGH prompts on a value per prompt, the median of its repeats."""
    if prompts >= ENOUGH:
        by_prompt = [[_ratio([pair]) for pair in pairs if pair.prompt == n] for n in range(prompts)]
        return [median(values) for values in by_prompt if values]
    by_repeat = [[pair for pair in pairs if pair.repeat == n] for n in sorted({pair.repeat for pair in pairs})]
    return [_ratio(whole) for whole in by_repeat if len(whole) == prompts]


def near(tie: Tie | None, dtype: str) -> bool:
    """Whether rounding explains that two texts part: fed in one forward the network prefers the other token itself, or
    the gap is within twice what one of the logits moves between the two ways to feed it, or twice a rounding step of
    its type."""
    if tie is None:
        return False
    moved = max(abs(a - b) for a, b in zip(tie.alone, tie.together, strict=True))
    step = 2.0 ** (frexp(max(map(abs, tie.alone)))[1] - _MANTISSA.get(dtype, 24))
    return tie.together[0] <= tie.together[1] or tie.gap <= 2 * max(moved, step)


# --- what it costs


def per_call(text: Text) -> tuple[float, float] | None:
    """(tokens, rows) of a call of the target behind the first step, which reads the prompt; rows by layer-rows over
    those of a call of the control, which feeds one. None where there is no such step."""
    role = target_role(text.ours)
    ours, plain = text.ours.steps[1:], text.control.steps[1:]
    calls, alone = (sum(target_calls(step, role) for step in steps) for steps in (ours, plain))
    layers = sum(step.work.get(role, 0) for step in plain) / alone if alone else 0
    if not calls or not layers:
        return None
    tokens = sum(len(step.commits.positions) for step in ours if step.commits)
    return tokens / calls, sum(step.work.get(role, 0) for step in ours) / calls / layers


def mean_per_call(texts: Sequence[Text]) -> tuple[float, float] | None:
    """The mean over the prompts of what `per_call` counts."""
    counts = [count for count in map(per_call, texts) if count]
    return (sum(t for t, _ in counts) / len(counts), sum(r for _, r in counts) / len(counts)) if counts else None


def cost_of(rows: float, row_seconds: Mapping[int, float]) -> float | None:
    """Seconds of a forward of about so many rows over those of one row, as measured."""
    size = max(1, round(rows))
    return row_seconds[size] / row_seconds[1] if size in row_seconds and 1 in row_seconds else None


def break_evens(pairs: Sequence[Pair]) -> list[float]:
    """`break_even` of each pair."""
    both = [(pair.ours.round, pair.control.round) for pair in pairs]
    return [ours / plain for ours, plain in both if ours is not None and plain]


def break_even(pairs: Sequence[Pair]) -> float | None:
    """Tokens that a call of the method has to write to cost no more than plain tokens do: median seconds of its rounds
    over those of the control's."""
    ours = [seconds for pair in pairs if (seconds := pair.ours.round) is not None]
    plain = [seconds for pair in pairs if (seconds := pair.control.round)]
    return median(ours) / median(plain) if ours and plain else None
