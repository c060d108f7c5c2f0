"""The command line: `decoding-explorer methods | models | run | compare | attach | replay | export | report | fork |
import | doctor | verify | advise | bench | certify | sweep | eval | study | parallelbench | template | site | publish |
runs | serve`.

Exit status: 0 done; 1 a check failed (`doctor`, `verify`, `replay --rerun`, `fork`); 2 bad input, with one line on
standard error that says what is allowed. Nothing heavy is imported before a command needs it: `methods` and `--help`
answer without torch."""

import argparse
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from importlib import metadata

import msgspec

import engines
from engines import ASSETS, MethodInfo, TraceError, UserError
from explorer.cli import (
    advise,
    attach,
    bench,
    diagnose,
    doctor,
    eval,
    export,
    fork,
    loading,
    parallelbench,
    publish,
    run,
    runs,
    study,
    sweep,
    trace,
    verify,
)
from explorer.cli.io import complain, print_json, print_table
from explorer.cli.options import Command
from explorer.cli.progress import as_at_ctrl_c
from explorer.words import printable

TEMPLATES = ASSETS / "templates"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a terminal that cannot show a character gets its escape
    try:
        args = _parsed(argv)
        args.typed = shlex.join(["decoding-explorer", *(sys.argv[1:] if argv is None else argv)])
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # `downloads_told` has one of its own
        load_own_methods(args)
        with loading.downloads_told(), as_at_ctrl_c(args.command is not serve_command):
            code: int = args.command(args)
        sys.stdout.flush()
        return code
    except (UserError, TraceError) as error:
        return complain(str(error))
    except BrokenPipeError:  # the reader, `head` for one, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        return complain(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except KeyboardInterrupt:
        return run.INTERRUPTED


def _parsed(argv: Sequence[str] | None) -> argparse.Namespace:
    """The arguments; `rest`: those for another program, of a command with `takes_rest`. Raises UserError."""
    args, rest = (top := parser()).parse_known_args(argv)
    if rest and not getattr(args, "takes_rest", False):
        top.error(f"unrecognized arguments: {' '.join(rest)}")
    args.rest = rest
    return args


def load_own_methods(args: argparse.Namespace) -> None:
    """Run the method files; for a page on a public host not even that. Raises UserError."""
    files = getattr(args, "method_file", [])
    if files and args.command is serve_command:
        from explorer.page.run_limits import Limits

        Limits.from_env(args.public).check_methods(files)
    for file in files:
        engines.load_method_file(file)


def parser() -> Command:
    """All commands with their options."""
    top = Command(
        prog="decoding-explorer", description="Watch a text being decoded, by the methods of many papers, run for real."
    )
    top.add_argument("--version", action="version", version=version())
    commands = top.add_subparsers(metavar="COMMAND", required=True, dest="command_name")
    for name, about, declare in COMMANDS:
        declare(commands.add_parser(name, help=about, aliases=["page"] if name == "serve" else []))
    return top


def _methods(parser: Command) -> None:
    parser.option("slug", "METHOD", "show this method's parameters", nargs="?")
    parser.flag("--papers", "list all papers with how far each has come")
    parser.flag("--json", "print JSON")
    parser.method_files()
    parser.set_defaults(command=methods_command)


def _models(parser: Command) -> None:
    parser.option("--fetch", "NAME", "download and convert this model now")
    parser.option("--size", "NAME", "what this model needs, by its config or GGUF header alone; nothing is loaded")
    parser.loading()
    parser.flag("--json", "print JSON")
    parser.set_defaults(command=models_command)


def _template(parser: Command) -> None:
    kinds = tuple(path.stem for path in sorted(TEMPLATES.glob("*.py")))
    parser.add_argument("--kind", choices=kinds, default="masked", help="kind of model (default masked)")
    parser.set_defaults(command=template_command)


def _serve(parser: Command) -> None:
    parser.option("--host", "H", "address to listen on (default 127.0.0.1)")
    parser.option("--port", "P", "port (default: the first free one from 7860)", type=int)
    parser.flag("--public", "strangers come: only listed models, no files of this machine, tighter budgets")
    parser.option("--lecture", "FILE", "the scenes of lecture mode, instead of assets/lecture.json")
    parser.method_files()
    parser.set_defaults(command=serve_command)


def version() -> str:
    """The installed version; from a bare checkout there is none."""
    try:
        return f"decoding-explorer {metadata.version('decoding-explorer')}"
    except metadata.PackageNotFoundError:
        return "decoding-explorer (not installed)"


def methods_command(args: argparse.Namespace) -> int:
    """List the declarations; a method file that does not load is named with its reason."""
    if args.papers:
        return papers_command(args)
    if args.slug:
        return show_method(engines.get_method(args.slug).info, args.json)
    infos, broken = engines.list_methods(), engines.broken_methods()
    if args.json:
        return print_json({"methods": infos, "broken": broken})
    print_table(
        ("method", "family", "needs", "baseline", "title", "paper"),
        [(i.slug, i.family, "+".join(i.needs.values()), i.baseline, i.title, i.paper) for i in infos],
    )
    for failure in broken:
        print(f"broken: {failure.module}: {printable(failure.reason)}")
    return 0


