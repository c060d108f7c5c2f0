"""`attach`: watch a running server decode, alone or in a race with another one or with an engine."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import engines
from engines import Trace, UserError
from explorer.cli.io import check_target, print_answer, print_table, remark, say, write
from explorer.cli.options import LENGTH, Command
from explorer.cli.run import read_prompt, to_its_end

DRAFTS = ("block_efficiency", "mean_accepted_excluding_bonus", "acceptance_rate_of_drafted")
MOST = 4  # runs in one race
TOKENS = 128
APIS = ("chat", "completions", "llama", "sglang")  # those of `explorer.attach`, whose HTTP is loaded when it is needed


def add_arguments(parser: Command) -> None:
    """Declare the options."""
    parser.option("url", "URL", "the server's address, as in http://127.0.0.1:8000", nargs="+")
    parser.one_of(
        ("--prompt", "TEXT", "what the server shall answer"),
        ("--prompt-file", "FILE", "a UTF-8 file that holds it; - is standard input"),
    )
    each = "once for all URLs or once for each"
    parser.several("--model", "NAME", f"what to ask for; {each}")
    about = f"the interface (default: what the URL names, else chat); {each}"
    parser.several("--api", None, about, choices=APIS)
    about = "let an engine here decode the same prompt, such as greedy@smollm2"
    parser.several("--against", "METHOD@MODEL", about)
    parser.length(TOKENS)
    parser.option("--temperature", "T", "default 0: the most likely token", type=float, default=0.0)
    parser.option("--top", "K", "likely tokens to ask for (default 5; 0: none)", type=int, default=5)
    parser.option("--seed", "N", "sent to the server, and used by the engines", type=int)
    parser.option("--timeout", "S", "a server may stay silent so long (30)", type=float, default=30.0)
    parser.option("--max-seconds", "S", "of one answer (default 600)", type=float, default=600.0)
    about = "the environment variable that holds the server's key (default DECODING_EXPLORER_SERVER_KEY)"
    parser.option("--key-variable", "NAME", about, default="")
    parser.option("--json", "FILE", "of one URL: write the trace here; - prints it, not the text")
    parser.option("--traces", "FOLDER", "write each trace into this folder as 1.json, 2.json ...")
    parser.option("--html", "FILE", "write a page that plays the race here")
    parser.flag("--stats", "of one URL: print times on standard error")
    parser.set_defaults(command=attach_command)


def attach_command(args: argparse.Namespace) -> int:
    """Ask one after the other, so that none takes the other's time, and say when what had arrived."""
    from explorer.attach import Attached, key_for, read_address
    from explorer.page.run_limits import Limits

    if Limits.from_env().public:
        raise UserError("no server is asked from a public host (EXPLORER_PUBLIC or SPACE_ID is set).")
    runs = len(args.url) + len(args.against)
    if runs > MOST:
        raise UserError(f"{runs} runs are too many for one race; give at most {MOST}.")
    if args.json and runs > 1:
        raise UserError("--json takes one run; write several with --traces FOLDER.")
    check_target(args.json, args.html)
    if args.traces and not Path(args.traces).is_dir():
        raise UserError(f"there is no folder '{args.traces}'; make it first.")
    args.prompt_ids = None
    prompt = str(read_prompt(args))
    models, apis = _each(args.model, "--model", len(args.url)), _each(args.api, "--api", len(args.url))
    rivals = [_rival(spec) for spec in args.against]
    options = {name: getattr(args, name) for name in ("temperature", "top", "seed", "max_seconds")}
    options |= {"max_tokens": args.max_new_tokens or TOKENS, "patience": args.timeout}
    asked = [
        Attached(url, model, prompt, api=api, key=key_for(read_address(url), args.key_variable), **options)
        for url, model, api in zip(args.url, models, apis, strict=True)
    ]
    traces, code = [], 0
    for run in [*asked, *(_engine(method, model, prompt, args) for method, model in rivals)]:
        if not code:
            code = to_its_end(run)
        run.close()
        traces += [run.trace()] if run.steps else []
    if traces:
        _write(traces, args)
    return code


def _each(given: Sequence[str], option: str, urls: int) -> list[str]:
    if len(given) not in (0, 1, urls):
        raise UserError(f"{option} is given {len(given)} times for {urls} URLs; give it once, or once for each.")
    return list(given) if len(given) == urls else [given[0] if given else ""] * urls


def _rival(text: str) -> tuple[str, str]:
    method, at, model = text.partition("@")
    if not at or not model:
        raise UserError(f"--against {text[:60]} is not understood; write METHOD@MODEL, as in greedy@smollm2.")
    return engines.get_method(method).info.slug, model


def _engine(method: str, model: str, prompt: Any, args: argparse.Namespace) -> Any:
    known = {param.name for param in engines.get_method(method).info.params}
    options = {LENGTH: args.max_new_tokens or TOKENS, "temperature": args.temperature}
    params = {
        name: value for name, value in options.items() if name in known and not (name == "temperature" and not value)
    }
    loaded = engines.load_model(model)
    return engines.stream(method, loaded, prompt, params=params, seed=args.seed or 0, max_seconds=args.max_seconds)


def _write(traces: list[Trace], args: argparse.Namespace) -> None:
    if args.json:
        write(args.json, traces[0].to_json())
    for number, trace in enumerate(traces, 1):
        if args.traces:
            write(str(Path(args.traces) / f"{number}.json"), trace.to_json())
        if trace.end.message:
            remark(f"{trace.header.title}: {trace.end.message}")
    if args.html:
        from explorer.export.html import export_html

        write(args.html, export_html(traces, " and ".join(dict.fromkeys(t.header.title for t in traces))))
    if len(traces) > 1:
        _race(traces)
    elif args.json != "-":
        print_answer(traces[0].text)
    if args.stats and len(traces) == 1:
        from explorer.figures.arrivals import laps

        say(", ".join(f"{label} {value}" for label, value in laps(traces[0]).in_words()))


def _drafts(traces: list[Trace]) -> list[tuple[str, ...]]:
    """What became of drafts, of an engine as it was counted here, of a server as it reported it."""
    from explorer.figures.acceptance import tree_metrics

    by_trace = [{metric.name: metric for metric in tree_metrics(trace)} for trace in traces]
    named = {metric.name: metric.label for metrics in by_trace for metric in metrics.values() if metric.name in DRAFTS}
    return [(label, *(m[name].shown if name in m else "-" for m in by_trace)) for name, label in named.items()]


def _race(traces: list[Trace]) -> None:
    """The table of a race in seconds."""
    from explorer.figures.arrivals import laps, standings

    all_laps = [laps(trace) for trace in traces]
    heads = ("run", *(label for label, _ in all_laps[0].in_words()), "text")
    print_table(
        heads,
        [(t.header.title, *(v for _, v in lap.in_words()), t.text) for t, lap in zip(traces, all_laps, strict=True)],
    )
    if drafts := _drafts(traces):
        print()
        print_table(("drafts", *(t.header.title for t in traces)), drafts)
    print()
    times, rows = standings(traces)
    print_table(
        ("tokens after", *(t.header.title for t in traces)),
        [(f"{s:.3f} s", *row) for s, row in zip(times, rows, strict=True)],
    )
    print(
        "\nSeconds of a server run from the sent request and hold its queue, its model and the network, which cannot "
        "be told apart from here; connecting is apart. Seconds of an engine here are model and method time."
    )
