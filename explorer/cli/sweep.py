"""The command `sweep`: quality against forwards of methods and parameter values on held-out tasks, resumable, in
several processes or on a cluster."""

import argparse
from functools import partial
from typing import Any

import engines
from engines import UserError
from engines.tasks import TASKS
from explorer.cli.io import check_target, complain, print_lines, remark, say, signed, write_json
from explorer.cli.loading import load, loading
from explorer.cli.options import LENGTH, Command, key_values, positive, with_length
from explorer.cli.run import INTERRUPTED
from explorer.words import printable


def add_arguments(sweep: Command) -> None:
    """Declare the options."""
    sweep.several("--method", "M", "repeatable; default: all methods that fit the model")
    sweep.option("--model", "NAME", "the model that all of them run on", required=True)
    sweep.loading()
    two = "two may vary: a curve along the first for each value of the second"
    sweep.several("--param", "NAME=VALUES", f"0.5:1:6 (six values from 0.5 to 1) or 0.5,0.7; {two}")
    sweep.length("as many as the task's answers need")
    sweep.several("--task", "T", "repeatable; default: all tasks", choices=tuple(TASKS))
    sweep.option("--prompts", "N", "held-out prompts per task (default 8)", type=positive, default=8)
    sweep.option("--seed", "N", "seed of every run (default 0)", type=int, default=0)
    sweep.option("--seconds", "S", "stop after S seconds; every method then counts on the same prompts", type=float)
    sweep.option("--runs", "N", "stop after N new runs", type=positive)
    sweep.flag("--resume", "take runs that were finished before, with the same weights, code, prompt and seed")
    sweep.option("--workers", "N", "local processes, each with its own model (default 1)", type=positive, default=1)
    sweep.option("--threads", "N", "threads of each worker (default: an equal share of the cores)", type=positive)
    sweep.option("--ray", "ADDRESS", "run the workers on a Ray cluster; local starts one here")
    sweep.option("--json", "FILE", "also write every point with every task here")
    sweep.method_files()
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
    say(f"{len(sweep.settings)} settings on {ways} prompts of {len(sweep.tasks)} tasks: {sweep.total} runs")
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
        settings = [
            setting._replace(params=quality.fitted(engines.get_method(setting.method).info, length) | setting.params)
            for setting in settings
        ]
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
    say(f"{sweep.fresh} runs made, {sweep.reused} taken from before, {sweep.left} left")
    if sweep.left:
        remark("not everything ran; the same command with --resume goes on from here.")
    for label, reason in sweep.refused.items():
        complain(f"{label} did not run: {reason}")
    return 2 if sweep.refused else 0
