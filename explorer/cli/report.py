"""`report`: a comparison of traces as one page."""

import argparse
from pathlib import Path

from explorer.cli.io import check_target, read_traces, write


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("file", nargs="+", metavar="FILE", help="traces of the same prompt, plain or gzipped")
    parser.add_argument("--html", required=True, metavar="FILE", help="write the page here; - is standard output")
    parser.add_argument("--title", default="", help="the page's title")
    parser.set_defaults(command=report_command)


def report_command(args: argparse.Namespace) -> int:
    """Write the page: verdicts, numbers with receipts, boards, conditions."""
    from explorer.export.report import report

    check_target(args.html)
    traces = read_traces(args.file)
    write(args.html, report(traces, args.title, [Path(name).name for name in args.file]))
    return 0