def papers_command(args: argparse.Namespace) -> int:
    """All papers with their state, and what is missing or simplified as JSON."""
    from explorer import papers

    if args.slug:
        raise UserError(f"'{args.slug}' and --papers do not go together; leave one of them out.")
    all_papers = papers.read().papers
    if args.json:
        return print_json(
            [{**msgspec.to_builtins(paper), "simplified": papers.simplified(paper)} for paper in all_papers]
        )
    print_table(
        ("state", "family", "paper", "arXiv", "here as"),
        [
            (p.state, p.family, p.name, p.arxiv, ", ".join([*p.methods, *p.tools]) or f"missing: {p.missing}")
            for p in all_papers
        ],
    )
    for name, fault in papers.faults().items():
        print(f"broken: papers/{name}: {printable(fault)}")
    print(papers.tally())
    return 0


def show_method(info: MethodInfo, as_json: bool) -> int:
    """One method: what it is and what can be set."""
    if as_json:
        return print_json(info)
    print(f"{info.title} ({info.slug}), {info.paper}{f', {info.own}' if info.own else ''}\n{info.summary}")
    lossless = ", lossless" if info.lossless or info.lossless_with else ""
    promise = f"{lossless} with {info.condition}" if info.lossless_with else lossless
    needs = [f"{role} ({kind}{', or none' * (role in info.optional)})" for role, kind in info.needs.items()]
    print(f"needs: {', '.join(needs)}")
    print(f"baseline: {info.baseline or 'none'}{promise}\ndeparts from the paper: {info.departures}\n")
    print_table(
        ("parameter", "default", "allowed", "effect"), [(p.name, p.default, p.allowed(), p.help) for p in info.params]
    )
    return 0


def models_command(args: argparse.Namespace) -> int:
    """List the models, or make one ready to run without a network."""
    if args.fetch:
        model = loading.load(args.fetch, loading.loading(args))
        print(
            f"{model.record.name} is ready: {model.record.kind}, {model.record.parameters:,} parameters, sha256 "
            f"{model.record.sha256[:16] or 'unknown'}"
        )
        return 0
    if args.size:
        return loading.size_command(args)
    models = engines.list_models()
    if args.json:
        return print_json(models)
    print_table(
        ("model", "kind", "parameters", "weights", "about"),
        [
            (m.name, m.kind, f"{m.parameters / 1e6:.3g}M", m.where, f"{m.title}. {m.note}".removesuffix(" "))
            for m in models
        ],
    )
    return 0


def template_command(args: argparse.Namespace) -> int:
    """Print a method file that runs as it stands."""
    print((TEMPLATES / f"{args.kind}.py").read_text("utf-8"), end="")
    return 0


def serve_command(args: argparse.Namespace) -> int:
    """Start the page and stay until Ctrl-C."""
    from explorer.page.server import serve

    given = {"server_name": args.host, "server_port": args.port, "public": args.public or None, "lecture": args.lecture}
    try:
        serve(**{name: value for name, value in given.items() if value is not None})
    except OSError as error:
        if error.filename is not None:  # a file, not a port
            raise
        raise UserError(
            f"the page cannot be served at {args.host or '127.0.0.1'}, port {args.port or 'any from 7860'}: {error}"
        ) from None
    return 0


COMMANDS: tuple[tuple[str, str, Callable[[Command], object]], ...] = (
    ("methods", "list the decoding methods, or one with its parameters", _methods),
    ("models", "list the models, or fetch one that is not in the repository", _models),
    ("run", "decode a prompt with one method", run.add_run),
    ("compare", "decode a prompt with several methods and compare what they cost", run.add_compare),
    ("attach", "watch a running server decode: vLLM, SGLang, llama.cpp, any OpenAI-like one", attach.add_arguments),
    ("replay", "read a trace in the terminal, or run it again", trace.add_replay),
    ("export", "turn traces into a page, JSON or a table", export.add_export),
    ("report", "compare traces on one page: verdicts, numbers with receipts, conditions", export.add_report),
    (
        "fork",
        "go on from a step of a recorded run with a change: a token, a parameter, another method",
        fork.add_arguments,
    ),
    ("import", "read a record of another program (vLLM, SGLang, diffusers, LLaDA's log) as a trace", trace.add_import),
    ("doctor", "try what works on this machine, and say what to do about the rest", doctor.add_arguments),
    ("verify", "check the methods against a folder of golden cases", verify.add_arguments),
    (
        "advise",
        "will it help on my text? lossless methods on your prompts, with a verdict",
        advise.add_arguments,
    ),
    ("diagnose", "why is a published drafter slow? acceptance, misses and known slips", diagnose.add_arguments),
    ("bench", "measure methods against their baselines, as ratios", bench.add_bench),
    ("certify", "check that lossless methods give their control's text, token by token", bench.add_certify),
    (
        "sweep",
        "quality against forwards on held-out tasks, with the model's threshold curve behind every method",
        sweep.add_arguments,
    ),
    ("eval", "benchmarks of lm-evaluation-harness, with what the answers cost beside them", eval.add_arguments),
    ("study", "laws, bounds and cost models of papers: inputs in, tables and figures out", study.add_arguments),
    (
        "parallelbench",
        "ParallelBench on masked models: tasks x orders x blocks x tokens per forward, with the theory",
        parallelbench.add_arguments,
    ),
    ("template", "print a method of your own to start from: `decoding-explorer template > my.py`", _template),
    (
        "site",
        "write gallery, lessons, methods and player as plain files, for a folder or any web server",
        export.add_site_arguments,
    ),
    ("publish", "put the app, or the static site, on the Hugging Face Hub as a Space", publish.add_arguments),
    ("runs", "list, show, pin, delete and export the runs that the page has kept", runs.add_arguments),
    ("serve", "start the page", _serve),
)
