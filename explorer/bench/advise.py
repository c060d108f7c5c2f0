"""Will it help on my text? Lossless methods in turn with their control on a person's own prompts: repeated, checked for
noise, with an interval. One mechanism for the page, the command `advise` and Python:

    from explorer.bench.advise import advise

    found = advise("smollm2", ["Summarize: ..."])
    print(found.sentence)

Each run of each method is made once to warm it, with a record of what its calls fed and wrote; then all of them take
turns with nothing recorded, in another order in each repeat, and one plain token is timed before and after each run. A
pair of runs that others disturbed (`figures.pairs.disturbed`) is left out and made again, up to as often as was
asked."""

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import engines
from engines import MethodInfo, Trace, UserError
from explorer.bench.chosen import chosen, named, reason
from explorer.figures.advice import Advice, Ended, advised, worded
from explorer.figures.compare import certificate, near_tie
from explorer.figures.pairs import ENOUGH, Pair, Text, Timed, kept, mean_per_call, speeds, usual

NEW_TOKENS = 48
REPEATS_EACH = 3  # of each prompt, where there are enough prompts for an interval over them
SECONDS = 120.0
PROMPTS = 200
LENGTH = "max_new_tokens"


class Progress(NamedTuple):
    """A run that is about to begin: the method's title, and how many of how many are done."""

    title: str
    done: int
    total: int


@dataclass(frozen=True)
class Found:
    """The record, and the warm-up's traces of the first prompt by slug, the control first."""

    advice: Advice
    traces: dict[str, Trace]


class Stopwatch:
    """The instrument of this machine; tests put a clock of their own in its place. guard: entered around everything
    that calls the model; over: asked before every step."""

    def __init__(
        self,
        model: Any,
        guard: Callable[[], AbstractContextManager[Any]] = nullcontext,
        over: Callable[[], bool] = lambda: False,
    ) -> None:
        self._model, self._guard, self._over = model, guard, over
        self._clock: engines.RowClock | None = None

    def run(
        self, slug: str, prompt: str, params: Mapping[str, Any], detail: Literal["none", "light", "full"]
    ) -> tuple[float, Trace] | None:
        """Wall seconds of a whole run and its trace; None where it was stopped."""
        with self._guard():
            began = time.perf_counter()
            run = engines.stream(slug, self._model, prompt, params=params, detail=detail)
            try:
                for _ in run:
                    if self._over():
                        return None
            finally:
                run.close()
            return time.perf_counter() - began, run.trace()

    def plain(self) -> float:
        """Wall seconds of one plain token now: the shorter of two forwards of one row, since a blip of one of them is
        no busy machine."""
        with self._guard():
            self._clock = self._clock or engines.RowClock(self._model)
            return min(self._clock.seconds() for _ in range(2))

    def rows(self, sizes: Sequence[int]) -> Mapping[int, float]:
        """Median seconds of a forward of so many rows."""
        with self._guard():
            return engines.row_costs(self._model, sizes)


def advise(
    model: Any,
    prompts: Sequence[str],
    methods: Sequence[str] = (),
    *,
    progress: Callable[[Progress], object] = lambda now: None,
    **options: Any,
) -> Advice:
    """Measure, and say what helps.

    model: its name, hub id or folder, or a loaded one. prompts: one or more texts. methods: slugs; without any those
    that `chosen` names. progress: told before each run. options: as `measuring` has them. Raises UserError for whatever
    cannot be measured, before the first model call.
    """
    going = measuring(engines.load_model(model) if isinstance(model, str) else model, prompts, methods, **options)
    while True:
        try:
            progress(next(going))
        except StopIteration as end:
            outcome: Found = end.value
            return outcome.advice


