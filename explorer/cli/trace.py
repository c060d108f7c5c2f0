"""The commands that read traces: `replay` (a readable text of every step, or the run made again) and `export` (page,
JSON, table; pictures: see cli_export)."""

import argparse
import zlib
from pathlib import Path
from typing import Any

import engines
from engines import Step, Trace, TraceError, UserError
from explorer.cli.io import (
    MAX_FILE_BYTES,
    check_target,
    print_json,
    read_bytes,
    read_traces,
    say,
    text_of,
    unpacked,
    write,
)
from explorer.cli.options import Command
from explorer.cli.run import split_role
from explorer.figures.calls import many
from explorer.importers import IMPORTERS, import_trace
from explorer.words import heading, printable, step_fields, step_lines

Fields = dict[str, Any]


def add_replay(replay: Command) -> None:
    """Declare the options of `replay`."""
    replay.option("file", "FILE", "a trace as `run --json` writes it; - is standard input")
    replay.option("--step", "N", "this step only, with its scores and candidates", type=int)
    replay.flag("--rerun", "decode again from the header and say whether the trace repeats (exit 1 if not)")
    replay.several("--model", "[ROLE=]NAME", "with --rerun: use this model instead of the recorded one")
    replay.flag("--json", "print JSON")
    replay.method_files()
    replay.set_defaults(command=replay_command)


def add_import(parser: Command) -> None:
    """Declare the options of `import`."""
    parser.option("file", "FILE", "a record of another program, plain or gzipped; - is standard input")
    parser.option("--format", "F", f"auto (default), trace, {', '.join(IMPORTERS)}", default="auto")
    parser.option("--json", "FILE", "write the trace here; - is standard output", required=True)
    parser.set_defaults(command=import_command)


def import_command(args: argparse.Namespace) -> int:
    """Read a record and write it as a trace; what it does not hold is said on standard error."""
    check_target(args.json)
    trace = read_record(args.file, args.format)
    write(args.json, trace.to_json())
    if trace.header.missing:
        say(f"not recorded: {', '.join(trace.header.missing)}".replace("_", " "))
    return 0


def read_record(name: str, form: str) -> Trace:
    """The trace in a file of another program. Raises UserError that names the file."""
    data = read_bytes(name, MAX_FILE_BYTES)
    try:
        return import_trace(text_of(unpacked(data), name), form)
    except (TraceError, EOFError, OSError, OverflowError, RecursionError, zlib.error) as error:
        raise UserError(f"'{name}' cannot be read: {error}") from None


def replay_command(args: argparse.Namespace) -> int:
    """Print a trace step by step, or run it again."""
    trace = read_traces([args.file])[0]
    if args.rerun:
        return rerun_command(trace, args)
    if args.step is not None and not 0 <= args.step < len(trace.steps):
        raise UserError(
            f"--step {args.step} is not in the trace; it has steps 0 to {len(trace.steps) - 1}."
            if trace.steps
            else "the trace has no steps."
        )
    steps = trace.steps if args.step is None else [trace.steps[args.step]]
    if args.json:
        return print_json([step_fields(trace, step, detailed=args.step is not None) for step in steps])
    if args.step is None:
        for line in heading(trace):
            print(line)
    for step in steps:
        for line in step_lines(trace, step, detailed=args.step is not None):
            print(line)
    if args.step is None:
        print(f"ended: {trace.end.reason}{' - ' + printable(trace.end.message) if trace.end.message else ''}")
        print(f"text: {printable(trace.text)}")
    return 0


def rerun_command(trace: Trace, args: argparse.Namespace) -> int:
    """Decode again from the header; exit 1 where the new run differs."""
    again = rerun(trace, args.model)
    difference = departure(trace, again)
    if args.json:
        print_json(
            {
                "repeats": difference is None,
                "difference": difference,
                "steps": len(again.steps),
                "tokens": again.totals.tokens,
            }
        )
    elif difference is None:
        print(f"the trace repeats: {many(len(again.steps), 'step')} and {many(again.totals.tokens, 'token')} are equal")
    else:
        print(printable(f"the trace does not repeat: {difference}"))
    return 0 if difference is None else 1


def rerun(trace: Trace, models: list[str]) -> Trace:
    """The run again by its header: method, parameters, seed, edits, models by name. Raises UserError."""
    h = trace.header
    if h.imported_from:
        raise UserError(f"the trace was imported from {h.imported_from}; it cannot be run again here.")
    info = engines.get_method(h.method).info
    given = {role or info.role: name for role, name in (split_role(spec, [info]) for spec in models)}
    known = {m.name for m in engines.list_models()}
    roles: Fields = {}
    for record in (m for m in h.models if m.role in info.needs):
        name = given.get(record.role, record.name)
        if record.role not in given and name not in known:
            raise UserError(
                f"the trace was made with the model '{name[:80]}', which is not built in; name it with --model "
                f"{record.role}=NAME."
            )
        like = {"device": record.device, "dtype": record.dtype} if name in known else {}
        if name == record.name or Path(name).name == record.name:  # it, and not another one in its place
            like = record.loading
        roles[record.role] = engines.load_model(name, **like)
    edits = [(change.after_step, change.edit) for change in h.edits]
    options: Fields = {} if trace.end.reason == "complete" else {"max_steps": max(1, len(trace.steps))}
    run = engines.stream(
        h.method, roles, h.prompt_ids, params=h.params, seed=h.seed, detail=h.detail, edits=edits, **options
    )
    try:
        for _ in run:
            pass
    except UserError:
        if trace.end.reason != "failed":
            raise
    return run.trace()


def departure(a: Trace, b: Trace) -> str | None:
    """Where two traces part in what they decoded (positions, tokens, forwards), in words; None: nowhere."""
    for record, other in zip(a.header.models, b.header.models, strict=False):
        if record.sha256 and other.sha256 and record.sha256 != other.sha256:
            return (
                f"the weights of {record.name} are others (sha256 {record.sha256[:12]} then, {other.sha256[:12]} now)"
            )
    for step, two in zip(a.steps, b.steps, strict=False):
        if step.forwards != two.forwards:
            return f"step {step.index} took the forwards {step.forwards} then and {two.forwards} now"
        for (x, y), now in zip(written_tokens(step), written_tokens(two), strict=False):
            if (x, y) != now:
                return (
                    f"step {step.index} wrote token {y} at position {x} then and token {now[1]} at position "
                    f"{now[0]} now"
                )
        if len(written_tokens(step)) != len(written_tokens(two)):
            return (
                f"step {step.index} wrote {many(len(written_tokens(step)), 'token')} then and "
                f"{len(written_tokens(two))} now"
            )
    if len(a.steps) != len(b.steps):
        return f"{many(len(a.steps), 'step')} then and {len(b.steps)} now"
    return None if a.output_ids == b.output_ids else "the output tokens differ"


def written_tokens(step: Step) -> list[tuple[int, int]]:
    """Positions and tokens of a step, in the order in which they were decided."""
    return list(zip(step.commits.positions, step.commits.tokens, strict=True)) if step.commits else []
