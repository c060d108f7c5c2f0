"""Pages and pictures from the command line: `export --svg | --png | --gif | --mp4`, `report` and `site`."""

import argparse
from pathlib import Path
from typing import Any

from engines import Step, Trace, UserError
from explorer.cli.io import check_target, read_traces, say, write, write_bytes
from explorer.cli.options import Command
from explorer.cli.progress import counted
from explorer.cli.trace import written_tokens
from explorer.export.events import csv_text, events_csv, inert
from explorer.figures.calls import layer_rows, other_calls, target_calls, target_role
from explorer.words import COSTS

FIGURES, FILMS = ("svg", "png"), ("gif", "mp4")
VIEWS = ("board", "step", "tree", "curve", "work")
CLOCKS = ("steps", "forwards", "seconds", "work")
SEEN = (
    "board: all steps (default of a figure); step: the tokens after one (default of a film); tree; curve; work: "
    "when each model computed, in seconds"
)
SAID = {
    "svg": "a figure of one trace or several, fit for a paper",
    "png": "the same as pixels",
    "gif": "a film in measured time (see --clock and --speed)",
    "mp4": 'the same as a video; needs  pip install "decoding-explorer[video]"',
}
TABLE = (
    "run,method,models,seed,step,target_calls,other_calls,work,tokens_fed,model_seconds,method_seconds,positions,tokens,"
    "causes,text,note"
)


def add_export(export: Command) -> None:
    """Declare the options of `export`."""
    export.option("file", "FILE", "one or more traces", nargs="+")
    export.one_of(
        ("--html", "FILE", "one page that plays the traces without a server or a network"),
        ("--json", "FILE", "the validated trace, or a list of them; - is standard output"),
        ("--csv", "FILE", "a table with one line per step; - is standard output"),
        ("--events-csv", "FILE", "a table with one line per token written or drafted; - is standard output"),
        ("--python", "FILE", "the Python lines that repeat the runs; - is standard output"),
        *((f"--{name}", "FILE", f"{about}; - is standard output") for name, about in SAID.items()),
    )
    _add_pictures(export)
    export.add_argument("--title", default="", help="the page's title")
    export.method_files()  # for the views that lie beside them
    export.set_defaults(command=export_command)


def _add_pictures(export: Command) -> None:
    """Declare the options of `export` that say how a picture looks."""
    export.option("--view", None, SEEN, choices=VIEWS)
    export.option("--step", "N", "of a figure with --view step or tree: the step as `replay` numbers it", type=int)
    about = "what runs from top to bottom, from left to right, or in a film (default there: seconds)"
    export.option("--clock", None, about, choices=CLOCKS)
    export.option("--speed", "X", "of a film: 0.5 is half as fast as measured (default 1)", type=float)
    export.option("--width", "INCHES", "of a figure: 3.3 is a column, 7 a page (default 7)", type=float)
    export.option("--dpi", "N", "dots per inch (default 300, in a film 144)", type=int)


def wanted(args: argparse.Namespace) -> str | None:
    """The kind of picture asked for; None for another kind of export. Raises UserError for an option that does not
    belong to it."""
    kind = next((name for name in SAID if getattr(args, name) is not None), None)
    foreign = {
        "step": FIGURES,
        "width": FIGURES,
        "speed": FILMS,
        "view": (*FIGURES, *FILMS),
        "clock": (*FIGURES, *FILMS),
        "dpi": ("png", *FILMS),
    }
    for name, kinds in foreign.items():
        if getattr(args, name) is not None and kind not in kinds:
            raise UserError(f"--{name} belongs to {', '.join(f'--{k}' for k in kinds)}; leave it out here.")
    return kind


