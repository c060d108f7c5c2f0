"""The command `study`: list the studies, or compute one and print its tables, its receipts and where each number comes
from; as JSON, as CSV, or a figure as SVG."""

import argparse
from collections import deque
from collections.abc import Callable, Sequence

import engines
from engines import Study, StudyInfo, UserError
from explorer.cli.io import MAX_FILE_BYTES, check_target, print_json, print_table, read_bytes, write
from explorer.cli.options import Command, key_values
from explorer.cli.progress import counted
from explorer.words import printable

SHOWN = 40  # rows of a table in the terminal


def add_arguments(parser: Command) -> None:
    """Declare the options."""
    parser.option("name", "NAME", "the study; without one they are listed", nargs="?")
    parser.several("--set", "X=Y", "an input; repeatable")
    parser.flag("--inputs", "say what can be set, and compute nothing")
    parser.option("--open", "FILE", "read a study that was saved with --json, and compute nothing")
    parser.option("--json", "FILE", "the whole record as JSON", nargs="?", const="-")
    parser.option("--csv", "FILE", "a table as CSV", nargs="?", const="-")
    parser.option("--table", "NAME", "the table of --csv (default: the first)", default="")
    parser.option("--svg", "FILE", "a figure as SVG")
    parser.option("--figure", "NAME", "the figure of --svg (default: the first)", default="")
    parser.set_defaults(command=study_command)


def study_command(args: argparse.Namespace) -> int:
    """List, describe, read or compute."""
    if args.open:
        if args.name or args.set:
            raise UserError("--open reads a saved study; leave out its name and --set.")
        return tell(engines.read_study(read_bytes(args.open, MAX_FILE_BYTES)), args)
    if not args.name:
        return list_command(args)
    info = engines.get_study(args.name).info
    if args.inputs:
        return describe(info, bool(args.json))
    check_target(args.json, args.csv, args.svg)
    return tell(computed(info.slug, key_values(args.set, "--set")), args)


def computed(slug: str, inputs: dict[str, str]) -> Study:
    """The study, with a bar on standard error where it takes long. Interrupted it is what was there by then."""
    latest: deque[Callable[[], Study]] = deque(maxlen=1)
    with counted(desc=slug, leave=False, delay=1) as progress:
        try:
            return engines.study(slug, progress=progress, partial=latest.append, **inputs)
        except KeyboardInterrupt:
            if not latest:
                raise
    return latest[0]()


def list_command(args: argparse.Namespace) -> int:
    """All studies; a file that does not load is named with its reason."""
    infos, broken = engines.list_studies(), engines.broken_studies()
    if args.json:
        return print_json({"studies": infos, "broken": broken})
    print_table(
        ("study", "inputs", "title", "paper", "what"),
        [(i.slug, ", ".join(p.name for p in i.inputs), i.title, i.paper, i.summary) for i in infos],
    )
    for failure in broken:
        print(f"broken: {failure.module}: {printable(failure.reason)}")
    return 0


def describe(info: StudyInfo, as_json: bool) -> int:
    """One study: what it is and what can be set."""
    if as_json:
        return print_json(info)
    print(f"{info.title} ({info.slug}), {info.paper}\n{info.summary}\ndeparts from the paper: {info.departures}\n")
    print_table(
        ("input", "default", "allowed", "effect"), [(p.name, p.default, p.allowed(), p.help) for p in info.inputs]
    )
    return 0


def tell(study: Study, args: argparse.Namespace) -> int:
    """Write what was asked for; the words where nothing goes to standard output."""
    from explorer.export import studies

    if args.json:
        write(args.json, study.to_json())
    if args.csv:
        write(args.csv, studies.table_csv(study.table(args.table)))
    if args.svg:
        write(args.svg, studies.figure_svg(study.figure(args.figure)))
    if "-" not in (args.json, args.csv, args.svg):
        show(study)
    return 0


def show(study: Study) -> None:
    """Tables, receipts and notes."""
    given = ", ".join(f"{name}={value}" for name, value in study.inputs.items())
    print(printable(f"{study.title} ({study.study}), {study.paper}: {given or 'no inputs'}"))
    for table in study.tables:
        print(f"\n{printable(table.title)}")
        print_table([c.head for c in table.columns], [shown(row, table.columns) for row in table.rows[:SHOWN]])
        if len(table.rows) > SHOWN:
            print(f"... {len(table.rows) - SHOWN} more rows: --csv has all")
        if table.note:
            print(printable(table.note))
    for head, lines in (("Receipts", [f"{r.name}: {r.sentence}" for r in study.receipts]), ("Notes", study.notes)):
        if lines:
            print(f"\n{head}\n" + "\n".join(f"- {printable(line)}" for line in lines))


def shown(row: Sequence[object], columns: Sequence[object]) -> list[object]:
    """Cells with as many digits as their columns ask for; None stays, and is shown as no value."""
    return [
        f"{cell:.{digits}f}"
        if isinstance(cell, float) and (digits := getattr(column, "digits", None)) is not None
        else cell
        for cell, column in zip(row, columns, strict=True)
    ]