def measuring(
    model: Any,
    prompts: Sequence[str],
    methods: Sequence[str] = (),
    *,
    params: Mapping[str, Mapping[str, Any]] = {},
    max_new_tokens: int = NEW_TOKENS,
    repeats: int | None = None,
    seconds: float = SECONDS,
    stopped: Callable[[], bool] = lambda: False,
    guard: Callable[[], AbstractContextManager[Any]] = nullcontext,
    instrument: Stopwatch | None = None,
) -> Generator[Progress, None, Found]:
    """The same step by step: yields before each run, and returns what was found.

    params: by slug. repeats: of every prompt, by default 6, from six prompts on 3. seconds: after so many no run
    begins. stopped: asked before each step; what was measured by then is judged. guard: entered around each run as a
    whole, so that nothing else calls a model meanwhile. instrument: measures in place of this machine's clock."""
    infos = named(methods, model) if methods else chosen(model)
    texts, repeats = _checked(prompts, repeats, seconds)
    end = time.monotonic() + seconds
    over = lambda: stopped() or time.monotonic() > end  # noqa: E731
    why = "" if methods else reason(infos, model)
    work = _Work(model, texts, _plans(infos, params, max_new_tokens), repeats, why)
    work.check()
    work.instrument, work.over = instrument or Stopwatch(model, guard, over), over
    if (yield from work.warm()):
        work.compare(guard)
        yield from work.take_turns()
    ended: Ended = "complete" if not over() or work.enough() else "stopped" if stopped() else "time"
    return work.findings(ended, max_new_tokens)


def _checked(prompts: Sequence[str], repeats: int | None, seconds: float) -> tuple[list[str], int]:
    """The prompts and the repeats. Raises UserError."""
    if isinstance(prompts, str):
        prompts = [prompts]
    if not prompts or len(prompts) > PROMPTS:
        raise UserError(f"{len(prompts)} prompts are given; give 1 to {PROMPTS}.")
    if blank := next((n for n, text in enumerate(prompts, 1) if not text.strip()), None):
        raise UserError(f"prompt {blank} is empty; write something, or leave it out.")
    few = len(prompts) < ENOUGH
    repeats_each = repeats or (ENOUGH if few else REPEATS_EACH)
    if few and repeats_each < ENOUGH:
        raise UserError(
            f"repeats={repeats_each} gives no interval; give at least {ENOUGH}, or as many prompts: an interval "
            "of a median "
            "needs six values."
        )
    if not seconds > 0:
        raise UserError(f"seconds={seconds:g} is not allowed; give a number above 0.")
    return list(prompts), repeats_each


def _plans(
    infos: Sequence[MethodInfo], params: Mapping[str, Mapping[str, Any]], length: int
) -> dict[str, tuple[MethodInfo, dict[str, Any]]]:
    """By slug the declaration and what was given, the control first. Raises UserError where a method with its
    parameters claims no control's text, or another control's."""
    if unknown := params.keys() - {info.slug for info in infos}:
        raise UserError(f"parameters are given for '{min(unknown)}', which is not measured; name it as a method, too.")
    controls = list(dict.fromkeys(str(info.baseline) for info in infos))
    if len(controls) > 1:
        raise UserError(f"these methods have different controls, {' and '.join(controls)}; measure them apart.")
    plans = {controls[0]: (engines.get_method(controls[0]).info, {LENGTH: length})}
    for info in infos:
        given = dict(params.get(info.slug, {}))
        if not info.keeps(given):
            advice = f"give it {info.condition}" if info.lossless_with else "choose a lossless method"
            raise UserError(f"'{info.slug}' does not claim its control's text with these parameters; {advice}.")
        if float(given.get("temperature", 0)):
            raise UserError(f"above temperature 0 '{info.slug}' draws its text, so the texts differ; leave it at 0.")
        plans[info.slug] = (info, {**given, LENGTH: length})
    return plans


