"""The command `verify`: golden cases against the engines."""

import argparse

import engines
from explorer.cli.io import print_json, print_table
from explorer.cli.loading import add_loading, loading
from explorer.words import printable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("folder", metavar="FOLDER", help="a folder of golden JSON files")
    parser.add_argument(
        "--checkers",
        metavar="FOLDER",
        help="the folder of their checkers (default: that of a checkout)",
    )
    add_loading(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(command=verify_command)


def verify_command(args: argparse.Namespace) -> int:
    """A line per file of golden cases and a total; exit 1 if any case fails."""
    reports = engines.verify(args.folder, checkers=args.checkers, loading=loading(args))
    failed = sum(r.state == "failed" for r in reports)
    if args.json:
        print_json(reports)
        return int(failed > 0)
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
