"""What *Run a sweep* does: checks what is checked, says how much it is, runs it step by step, and turns points into
prompts and prompts into traces."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import gradio as gr

import engines
from engines import MethodInfo, UserError
from explorer.bench import grid, quality, workers
from explorer.bench.cells import Files, Kept, Memory, Outcome, Pace
from explorer.bench.quality import Setting
from explorer.bench.sweep import Sweep, check_tasks, parameter, runnable, values_of
from explorer.page import curves
from explorer.page.feed import MODEL_LOCK
from explorer.page.handlers import STOP_PATIENCE, Handlers
from explorer.page.handlers.showing import Replay, row_number
from explorer.page.parts import alerts, asked, refusals, say
from explorer.page.run_limits import check_seed
from explorer.page.tables import labelled

DEFAULTS = "(none: every method at its defaults)"
NO_SECOND = "(none: one curve)"
SAY_EVERY, DRAW_EVERY = 0.3, 2.0  # seconds between two looks at the progress, and at the figures
CLIP = 120  # characters of a prompt or an output in a list


@dataclass(frozen=True)
class SweepRequest:
    """A checked request."""

    model: str
    settings: list[Setting]
    tasks: list[str]
    prompts: int
    seed: int
    seconds: float
    runs: int
    reuse: bool

    @property
    def total(self) -> int:
        """Runs in all."""
        return len(self.settings) * len(self.tasks) * self.prompts


class Sweeper:
    """The handlers of the section. Everything can be called by anyone, so every value is checked again."""

    def __init__(self, handlers: Handlers) -> None:
        self.handlers, self.limits = handlers, handlers.limits
        self._kept: Kept | None = Memory() if handlers.limits.public else None
        self._pace = Pace()

    @property
    def kept(self) -> Kept:
        """Where finished runs are: on disk at home, in memory on a public host; opened at the first sweep."""
        if self._kept is None:
            self._kept = files = Files(Outcome)
            self._pace = Pace(files.folder / "pace.json")
        return self._kept

    def kind(self, model: Any) -> str:
        """The kind of a listed model. Raises UserError."""
        return str(self.handlers.catalogue.listed(model).kind)

    def methods(self, model: str) -> list[MethodInfo]:
        """Those that the model can run."""
        return runnable(self.kind(model), model, self.handlers.catalogue.models)

    def read(self, values: Sequence[Any]) -> SweepRequest:
        """The controls' values as a request. Raises UserError."""
        model, slugs, name, text, second, tasks, prompts, seed, seconds, runs, reuse = values
        kind = self.kind(model)
        if not isinstance(slugs, list) or not slugs:
            raise UserError("no method is chosen; choose at least one.")
        slugs = list(dict.fromkeys(map(str, slugs)))
        more, _, others = str(second or NO_SECOND).partition("=")
        swept = _swept(slugs, (name, text), (more.strip(), others))
        settings = quality.plan(kind, slugs, swept)
        catalogue = self.handlers.catalogue
        for setting in settings:  # by the declarations that hold here, where an answer may have to be shorter
            catalogue.check_params(catalogue.known(setting.method), setting.params)
        checked = SweepRequest(
            str(model),
            settings,
            check_tasks(tasks if isinstance(tasks, list) else []),
            int(_number(prompts, "prompts per task", 1, 200)),
            check_seed(seed),
            _number(seconds, "the most seconds", 1, self.limits.sweep_seconds),
            int(_number(runs, "the most runs", 1, self.limits.sweep_runs)),
            bool(reuse),
        )
        if checked.total > self.limits.sweep_runs:
            raise UserError(
                f"this sweep has {checked.total:,} runs; at most {self.limits.sweep_runs:,} are taken here. Choose "
                "fewer values, tasks or prompts."
            )
        return checked

    def planned(self, *values: Any) -> str:
        """The line that says how much it is before it starts."""
        try:
            checked = self.read(values)
        except UserError as error:
            return say(str(error), "error")
        _ = self.kept
        ways = (
            f"{len(checked.settings)} settings × {len(checked.tasks)} task{'s' * (len(checked.tasks) > 1)} × "
            f"{checked.prompts} prompts = {checked.total:,} runs"
        )
        return say(f"{ways} in all, control and curve included. {self._expected(checked)}")

    def _expected(self, checked: SweepRequest) -> str:
        estimate = self._pace.expect(checked.model, [setting.method for setting in checked.settings])
        if estimate is None:
            return (
                f"No run of {checked.model} was timed here yet, so there is no estimate; it ends after "
                f"{_time(checked.seconds)} at the latest."
            )
        seconds = estimate[0] * len(checked.tasks) * checked.prompts
        return (
            f"About {_time(seconds)}, estimated from {estimate[1]:,} timed runs of {checked.model} here; less where "
            "finished runs are reused."
        )

    @refusals(0, 5, "The sweep failed with an error of ours; the server's log has the details.")
    def run(self, request: gr.Request, *values: Any) -> Iterator[tuple[Any, ...]]:
        """Run it: (status, figure by tokens per forward, figure by forwards, points, prompts). Yields before the model
        is touched."""
        session, checked = self.handlers.session(request), self.read(values)
        session.sweep, budget = None, workers.until(checked.seconds)
        with session.begin_sweep() as job:
            yield say(f"Starting {checked.total:,} runs; the first one loads the model."), *[gr.skip()] * 4
            if not job.go_on():
                return
            with MODEL_LOCK:
                model = engines.load_model(checked.model)
            session.sweep = sweep = Sweep(model, checked.settings, checked.tasks, checked.prompts, checked.seed)
            decode = partial(
                workers.in_turn, model, stopped=lambda: job.stop.is_set() or budget(), guard=lambda: MODEL_LOCK
            )
            reported = drawn = 0.0
            for i, outcome in sweep.run(decode, self.kept, resume=checked.reuse, max_runs=checked.runs):
                self._pace.note(checked.model, sweep.cells[i].method, outcome)
                now = time.monotonic()
                if now - drawn > DRAW_EVERY:
                    drawn = reported = now
                    yield _progress(sweep), *_shown(sweep), gr.skip()
                elif now - reported > SAY_EVERY:
                    reported = now
                    yield _progress(sweep), *[gr.skip()] * 4
            self._pace.save()
            yield _finished(sweep), *_shown(sweep), []

    def stop(self, request: gr.Request) -> tuple[Any, ...]:
        """Cancel: ends after the step under way; what is finished stays and is shown."""
        session = self.handlers.session(request)
        job = session.sweeping
        if job is None or job.finished.is_set():
            return say("No sweep is running."), *[gr.skip()] * 4
        job.end()
        if not job.finished.wait(STOP_PATIENCE):
            return say("Cancelling: the step under way is not finished yet.", "error"), *[gr.skip()] * 4
        return (
            (_finished(session.sweep), *_shown(session.sweep), [])
            if session.sweep
            else (say("Cancelled before its first run.", "ok"), *[gr.skip()] * 4)
        )

    def prompts(self, event: gr.SelectData, request: gr.Request) -> tuple[Any, Any]:
        """The prompts of the chosen row of the points."""
        return self._prompts(event.row_value, request)

    def dot(self, value: Any, request: gr.Request) -> tuple[Any, Any]:
        """The prompts of the dot that was clicked; value: JSON with its setting number."""
        return self._prompts([asked(value).get("dot")], request)

    def _prompts(self, row: Any, request: gr.Request) -> tuple[Any, Any]:
        """The prompts of a point, wrong ones first, and the line above them."""
        sweep = self.handlers.session(request).sweep
        with alerts():
            setting = row_number(row, len(sweep.settings) if sweep else 0, "point of this sweep")
        cells = sweep.prompts_of(setting)
        wrong = sum(not sweep.outcomes[i].right for i in cells)
        return [
            _row(sweep, i) for i in cells
        ], f"**{_plain(sweep.settings[setting].label)}**: {wrong} of {len(cells)} wrong. Choose a prompt to see it."

    def again(self, row: Any, _: Any, request: gr.Request) -> Replay:
        """The run of a chosen prompt. Raises UserError."""
        sweep = self.handlers.session(request).sweep
        number = row_number(row, sweep.total if sweep else 0, "run of this sweep")
        cell = sweep.cells[number]
        return Replay(
            partial(cell.again, sweep.model),
            f"{sweep.settings[cell.setting].label}, {sweep.model.record.name}, seed {cell.seed}, “{cell.prompt[:60]}”",
        )


