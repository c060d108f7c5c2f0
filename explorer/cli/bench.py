"""The commands that measure: `bench` (methods against their control, as ratios, or what a token costs as an answer
grows) and `certify` (whether lossless methods keep their word)."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import engines
from engines import MethodInfo, Trace, UserError
from explorer.bench import stopped_early
from explorer.cli.io import check_target, print_lines, remark, signed, write_json
from explorer.cli.loading import load, loading
from explorer.cli.options import LENGTH, OPTION, Command, key_values, length_of_all, positive, with_part
from explorer.cli.progress import Pace, Progress, progress_of
from explorer.cli.run import INTERRUPTED, shared_params
from explorer.figures import compare
from explorer.figures.bits import rows_note
from explorer.figures.calls import many
from explorer.fitting import runs_on
from explorer.words import printable

if TYPE_CHECKING:
    from explorer.bench.certified import Kept

TOKENS = 64


def add_bench(bench: Command) -> None:
    """Declare the options of `bench`."""
    _add_shared(bench)
    bench.option("--repeats", "N", "alternating runs per prompt (default 3)", type=positive, default=3)
    bench.flag("--by-class", "lossless methods by class of prompt: speed over the control, and what n rows cost here")
    about = "prompts that end at a dot in files of the standard library: how many names exist (--prompts 100)"
    bench.flag("--names", about)
    bench.flag("--length", "what a token costs as an answer of --max-new-tokens grows, beside transformers' generate")
    bench.method_files()
    bench.set_defaults(command=bench_command)


def add_certify(certify: Command) -> None:
    """Declare the options of `certify`."""
    _add_shared(certify)
    certify.flag("--no-server", "of a GGUF file: without llama.cpp's own server beside it")
    certify.method_files()
    certify.set_defaults(command=certify_command)


def _add_shared(parser: Command) -> None:
    parser.several("--method", "M", "repeatable; default: all methods that fit the model")
    parser.option("--model", "NAME", "the model that all of them run on", required=True)
    parser.part()
    parser.loading()
    about = "a parameter of the methods that have it, or of one, for example rsd:variant=C"
    parser.several("--param", "[M:]NAME=VALUE", about)
    parser.length(TOKENS)
    about = "bundled prompts to use; with --by-class of every class (default 6)"
    parser.option("--prompts", "N", about, type=positive, default=6)
    parser.json()


def bench_command(args: argparse.Namespace) -> int:
    """Measure and print one line per method."""
    from explorer.bench import measure

    check_target(args.json)
    length = length_of_all(args, TOKENS)
    if args.names and args.max_new_tokens:
        raise UserError(f"--names reads each answer to the end of one name; leave {OPTION} out.")
    model = with_part(load(args.model, loading(args)), args, asked(args))
    if args.by_class:
        return _by_class(args, model, length)
    if args.names:
        return _names(args, model)
    if args.length:
        return growing(args, model, length)
    infos = asked(args) or [info for info in engines.list_methods() if runs_on(info, model)]
    plans = measure.plan([info.slug for info in infos], model, own_params(args, infos))
    texts = measure.prompts_for(model.record.name, args.prompts)
    parts = [(measure.label(info.slug, own), len(texts)) for info, own, _ in plans]
    figures = list[measure.Figure]()
    what = "methods and points of the sweep" if plans[-1][-1] else "methods"
    with progress_of(parts, what) as progress:
        coming = measure.measured(plans, model, texts, repeats=args.repeats, max_new_tokens=length, progress=progress)
        with stopped_early(figures) as interrupts:
            for figure in coming:
                figures.append(figure)
    partial = bool(interrupts)
    only = _only(partial, len(figures), len(plans), what)
    if args.json:
        write_json(args.json, {"model": model.record, "figures": figures, "partial": partial})
    else:
        print(f"{_on(model)}; medians over {args.prompts} prompts of {args.repeats} alternating runs{only}")
        print(measure.table(figures))
    return INTERRUPTED if partial else 0


def _by_class(args: argparse.Namespace, model: Any, length: int) -> int:
    from explorer.bench import classes

    prompts = {group: texts[: args.prompts] for group, texts in classes.class_prompts().items()}
    parts = [(group, len(texts)) for group, texts in prompts.items()]
    with progress_of(parts, "classes") as progress:
        bench = classes.bench_classes(
            _lossless(args, model),
            model,
            prompts,
            repeats=args.repeats,
            max_new_tokens=length,
            progress=progress,
        )
    measured = sum(score.prompts for score in bench.scores if score.label == bench.labels()[0])
    only = _only(bench.partial, measured, sum(map(len, prompts.values())), "prompts")
    write_json(args.json, signed(bench, args))
    costs = ", ".join(f"{n}: {1000 * seconds:.1f}" for n, seconds in bench.row_seconds.items())
    theirs = f"{bench.control}'s{' on the plain network' if model.record.slower is not None else ''}"
    print(f"{_on(model)}; tokens per second over {theirs}, medians{only}")
    if note := rows_note(model.record):
        print(note)
    print(f"milliseconds of a forward by rows: {costs}")
    print_lines(classes.rows(bench))
    print(classes.LEGEND)
    return INTERRUPTED if bench.partial else 0


def _names(args: argparse.Namespace, model: Any) -> int:
    """Those that record what an analyser lists, or the methods that are named, behind their controls."""
    from engines.tasks import dereferences
    from explorer.bench import names

    known = [info for info in engines.list_methods() if "completions" in info.records and runs_on(info, model)]
    slugs = args.method or [slug for info in known for slug in (info.baseline, info.slug) if slug]
    infos = [engines.get_method(slug).info for slug in dict.fromkeys(slugs)]
    plans = list(own_params(args, infos).items())
    prompts = dereferences(args.prompts, names.SEED)
    with progress_of([(slug, len(prompts.prompts)) for slug, _ in plans], "methods") as progress:
        bench = names.bench_names(plans, model, prompts, progress=progress)
    only = _only(bench.partial, len(bench.lanes), len(plans), "methods")
    write_json(args.json, signed(bench, args))
    print(
        f"{model.record.name}, {model.record.dtype}, Python {bench.python}; the analyser was asked about {bench.asked} "
        f"places to find these, and lacked the author's name at {bench.wrong} of those it knew{only}"
    )
    print_lines(names.rows(bench))
    return INTERRUPTED if bench.partial else 0


def _on(model: Any) -> str:
    return f"{model.record.name}, {model.record.dtype}, {many(model.record.threads, 'thread')}"


def _only(partial: bool, finished: int, planned: int, what: str) -> str:
    """Say on standard error what a measurement that was stopped has; returns the same for its heading."""
    if not partial:
        return ""
    only = f"partial: {finished} of {planned} {what}"
    remark(f"stopped; what was finished is kept, {only}.")
    return f"; {only}"


def asked(args: argparse.Namespace) -> list[MethodInfo] | None:
    """The methods that were named; None where it is all that fit. Raises UserError for one that is not known."""
    return [engines.get_method(slug).info for slug in args.method] if args.method else None


def own_params(args: argparse.Namespace, infos: Sequence[MethodInfo]) -> dict[str, dict[str, str]]:
    """What --param gives each of these methods, without the length, which all of them share. Raises UserError."""
    shares = shared_params(infos, key_values(args.param, "--param"))
    return {slug: {name: value for name, value in own.items() if name != LENGTH} for slug, own in shares.items()}


def _lossless(args: argparse.Namespace, model: Any) -> list[tuple[str, dict[str, str]]]:
    """The lossless methods asked for with their parameters, or all that the model and its companions can run. Raises
    UserError."""
    infos = asked(args) or [
        info for info in engines.list_methods() if info.lossless and info.baseline and runs_on(info, model)
    ]
    params = own_params(args, infos)
    for info in infos:
        if not info.keeps(params[info.slug]):
            advice = f"give it {info.condition} by --param" if info.lossless_with else "choose a lossless method"
            raise UserError(
                f"'{info.slug}' does not claim its control's text with these parameters, so there is nothing to "
                f"certify; {advice}."
            )
        if not info.baseline:
            raise UserError(f"'{info.slug}' is a control itself and has none; choose a method that claims its text.")
    return list(params.items())


def certify_command(args: argparse.Namespace) -> int:
    """Hold every lossless method against its control, prompt by prompt, and the control against the network's own
    forward, since both runs read the model through one cache. Exit status 1 where a text differs."""
    from explorer.bench import certified
    from explorer.bench.measure import prompts_for

    check_target(args.json)
    length = length_of_all(args, TOKENS)
    model = with_part(load(args.model, loading(args)), args, asked(args))
    if (note := rows_note(model.record)) and args.json != "-":
        print(printable(note))
    plans, held = _lossless(args, model), _Held(length)
    for slug, params in plans:
        if float(params.get("temperature", 0)):
            raise UserError(f"above temperature 0 '{slug}' draws its text, so there is none to certify; leave it at 0.")
    texts = prompts_for(model.record.name, args.prompts)
    parts = [(slug, len(texts)) for slug, _ in plans]
    with progress_of(parts, "methods", args.json == "-") as progress, stopped_early(held.kept) as interrupts:
        _hold(args, model, plans, texts, held, progress)
    partial = bool(interrupts)
    _only(partial, len(held.kept), len(plans), "methods")
    if args.json:
        header = next(trace.header for traces in held.controls.values() for trace in traces.values())
        record = certified.Certified(
            model=model.record,
            machine=header.machine,
            versions=header.versions,
            max_new_tokens=length,
            kept=held.kept,
            network=held.network,
            server=held.server,
            partial=partial,
        )
        write_json(args.json, signed(record, args))
    differs = any(kept.same < kept.prompts for kept in (*held.kept, *held.network))
    return INTERRUPTED if partial else int(differs)


@dataclass
class _Held:
    """What `certify` found by now of answers of so many tokens. controls: by control and prompt its run."""

    length: int
    kept: list[Kept] = field(default_factory=list)
    network: list[Kept] = field(default_factory=list)
    server: list[Kept] = field(default_factory=list)
    controls: dict[str, dict[str, Trace]] = field(default_factory=dict)


def _hold(
    args: argparse.Namespace,
    model: Any,
    plans: Sequence[tuple[str, dict[str, Any]]],
    texts: Sequence[str],
    held: _Held,
    progress: Progress,
) -> None:
    """Fill `held`, a method at a time: first the methods, then their controls."""
    from explorer.bench import certified, measure

    asked = ((slug, {**params, LENGTH: held.length}) for slug, params in plans)
    measure.refuse_bad(asked, model, texts[0])
    progress(0, len(plans) * len(texts))
    for i, (slug, params) in enumerate(plans):
        baseline, certificates = str(engines.get_method(slug).info.baseline), list[compare.Certificate]()
        for n, prompt in enumerate(texts, 1):
            ours, control = (
                engines.run(method, model, prompt, params={**given, LENGTH: held.length}, detail="light")
                for method, given in ((slug, params), (baseline, {}))
            )
            held.controls.setdefault(baseline, {}).setdefault(prompt, control)
            certificates.append(compare.certificate(ours, control, compare.near_tie(model, ours, control)))
            _certified(args, f"{slug}: {prompt[:50]!r}", certificates[-1])
            if n == len(texts):  # before it is progress_of, so that what is told as finished is kept
                held.kept.append(certified.kept(slug, params, certificates))
            progress(i * len(texts) + n, len(plans) * len(texts))
    plain = {slug: traces for slug, traces in held.controls.items() if engines.get_method(slug).info.lossless}
    for slug, traces in plain.items():  # of the others the text is not the model's own
        own = {prompt: compare.network_certificate(model, control) for prompt, control in traces.items()}
        for prompt, certificate in own.items():
            if certificate:
                _certified(args, f"{slug} against the network without a cache: {prompt[:50]!r}", certificate)
        held.network.append(certified.kept(slug, {}, [certificate for certificate in own.values() if certificate]))
    held.server.extend(_by_server(args, model, plain))


def _by_server(args: argparse.Namespace, model: Any, controls: Mapping[str, Mapping[str, Trace]]) -> list[Kept]:
    """Each control on a GGUF file against llama.cpp's own server, which is told and no failure: its attention rounds in
    another way."""
    from explorer.bench import certified, llama_server

    header = getattr(model, "header", None)
    if header is None or args.no_server:
        return []
    if not llama_server.available():
        if args.json != "-":
            print("llama.cpp's own server was not asked: `pip install xllamacpp` brings it.")
        return []
    positions = max(len(t.header.prompt_ids) + len(t.output_ids) for ts in controls.values() for t in ts.values())
    kept = list[certified.Kept]()
    with llama_server.serving(header.path, positions + 8, model.record.threads) as ask:
        for slug, traces in controls.items():
            certificates = list[compare.Certificate]()
            for prompt, control in traces.items():
                certificates.append(llama_server.held_against(ask, model, control))
                _certified(args, f"{slug} against llama.cpp's own server: {prompt[:50]!r}", certificates[-1])
            kept.append(certified.kept(slug, {}, certificates))
    return kept


def _certified(args: argparse.Namespace, what: str, certificate: compare.Certificate) -> None:
    if args.json != "-":
        print(f"{what}: {printable(certificate.sentence)}", flush=True)


def growing(args: argparse.Namespace, model: Any, tokens: int) -> int:
    """Measure and print a line for each stretch of each loop, in answers of so many tokens. Raises UserError for
    methods that are not named, and for those that draft with a model of their own."""
    from explorer.bench import length, measure

    if not args.method:
        raise UserError("--length runs each method to its full length twice; name them by --method, such as greedy.")
    if args.param:
        raise UserError("--length measures methods at their defaults; leave --param out.")
    slugs = list(dict.fromkeys(args.method))
    if more := [slug for slug in slugs if len(engines.get_method(slug).info.needs) > 1]:
        raise UserError(f"--length takes methods of one model, and '{more[0]}' needs several; leave it out.")
    asked = [(slug, {LENGTH: tokens}) for slug in slugs]
    prompt = measure.prompts_for(model.record.name, 1)[0]
    measure.refuse_bad(asked, model, prompt)
    lengths = length.measured(slugs, model, prompt, tokens, Pace("tokens"))
    if lengths.partial:
        remark("stopped; the stretches that all loops had finished are kept.")
    write_json(args.json, signed(lengths, args))
    if args.json != "-":
        about = f"{lengths.prompt_tokens} tokens of prompt, medians of turns of {lengths.chunk} tokens"
        print(f"{_on(model)}; {about}")
        print_lines(length.rows(lengths))
        print(length.LEGEND)
    return INTERRUPTED if lengths.partial else 0