def pictures_command(args: argparse.Namespace, kind: str) -> int:
    """Draw and write."""
    target = getattr(args, kind)
    check_target(target)
    traces = read_traces(args.file)
    given = {
        name: value
        for name in ("view", "step", "clock", "speed", "width", "dpi")
        if (value := getattr(args, name)) is not None
    }
    if kind in FIGURES:
        from explorer.export.figures import figure

        made = figure(traces, format=kind, **given)
        write_bytes(target, made.encode() if isinstance(made, str) else made)
        return 0
    from explorer.export.film import animation

    with counted(unit="picture", mininterval=1) as progress:
        data, report = animation(traces, format=kind, progress=progress, **given)
    write_bytes(target, data)
    own = ", ".join(f"{trace.header.title} {seconds:.2f} s" for trace, seconds in zip(traces, report.runs, strict=True))
    if target != "-":
        print(
            f"{target}: {report.frames} pictures of {report.size[0]} x {report.size[1]}, {len(data) / 1e6:.2f} MB; "
            f"{own}, then a pause"
        )
    return 0


def add_site_arguments(site: Command) -> None:
    """Declare the options of `site`."""
    site.option("folder", "OUT", "an empty or new folder, or one that holds a site of ours, which is then replaced")
    about = "show the traces of this folder (*.json, *.json.gz) instead of the gallery that ships"
    site.option("--traces", "FOLDER", about)
    site.option("--lecture", "FILE", "the scenes of index.html?lecture, instead of assets/lecture.json")
    site.set_defaults(command=site_command)


def site_command(args: argparse.Namespace) -> int:
    """Write the static site; exit 1 if a trace could not be read and was left out."""
    from explorer.lecture import chosen
    from explorer.runs.gallery import Gallery
    from explorer.site import build

    folder = Path(args.traces) if args.traces else None
    if folder and not folder.is_dir():
        raise UserError(f"there is no folder '{folder}' with traces.")
    made = build(Path(args.folder), Gallery(folder) if folder else None, chosen(args.lecture or ""))
    for name, reason in made.broken.items():
        say(f"left out: {name}: {reason}")
    print(
        f"{args.folder}: {made.pages} pages, {made.files} files, {made.size / 1e6:.1f} MB; open "
        f"{Path(args.folder) / 'index.html'}"
    )
    return int(bool(made.broken))


def add_report(parser: Command) -> None:
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


def export_command(args: argparse.Namespace) -> int:
    """Write traces in another form."""
    if picture := wanted(args):
        return pictures_command(args, picture)
    target = next(path for path in (args.html, args.json, args.csv, args.events_csv, args.python) if path is not None)
    check_target(target)
    traces = read_traces(args.file)
    if args.html is not None:
        from explorer.export.html import export_html

        write(target, export_html(traces, args.title or " and ".join(dict.fromkeys(t.header.title for t in traces))))
    elif args.json is not None:
        write(target, traces[0].to_json() if len(traces) == 1 else "[" + ",\n".join(t.to_json() for t in traces) + "]")
    elif args.python is not None:
        from explorer.export.python import lines

        write(target, lines(traces).removesuffix("\n"))
    elif args.events_csv is not None:
        write(target, events_csv(traces).removesuffix("\n"))
    else:
        write(target, table(traces).removesuffix("\n"))
    return 0


def table(traces: list[Trace]) -> str:
    """CSV with one line per step: which run, its cost, what it wrote."""
    rows = []
    for number, trace in enumerate(traces):
        text = {piece.id: piece.text for piece in trace.pieces}
        models, target = " ".join(m.name for m in trace.header.models), target_role(trace)
        for step in trace.steps:
            at = written_tokens(step)
            cost = ["" if name in trace.header.missing else value for name, value in _spent(step, target)]
            causes = " ".join(dict.fromkeys(step.commits.causes)) if step.commits else ""
            words = ["".join(text.get(t, "") for _, t in at), step.note]
            which = [number, inert(trace.header.method), inert(models), trace.header.seed, step.index]
            ids = [" ".join(str(p) for p, _ in at), " ".join(str(t) for _, t in at)]
            rows.append([*which, *cost, *ids, inert(causes), *(inert(w) for w in words)])
    return csv_text(TABLE.split(","), rows)


def _spent(step: Step, target: str) -> list[tuple[str, Any]]:
    """(field that it needs, value) of a step's costs, in the order of the table's columns."""
    calls = [("forwards", target_calls(step, target)), ("forwards", other_calls(step, target))]
    return [*calls, ("work", layer_rows(step)), *((name, getattr(step, name)) for name in COSTS[2:])]
