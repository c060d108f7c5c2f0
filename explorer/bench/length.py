"""What a token costs as an answer grows: a method without and with everything recorded, beside transformers' own
`generate` on the same network.

All loops write the same length and take turns, `CHUNK` tokens each, so that a machine that slows down for a while slows
all of them: a ratio is of two loops in the same turn. The turns within a stretch of the answer are the repeats; told
are their medians with 95 % intervals (order statistics). The prompt's own forward and the first token are not timed.
No loop ends at an end mark, so that there is an answer of this length at all; its text may go round in circles."""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from statistics import median
from typing import Any, Literal, NamedTuple

import msgspec

from engines import ASSETS, ModelRecord, UserError, median_interval
from explorer.bench import stopped_early
from explorer.bench.loops import REFERENCE, Engine, Reference
from explorer.figures.compare import first_difference

FOLDER = ASSETS / "bench" / "length"
CHUNK, FIRST = 32, 256  # tokens of a turn; and of the first stretch, each later one ends at twice as many
DETAILS: tuple[Literal["none", "full"], ...] = ("none", "full")


class Stretch(msgspec.Struct, frozen=True):
    """A part of the answer. until: the tokens at its end; turns: how many were timed in it. seconds: of a token, the
    median over the turns. over: the same over the reference's in the same turns, with the ends of its interval where
    there are six turns. recording: seconds of it that recording took, per token. bytes: the trace as JSON at its end;
    None where nothing is recorded."""

    until: int
    turns: int
    seconds: float
    over: list[float]
    recording: float = 0.0
    bytes: int | None = None


class Loop(msgspec.Struct, frozen=True):
    """One way to write the answer. same: tokens equal to the reference's up to the first other one."""

    name: str
    stretches: list[Stretch]
    same: int


class Lengths(msgspec.Struct, frozen=True):
    """All of one measurement. command, date: what was typed, and when. partial: it was stopped; every loop has the
    stretches that all have finished."""

    model: ModelRecord
    machine: str
    versions: dict[str, str]
    prompt_tokens: int
    new_tokens: int
    chunk: int
    loops: list[Loop]
    command: str = ""
    date: str = ""
    partial: bool = False


def marks(length: int) -> list[int]:
    """Where stretches end: 256 tokens, twice as many, and so on, and the whole length."""
    ends = [FIRST]
    while 2 * ends[-1] < length:
        ends.append(2 * ends[-1])
    return [*(mark for mark in ends if mark < length), length]


