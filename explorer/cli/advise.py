"""The command `advise`: will it help on my text? Lossless methods in turn with their control on prompts of one's own,
and a verdict with its interval."""

import argparse
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import engines
from explorer.cli.io import check_target, signed, write_json
from explorer.cli.loading import load, loading
from explorer.cli.options import Command, given_prompts, key_values, length_of_all, positive, with_part
from explorer.cli.progress import Pace, counted
from explorer.cli.run import INTERRUPTED, shared_params
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
