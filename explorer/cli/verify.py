"""The command `verify`: golden cases against the engines."""

import argparse

import engines
from explorer.cli.io import print_json, print_table
from explorer.cli.loading import loading
from explorer.cli.options import Command
from explorer.words import printable


def add_arguments(parser: Command) -> None:
    """Declare the options."""
    parser.option("folder", "FOLDER", "a folder of golden JSON files")
    parser.option("--checkers", "FOLDER", "the folder of their checkers (default: that of a checkout)")
    parser.loading()
    parser.flag("--json", "print JSON")
    parser.set_defaults(command=verify_command)


def verify_command(args: argparse.Namespace) -> int:
    """A line per file of golden cases and a total; exit 1 if any case fails."""
    reports = engines.verify(args.folder, checkers=args.checkers, loading=loading(args))
    failed = sum(r.state == "failed" for r in reports)
    if args.json:
        return print_json(reports, int(failed > 0))
    print_table(("file", "state", "cases", "run"), [(r.file, r.state, r.cases, r.covered) for r in reports])
    for r in reports:
        if r.mismatch:
            print(f"{printable(r.file)}: {printable(r.mismatch)}")
        if r.left_out:
            print(f"{printable(r.file)}: not run, {printable(r.left_out)}")
    passed, open_ = sum(r.state == "passed" for r in reports), sum(r.state == "not covered" for r in reports)
    print(
        f"{passed} passed, {failed} failed, {open_} not covered; {sum(r.covered for r in reports)} of "
        f"{sum(r.cases for r in reports)} cases were run"
    )
    return int(failed > 0)