@dataclass
class _Work:
    """What is measured, and what was found so far."""

    model: Any
    prompts: list[str]
    plans: dict[str, tuple[MethodInfo, dict[str, Any]]]
    repeats: int
    chosen: str
    instrument: Stopwatch = field(init=False)
    over: Callable[[], bool] = field(init=False)
    began: float = field(default_factory=time.monotonic)
    done: int = 0
    warmed: dict[str, list[Trace]] = field(default_factory=dict)
    texts: dict[str, list[Text]] = field(default_factory=dict)
    row_seconds: Mapping[int, float] = field(default_factory=dict)
    pairs: dict[str, list[Pair]] = field(default_factory=dict)
    plain: list[float] = field(default_factory=list)

    @property
    def control(self) -> str:
        return next(iter(self.plans))

    @property
    def methods(self) -> list[str]:
        return list(self.plans)[1:]

    def check(self) -> None:
        """Raises UserError for what a run would refuse, before the first one is made."""
        for number, prompt in enumerate(self.prompts, 1):
            for slug, (_, params) in self.plans.items():
                try:
                    engines.stream(slug, self.model, prompt, params=params, detail="none").close()
                except UserError as error:
                    which = f"prompt {number}: " if len(self.prompts) > 1 else ""
                    raise UserError(f"{which}{error}") from None

    def _now(self, slug: str) -> Progress:
        total = len(self.plans) * len(self.prompts) * (1 + self.repeats)
        return Progress(self.plans[slug][0].title, self.done, max(total, self.done + 1))

    def warm(self) -> Generator[Progress, None, bool]:
        """Run everything once. False where it was stopped on the way."""
        for number, prompt in enumerate(self.prompts):
            for slug, (_, params) in self.plans.items():
                yield self._now(slug)
                run = None if self.over() else self.instrument.run(slug, prompt, params, "light" if number else "full")
                if run is None:
                    return False
                self.warmed.setdefault(slug, []).append(run[1])
                self.done += 1
        return True

    def compare(self, guard: Callable[[], AbstractContextManager[Any]]) -> None:
        """Which texts are the control's, and what calls of as many rows cost here."""
        sizes = {1}
        for slug in self.methods:
            both = list(zip(self.warmed[slug], self.warmed[self.control], strict=True))
            with guard():
                held = [certificate(ours, plain, near_tie(self.model, ours, plain)) for ours, plain in both]
            self.texts[slug] = [Text(text, plain, ours) for text, (ours, plain) in zip(held, both, strict=True)]
            counts = mean_per_call(self.texts[slug])
            sizes |= {max(1, round(counts[1]))} if counts else set()
        self.row_seconds = self.instrument.rows(sorted(sizes))
        self.pairs = {slug: [] for slug in self.methods}

    def take_turns(self) -> Generator[Progress, None, None]:
        """All runs in turn until there are enough that nothing disturbed, or twice the repeats were made."""
        slugs = list(self.plans)
        self.plain.append(self.instrument.plain())
        for repeat in range(2 * self.repeats):
            order = slugs[repeat % len(slugs) :] + slugs[: repeat % len(slugs)]
            for number, prompt in enumerate(self.prompts):
                runs: dict[str, Timed] = {}
                for slug in order:
                    yield self._now(slug)
                    run = None if self.over() else self.instrument.run(slug, prompt, self.plans[slug][1], "none")
                    if run is None:
                        return
                    self.plain.append(self.instrument.plain())
                    runs[slug] = Timed(run[0], (self.plain[-2], self.plain[-1]), run[1])
                    self.done += 1
                for slug in self.methods:
                    self.pairs[slug].append(Pair(number, repeat, runs[self.control], runs[slug]))
            if repeat + 1 >= self.repeats and self.enough():
                return

    def enough(self) -> bool:
        """Whether every method has the values that its interval needs."""
        prompts = len(self.prompts)
        needed = prompts if prompts >= ENOUGH else self.repeats
        return bool(self.pairs) and all(
            len(speeds(kept(pairs, usual(self.plain)), prompts)) >= needed for pairs in self.pairs.values()
        )

    def findings(self, ended: Ended, length: int) -> Found:
        """The record of what was measured by now, with its sentences."""
        plain = usual(self.plain) if self.plain else 0.0
        methods = []
        for slug, texts in self.texts.items():
            info, params = self.plans[slug]
            given = {name: value for name, value in params.items() if name != LENGTH}
            methods.append(advised(slug, info.title, given, texts, self.pairs[slug], plain, self.row_seconds))
        header = next((traces[0].header for traces in self.warmed.values()), None)
        record = Advice(
            model=self.model.record,
            control=self.control,
            machine=header.machine if header else "",
            versions=header.versions if header else {},
            prompts=len(self.prompts),
            max_new_tokens=length,
            repeats=self.repeats,
            plain_seconds=plain,
            row_seconds=dict(self.row_seconds),
            methods=methods,
            ended=ended,
            seconds=time.monotonic() - self.began,
            chosen=self.chosen,
        )
        return Found(worded(record), {slug: traces[0] for slug, traces in self.warmed.items()})
