"""The command `parallelbench`: the benchmark's grid on masked models, its table of what no single setting reaches, and
the file that the page shows."""

import argparse
from pathlib import Path

from engines import UserError, parallelbench
from explorer.cli.io import check_target, print_table, signed, write
from explorer.cli.loading import load, loading
from explorer.cli.options import Command
from explorer.cli.progress import counted
from explorer.words import printable


def add_arguments(parser: Command) -> None:
    """Declare the options."""
    parser.several("--model", "NAME", "a masked model; repeatable; default: those in the file of --json")
    parser.loading()
    grid = tuple(parallelbench.GRID)
    parser.several("--task", "T", "repeatable; default: all of the benchmark's", choices=grid)
    about = f"held-out prompts per task (default: as many as in the file, else {parallelbench.PROMPTS})"
    parser.option("--prompts", "N", about, type=int)
    about = "also write every point here; models that the file has and that do not run now stay in it"
    parser.option("--json", "FILE", about)
    parser.set_defaults(command=parallelbench_command)


def parallelbench_command(args: argparse.Namespace) -> int:
    """Run the grid on every model, print two tables for each, and replace their parts of the file."""
    check_target(args.json)
    if args.prompts is not None and args.prompts < 1:
        raise UserError(f"--prompts {args.prompts} is too few; give a whole number above 0.")
    old = (
        {part.model.name: part for part in parallelbench.recorded(Path(args.json))}
        if args.json and args.json != "-"
        else {}
    )
    names = args.model or list(old)
    if not names:
        raise UserError(
            "no model is given and the file of --json names none; give one with --model, for example --model oracle."
        )
    options = loading(args)
    for name in dict.fromkeys(names):
        model = load(name, options)
        prompts = args.prompts or (old[name].prompts if name in old else parallelbench.PROMPTS)
        with counted(unit="task", desc=name) as progress:
            part = parallelbench.run(model, args.task or [*parallelbench.GRID], prompts, progress)
        part = old[part.model.name] = signed(part, args)
        if args.json and args.json != "-":
            # model by model: an interrupt keeps those that are whole
            write(args.json, parallelbench.as_json(list(old.values())))
        if args.json != "-":
            show(part)
    if args.json == "-":
        write("-", parallelbench.as_json(list(old.values())))
    return 0


def show(part: parallelbench.Part) -> None:
    """Sampling in random order against what is derived, then the oracle view."""
    print(printable(f"{part.model.name}, {part.prompts} held-out prompts of each task"))
    random = [p for p in part.points if p.setting.sampled]
    boards = {p.task: p.setting.per_forward or 1 for p in random}  # the last one writes the whole board
    formulas = {
        task: {formula.per_forward: formula.chance for formula in parallelbench.derived(task, n)}
        for task, n in boards.items()
    }
    rows = [
        (
            p.task,
            p.setting.label,
            p.share,
            *p.interval,
            p.chance,
            formulas[p.task].get(p.setting.per_forward or 0),
            p.bound,
        )
        for p in random
    ]
    print_table(("task", "setting", "exact", "from", "to", "derived", "closed form", "C, nats"), rows)
    views = [(s.task, s.best, s.share, s.forwards, s.chosen, s.factor, s.solved) for s in part.speedups]
    print_table(
        (
            "task",
            "best single setting",
            "exact",
            "forwards",
            "chosen per prompt",
            "times fewer",
            "some setting is right",
        ),
        views,
    )
    for task, reason in part.refused.items():
        print(printable(f"{task}: not run. {reason}"))
