"""Pictures from the command line: `export --svg | --png | --gif | --mp4`, and `site`."""

import argparse
from pathlib import Path

from engines import UserError
from explorer.cli.io import check_target, read_traces, say, write_bytes
from explorer.cli.options import Command
from explorer.cli.progress import counted

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


def add_arguments(export: Command) -> None:
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
