"""The commands that measure prompts of one's own: `advise` (will it help on my text? lossless methods in turn with
their control, and a verdict with its interval) and `diagnose` (why is a published drafter slow?)."""

import argparse
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

import engines
from engines import UserError, texts
from explorer.cli.io import MAX_FILE_BYTES, check_target, read_bytes, read_trace_file, signed, write, write_json
from explorer.cli.loading import load, loading
from explorer.cli.options import Command, given_prompts, key_values, length_of_all, positive, with_part
from explorer.cli.progress import Pace, counted
from explorer.cli.run import INTERRUPTED, shared_params
from explorer.figures import diagnosed
from explorer.words import printable


def add_arguments(parser: Command) -> None:
    """Declare the options."""
    from explorer.bench import advise

    parser.option("--model", "NAME", "the model that all of them run on", required=True)
    parser.prompts()
    usual = "two that need the model alone, one with a draft or part"
    parser.several("--method", "M", f"a lossless method's slug; repeatable (default: {usual})")
    parser.several("--param", "[M:]NAME=VALUE", "a parameter of the methods that have it, or of one")
    parser.part()
    parser.loading()
    parser.length(advise.NEW_TOKENS)
    parser.option("--repeats", "N", "runs of each prompt (default 6; from six prompts on 3)", type=positive)
    usual = f"default {advise.SECONDS:g} a prompt"
    parser.option("--seconds", "S", f"begin no run after S seconds ({usual})", type=float)
    parser.json()
    parser.method_files()
    parser.set_defaults(command=advise_command)


def advise_command(args: argparse.Namespace) -> int:
    """Measure and print a verdict per method; Ctrl-C judges what was measured so far, a second one ends at once."""
    from explorer.bench import advise, chosen
    from explorer.figures.advice import Advice

    check_target(args.json)
    prompts, length = given_prompts(args), length_of_all(args, advise.NEW_TOKENS)
    asked = [engines.get_method(slug).info for slug in args.method] or engines.list_methods()
    model = with_part(load(args.model, loading(args)), args, asked)
    infos = chosen.named(args.method, model) if args.method else chosen.chosen(model)
    with _interrupts() as stopped, _bar() as progress:
        advice: Advice = advise.advise(
            model,
            prompts,
            args.method,
            params=shared_params(infos, key_values(args.param, "--param")),
            max_new_tokens=length,
            repeats=args.repeats,
            seconds=args.seconds if args.seconds is not None else advise.SECONDS * len(prompts),
            progress=progress,
            stopped=stopped,
        )
    write_json(args.json, signed(advice, args))
    if args.json != "-":
        for line in lines(advice):
            print(printable(line))
    return INTERRUPTED if advice.ended == "stopped" else 0


def lines(advice: Any) -> Iterator[str]:
    """The advice as lines of text."""
    yield advice.sentence
    yield advice.conditions
    if advice.chosen:
        yield advice.chosen
    for method in advice.methods:
        unit = method.unit if method.values == 1 else f"{method.unit}s"
        left = f", {method.left_out} disturbed left out" if method.left_out else ""
        yield ""
        of = "measured in" if method.low is None else f"{100 * method.level:.3g} % over"
        yield f"{method.label}: {method.verdict} ({of} {method.values} {unit}{left})"
        for sentence in (method.text, method.why, method.takes):
            if sentence:
                yield f"  {sentence}"
    if advice.ended != "complete":
        yield ""
        yield f"{'Stopped' if advice.ended == 'stopped' else 'Its time was over'} after {advice.seconds:.0f} s."


@contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """Ctrl-C is a request to stop, which is asked for before each step; a second one ends as usual."""
    asked: list[int] = []

    def ask(number: int, frame: object) -> None:
        asked.append(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield lambda: bool(asked)
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _bar() -> Iterator[Callable[[Any], object]]:
    """A bar of runs on standard error; lines where that is no terminal."""
    if not sys.stderr.isatty():
        pace = Pace("runs")
        yield lambda now: pace(now.title, now.done, now.total)
        return
    with counted(unit="run", mininterval=1, file=sys.stderr) as show:
        yield lambda now: show(now.done, now.total, now.title)


TOKENS = 64


def add_diagnose(parser: Command) -> None:
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
