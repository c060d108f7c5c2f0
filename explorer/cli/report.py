"""`report`: a comparison of traces as one page."""

import argparse
from pathlib import Path

from explorer.cli.io import check_target, read_traces, write
from explorer.cli.options import Command


def add_arguments(parser: Command) -> None:
    """Declare the options."""
    parser.option("file", "FILE", "traces of the same prompt, plain or gzipped", nargs="+")
    parser.option("--html", "FILE", "write the page here; - is standard output", required=True)
    parser.add_argument("--title", default="", help="the page's title")
    parser.set_defaults(command=report_command)


def report_command(args: argparse.Namespace) -> int:
    """Write the page: verdicts, numbers with receipts, boards, conditions."""
    from explorer.export.report import report

    check_target(args.html)
    traces = read_traces(args.file)
    write(args.html, report(traces, args.title, [Path(name).name for name in args.file]))
    return 0