def _swept(slugs: Sequence[str], *asked: tuple[Any, Any]) -> Mapping[str, Sequence[Any]]:
    """The parameters that are asked for with their values, the one along which curves run first. Raises UserError."""
    swept: dict[str, list[Any]] = {}
    for name, text in asked:
        if name in (DEFAULTS, NO_SECOND):
            continue
        if str(name) in swept:
            raise UserError(f"{name} is chosen twice; choose another second parameter, or none.")
        swept[str(name)] = values_of(parameter(slugs, str(name)), str(text or "")[:2000])
    return grid.check(swept)


def _number(value: Any, what: str, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
        raise UserError(f"{what}: {str(value)[:40]} is not allowed; give a number from {low:g} to {high:g}.")
    return float(value)


def _progress(sweep: Sweep) -> str:
    left = sweep.seconds_left()
    again = f", {sweep.reused:,} of them from before" if sweep.reused else ""
    return say(
        f"{len(sweep.outcomes):,} of {sweep.total:,} runs{again}; about {_time(left or 0)} left (from {sweep.fresh:,} "
        "runs timed now)."
    )


def _finished(sweep: Sweep) -> str:
    done = f"{sweep.fresh:,} runs made, {sweep.reused:,} reused"
    refused = " ".join(f"{label} did not run: {reason}" for label, reason in sweep.refused.items())
    if sweep.left:
        text = (
            f"Stopped with {sweep.left:,} of {sweep.total:,} runs left ({done}); points count the prompts that all "
            "settings have. Start again to go on."
        )
        return say(f"{text} {refused}".strip(), "ok")
    return say(f"Done: {done}. Choose a row to see its prompts. {refused}".strip(), "error" if refused else "ok")


def _shown(sweep: Sweep) -> tuple[Any, Any, Any]:
    """Both figures and the list of points."""
    points = sweep.points()
    if not points:
        return gr.skip(), gr.skip(), []
    title = f"{sweep.model.record.name}, {next(iter(points.values())).tried} held-out prompts"
    by_tokens, by_forwards = (curves.live_figure(points, title, tokens) for tokens in (True, False))
    return by_tokens, by_forwards, [_point(n, p, points) for n, p in points.items()]


def _point(n: int, p: quality.Point, points: Mapping[int, quality.Point]) -> list[Any]:
    there = None if p.on_curve or p.control else quality.at_same_forwards(p, list(points.values()))
    params = " ".join(f"{name}={value}" for name, value in p.params.items()) or ("control" if p.control else "defaults")
    right = f"{round(p.share * p.tried)}/{p.tried}"
    return [
        n,
        labelled(p.method),
        params,
        right,
        "{:.0%}-{:.0%}".format(*p.interval),
        f"{p.forwards:.2f}",
        f"{p.tokens_per_forward:.2f}",
        "-" if there is None else f"{there:.0%}",
    ]


def _row(sweep: Sweep, i: int) -> list[Any]:
    cell, outcome = sweep.cells[i], sweep.outcomes[i]
    check = "✓ right" if outcome.right else f"✗ wrong from word {(outcome.wrong or 0) + 1}"
    return [i, cell.task, check, cell.prompt[:CLIP], outcome.text[:CLIP], outcome.forwards]


def _plain(text: str) -> str:
    """Text for Markdown, with nothing in it that Markdown would read."""
    return "".join(c if c.isalnum() or c in " .=-_" else " " for c in text)


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
