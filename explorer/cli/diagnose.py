"""The command `diagnose`: why is a published drafter slow on my prompts?"""

import argparse
from collections.abc import Iterator
from typing import Any

import msgspec

import engines
from engines import UserError, texts
from explorer.cli.io import MAX_FILE_BYTES, check_target, read_bytes, read_trace_file, signed, write, write_json
from explorer.cli.loading import load, loading
from explorer.cli.options import Command, given_prompts, positive, with_part
from explorer.figures import diagnosed
from explorer.words import printable

TOKENS = 64


def add_arguments(parser: Command) -> None:
    """Declare the options."""
    parser.option("--model", "NAME", "the target: a name, hub id or folder", required=True)
    parser.part()
    parser.prompts()
    parser.loading()
    parser.length(TOKENS)
    parser.option("--depth", "K", "depth of the drafts (default: the drafter's own)", type=positive)
    about = "what a loop or a server drafted along its text: a trace, or JSON {ids, rounds: [{place, drafted}]}"
    parser.option("--record", "FILE", about)
    parser.flag("--no-times", "leave out what a round costs on this machine")
    about = "what drafts would be worth if each token were accepted with this chance (0 to 1), derived"
    parser.option("--what-if", "A", about, type=chance)
    parser.option("--html", "FILE", "write a report to share, one page")
    parser.json()
    parser.set_defaults(command=diagnose_command)


def diagnose_command(args: argparse.Namespace) -> int:
    """Look at every place of what the target writes, and print what was found."""
    check_target(args.json, args.html)
    if args.what_if is not None and args.no_times:
        raise UserError("--what-if is derived from what a round costs here; leave --no-times out.")
    prompts = given_prompts(args)
    if not args.part:
        raise UserError("no drafter is given; write --part head=ID_OR_FOLDER.")
    model = with_part(load(args.model, loading(args)), args, any_format=True)
    drafted = record_file(args.record) if args.record else None
    diagnosis = engines.diagnose(
        model,
        model.drafter,
        prompts,
        k=args.depth or 0,
        tokens=args.max_new_tokens or TOKENS,
        timed=not args.no_times,
        record=drafted,
    )
    record = signed(diagnosis, args)
    if args.html:
        from explorer.export.diagnosis import diagnosis_page

        write(args.html, diagnosis_page(record))
    if args.json:
        write_json(args.json, record)
    if "-" not in (args.json, args.html):
        for line in findings(diagnosis, args.what_if):
            print(printable(line))
    return 0


def chance(text: str) -> float:
    """A number from 0 to 1."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no chance; give a number from 0 to 1.")
    return value


def record_file(name: str) -> Any:
    """What a file says was drafted: a trace of ours, or ids and rounds. Raises UserError."""
    data = read_bytes(name, MAX_FILE_BYTES)
    try:
        data = texts.utf8(data)
        return msgspec.json.decode(data, type=engines.DraftRecord)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if data.lstrip()[:1] == b"{" and b'"rounds"' in data[:100_000]:
            raise UserError(
                f"'{name}' is no record of drafts ({error}); write {{ids: [...], rounds: [{{place, drafted}}]}}."
            ) from None
    return engines.drafts_of(read_trace_file(name))


def findings(diagnosis: Any, acceptance: float | None = None) -> Iterator[str]:
    """A diagnosis as findings of text. acceptance: an assumed one, beside the measured."""
    yield diagnosed.headline(diagnosis)
    for section in diagnosed.tables(diagnosis):
        if section.rows:
            yield ""
            yield f"{section.title}. {section.note}"
            yield from columns(section.columns, section.rows)
    yield ""
    for place in diagnosed.places(diagnosis):
        yield f"{place.title}:"
        yield f"  target: {place.target}"
        yield f"  draft:  {place.draft}"
    yield ""
    yield from diagnosed.findings(diagnosis, acceptance)


def columns(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> Iterator[str]:
    """A columns in columns."""
    all_rows = [head, *rows]
    widths = [max(len(row[i]) for row in all_rows) for i in range(len(head))]
    for row in all_rows:
        yield "  ".join(value.rjust(width) for value, width in zip(row, widths, strict=True))