def measured(
    slugs: Sequence[str],
    model: Any,
    prompt: str,
    length: int,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> Lengths:
    """Measure these methods, each without and with everything recorded, and `generate` on a loaded causal model.
    progress: called before each turn with its name, tokens done and in all. After Ctrl-C it returns what was finished,
    with `partial`; raises KeyboardInterrupt where that is nothing, UserError for what cannot be measured."""
    network = getattr(model, "model", None)
    if model.record.kind != "causal" or not hasattr(network, "generate"):
        raise UserError(
            f"{model.record.name} has no generate of transformers to stand beside; choose a causal model of "
            "transformers, such as smollm2."
        )
    endless = copy.copy(model)
    endless.eos_ids = frozenset({model.vocab_size})
    ids = model.tokenizer.encode_prompt(prompt)
    model.warm_up()
    turns: dict[str, list[Turn]] = {}
    with ExitStack() as closing:
        first = Reference(network, ids, length)
        closing.callback(first.close)
        ours = [Engine(slug, endless, ids, length, detail) for slug in slugs for detail in DETAILS]
        for engine in ours:
            closing.callback(engine.close)
        writers: list[Engine | Reference] = [first, *ours]
        with stopped_early(turns) as interrupts:
            for name, chunk in _turns(writers, length, progress):
                turns.setdefault(name, []).append(chunk)
        reached = min(max((chunk.goal for chunk in turns.get(writer.name, ())), default=0) for writer in writers)
        done = [mark for mark in marks(length) if mark <= reached]
        if not done:
            raise KeyboardInterrupt
        reference = first.tokens()
        loops = []
        for writer in writers:
            at = first_difference(reference, writer.tokens())
            same = len(reference) if at is None else at
            loops.append(Loop(writer.name, _stretches(turns, writer.name, done), same))
        header = ours[0].header
    partial = bool(interrupts)
    return Lengths(model.record, header.machine, header.versions, len(ids), length, CHUNK, loops, partial=partial)


class Turn(NamedTuple):
    """What a loop did in one turn, which was to end at `goal` tokens. recording, bytes: as `Engine.recorded` has them
    behind it; bytes where a stretch ends."""

    goal: int
    tokens: int
    seconds: float
    recording: float
    bytes: int | None


def _turns(
    writers: Sequence[Engine | Reference], length: int, progress: Callable[[str, int, int], None]
) -> Iterator[tuple[str, Turn]]:
    """All turns as they end; the first token is written before them. The order turns, so that nobody is always
    first."""
    for writer in writers:
        writer.advance(1)
    recording = {writer.name: writer.recorded(False)[0] for writer in writers}
    ends = set(marks(length))
    for number, goal in enumerate([*range(CHUNK, length, CHUNK), length]):
        at = number % len(writers)
        for writer in [*writers[at:], *writers[:at]]:
            progress(writer.name, max(0, goal - CHUNK), length)
            seconds, tokens = writer.advance(goal)
            so_far, size = writer.recorded(goal in ends)
            yield writer.name, Turn(goal, tokens, seconds, so_far - recording[writer.name], size)
            recording[writer.name] = so_far


def _stretches(turns: Mapping[str, Sequence[Turn]], name: str, done: Sequence[int]) -> list[Stretch]:
    """What a loop's turns amount to, stretch by stretch. A turn in which nothing was written, since the one before
    went beyond its goal, tells nothing."""
    stretches, start = [], 0
    for mark in done:
        both = [
            (chunk, beside)
            for chunk, beside in zip(turns[name], turns[REFERENCE], strict=False)
            if start < chunk.goal <= mark and chunk.tokens
        ]
        own = [chunk for chunk, _ in both]
        ratios = [chunk.seconds / chunk.tokens / (beside.seconds / beside.tokens) for chunk, beside in both]
        ends = median_interval(ratios)
        size = next((chunk.bytes for chunk in turns[name] if chunk.goal == mark), None)
        over = [median(ratios), *((ends.low, ends.high) if ends else ())]
        recording = sum(chunk.recording for chunk in own) / sum(chunk.tokens for chunk in own)
        seconds = median(chunk.seconds / chunk.tokens for chunk in own)
        stretches.append(Stretch(mark, len(own), seconds, over, recording, size))
        start = mark
    return stretches


def rows(lengths: Lengths) -> list[dict[str, str]]:
    """The loops as lines of text, one for each stretch."""
    return [
        {
            "loop": loop.name,
            "up to": f"{stretch.until:,}",
            "ms/token": f"{1000 * stretch.seconds:.2f}",
            "over generate": _over(stretch.over),
            "recording, ms/token": f"{1000 * stretch.recording:.3f}" if stretch.bytes is not None else "-",
            "trace, kB": f"{stretch.bytes / 1000:,.0f}" if stretch.bytes is not None else "-",
            "same tokens": f"{loop.same:,}",
        }
        for loop in lengths.loops
        for stretch in loop.stretches
    ]


LEGEND = (
    "over generate: seconds of a token over those of transformers' generate in the same turns, with the 95 % interval "
    "of the median;\nsame tokens: equal to generate's up to the first other one"
)


def _over(values: Sequence[float]) -> str:
    return f"{values[0]:.2f}" + (f" ({values[1]:.2f}-{values[2]:.2f})" if len(values) > 1 else "")
