"""The command `sweep`: quality against forwards of methods and parameter values on held-out tasks, resumable, in
several processes or on a cluster."""

import argparse
import sys
from functools import partial
from typing import Any

import engines
from engines import UserError
from engines.tasks import TASKS
from explorer.cli.io import (
    check_target,
    complain,
    key_values,
    own_methods,
    positive,
    print_lines,
    several,
    signed,
    write_json,
)
from explorer.cli.loading import add_loading, load, loading
from explorer.cli.new_tokens import LENGTH, add_length, with_length
from explorer.cli.run import INTERRUPTED
from explorer.words import printable


def add_arguments(sweep: argparse.ArgumentParser) -> None:
    """Declare the options."""
    several(sweep, "--method", "M", "repeatable; default: all methods that fit the model")
    sweep.add_argument("--model", required=True, metavar="NAME", help="the model that all of them run on")
    add_loading(sweep)
    two = "two may vary: a curve along the first for each value of the second"
    several(sweep, "--param", "NAME=VALUES", f"0.5:1:6 (six values from 0.5 to 1) or 0.5,0.7; {two}")
    add_length(sweep, "as many as the task's answers need")
    several(sweep, "--task", "T", "repeatable; default: all tasks", choices=tuple(TASKS))
    sweep.add_argument("--prompts", type=positive, default=8, metavar="N", help="held-out prompts per task (default 8)")
    sweep.add_argument("--seed", type=int, default=0, metavar="N", help="seed of every run (default 0)")
    sweep.add_argument(
        "--seconds", type=float, metavar="S", help="stop after S seconds; every method then counts on the same prompts"
    )
    sweep.add_argument("--runs", type=positive, metavar="N", help="stop after N new runs")
    sweep.add_argument(
        "--resume",
        action="store_true",
        help="take runs that were finished before, with the same weights, code, prompt and seed",
    )
    sweep.add_argument(
        "--workers", type=positive, default=1, metavar="N", help="local processes, each with its own model (default 1)"
    )
    sweep.add_argument(
        "--threads", type=positive, metavar="N", help="threads of each worker (default: an equal share of the cores)"
    )
    sweep.add_argument("--ray", metavar="ADDRESS", help="run the workers on a Ray cluster; local starts one here")
    sweep.add_argument("--json", metavar="FILE", help="also write every point with every task here")
    own_methods(sweep)
    sweep.set_defaults(command=sweep_command)


def sweep_command(args: argparse.Namespace) -> int:
    """Measure and print one line per point; what is finished stays when it is interrupted."""
    from explorer.bench import cells, workers

    check_target(args.json)
    if args.seconds is not None and not args.seconds > 0:
        raise UserError(f"--seconds {args.seconds:g} is not allowed; give a number above 0.")
    options = loading(args)
    stopped = workers.until(args.seconds)
    sweep = _asked(args, load(args.model, options))
    ways = len(sweep.tasks) * args.prompts
    print(
        f"{len(sweep.settings)} settings on {ways} prompts of {len(sweep.tasks)} tasks: {sweep.total} runs",
        file=sys.stderr,
    )
    code = 0
    try:
        here = partial(workers.in_turn, sweep.model, stopped=stopped)
        decode = workers.crew(here, args.model, options, args.workers, args.threads, args.ray, stopped)
        _run(sweep, decode, cells.Files(cells.Outcome), args)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except UserError as error:
        code = complain(str(error))
    return _told(sweep, args) or code


def _asked(args: argparse.Namespace, model: Any) -> Any:
    """The sweep that the options describe. Raises UserError."""
    from explorer.bench import grid, quality
    from explorer.bench.sweep import Sweep, check_tasks, parameter, runnable, values_of

    slugs = list(dict.fromkeys(args.method or [info.slug for info in runnable(model.record.kind, model.record.name)]))
    texts, length = key_values(args.param, "--param"), args.max_new_tokens
    if length:
        with_length(texts, args, [engines.get_method(slug).info for slug in slugs])
        texts.pop(LENGTH, None)  # the control has it too
    given = {name: values_of(parameter(slugs, name), text) for name, text in texts.items()}
    swept = grid.check({name: values for name, values in given.items() if len(values) > 1})
    fixed = {name: values[0] for name, values in given.items() if name not in swept}
    settings = quality.plan(model.record.kind, slugs, swept, fixed)
    if length:
        settings = [quality.of_length(setting, length) for setting in settings]
    return Sweep(model, settings, check_tasks(args.task or list(TASKS)), args.prompts, args.seed)


def _run(sweep: Any, decode: Any, kept: Any, args: argparse.Namespace) -> None:
    from tqdm import tqdm

    with tqdm(total=sweep.total, unit="run", disable=None, mininterval=0.5) as bar:
        for _ in sweep.run(decode, kept, resume=args.resume, max_runs=args.runs):
            bar.update(len(sweep.outcomes) - bar.n)


def _told(sweep: Any, args: argparse.Namespace) -> int:
    """Print and write what is known. Returns 2 where a setting could not run."""
    from explorer.bench import quality

    points = list(sweep.points().values())
    model = sweep.model.record
    if points and args.json:
        record = quality.Recorded(
            model, sweep.tasks, sweep.prompts, points, sweep.seed, engines.code_version(), sweep.refused, sweep.left
        )
        write_json(args.json, signed(record, args))
    if points and args.json != "-":
        heading = f"{model.name}, {points[0].tried} held-out prompts of {len(points[0].exact)} tasks, seed {sweep.seed}"
        print(printable(heading))
        print_lines(quality.rows(points))
        print(quality.LEGEND)
    print(f"{sweep.fresh} runs made, {sweep.reused} taken from before, {sweep.left} left", file=sys.stderr)
    if sweep.left:
        print(
            "decoding-explorer: not everything ran; the same command with --resume goes on from here.", file=sys.stderr
        )
    for label, reason in sweep.refused.items():
        complain(f"{label} did not run: {reason}")
    return 2 if sweep.refused else 0
