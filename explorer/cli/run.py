"""The commands that decode: `run` (one method, its text or its trace) and `compare` (several methods on one prompt, as
a table)."""

import argparse
import json
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import engines
from engines import MethodInfo, Trace, UserError, texts
from explorer.cli.io import (
    MAX_PROMPT_BYTES,
    check_target,
    print_answer,
    print_json,
    print_lines,
    read_bytes,
    remark,
    say,
    write,
)
from explorer.cli.loading import load, loading
from explorer.cli.options import OPTION, Command, key_values, with_length, with_part
from explorer.figures.calls import in_words, many, target_calls, target_role
from explorer.figures.compare import answer_ids, first_difference
from explorer.figures.samples import gained
from explorer.figures.strip import by_end_rule, of_end
from explorer.figures.verdict import cut_at
from explorer.fitting import first, needed, wants

INTERRUPTED = 130
HEADS = {"target_calls": "model calls"}  # where a column is not called as the field is
Models = dict[str, Any]  # name -> loaded model


def add_run(run: Command) -> None:
    """Declare the options of `run`."""
    about = "the method's slug; `decoding-explorer methods` lists them; with --method-file the one in the file"
    run.option("--method", "M", about)
    _add_shared(run)
    about = "how much a step records (default full)"
    run.option("--detail", None, about, choices=("none", "light", "full"), default="full")
    run.option("--json", "FILE", "write the trace here; - prints the trace instead of the text")
    run.flag("--stats", "print counts and times on standard error")
    run.method_files()
    run.set_defaults(command=run_command)


def add_compare(compare: Command) -> None:
    """Declare the options of `compare`."""
    compare.several("--method", "M", "a method's slug; give it once per method", required=True)
    _add_shared(compare, "[M:]", "s that have it, or of one")
    compare.flag("--json", "print the table as JSON")
    compare.option("--traces", "FOLDER", "write each trace into this folder as <method>.json")
    compare.method_files()
    compare.set_defaults(command=compare_command)


def _add_shared(parser: Command, only: str = "", whose: str = "") -> None:
    """only, whose: what more --param may name, and say, where there are several methods."""
    parser.one_of(
        ("--prompt", "TEXT", "the prompt"),
        ("--prompt-ids", "IDS", 'the prompt as token ids, for example "5 17 4"'),
        ("--prompt-file", "FILE", "a UTF-8 file that holds the prompt; - is standard input"),
    )
    parser.several("--model", "[ROLE=]NAME", "a model's name, hub id, folder or GGUF file; large=NAME sets a role")
    parser.part()
    parser.loading()
    parser.several("--option", "NAME=VALUE", "an option of the model's loader, for example mask_id=126336")
    parser.several("--param", f"{only}NAME=VALUE", f"a parameter of the method{whose}; `methods M` lists them")
    parser.length()
    parser.option("--seed", "N", "seed of all randomness (default 0)", type=int, default=0)
    parser.option("--max-steps", "N", "stop after N steps", type=int)
    parser.option("--max-seconds", "S", "stop after S seconds", type=float)


def run_command(args: argparse.Namespace) -> int:
    """Decode once: text (or the trace) on standard output, the trace in a file."""
    check_target(args.json)
    info = engines.get_method(args.method or only_own(args.method_file)).info
    prompt = read_prompt(args)
    params = with_length(key_values(args.param, "--param"), args, [info])
    roles = pick_models([info], args)[info.slug]
    trace, code = decode(info, roles, prompt, args, params, args.detail)
    if args.json:
        write(args.json, trace.to_json())
    if args.json != "-":
        print_answer(trace.text)
    if args.stats:
        t = trace.totals
        stats = (
            f"{many(t.tokens, 'token')} in {in_words(trace.steps, target_role(trace))}, {t.model_seconds:.3f} s model, "
            f"{t.method_seconds:.3f} s method"
        )
        if (cut := cut_at(trace)) is not None:
            stats += f"; cut at {cut} tokens: raise {OPTION}"
        say(stats)
    if trace.end.reason == "budget":
        remark(trace.end.message)
    return code


def compare_command(args: argparse.Namespace) -> int:
    """Decode the same prompt with each method and print one line for each."""
    infos = [engines.get_method(slug).info for slug in args.method]
    if len({info.slug for info in infos}) != len(infos):
        raise UserError("a method is given twice; each --method must differ.")
    if args.traces and not Path(args.traces).is_dir():
        raise UserError(f"there is no folder '{args.traces}'; make it first.")
    prompt = read_prompt(args)
    params = shared_params(infos, with_length(key_values(args.param, "--param"), args, infos))
    roles = pick_models(infos, args)
    traces = []
    for info in infos:
        trace, code = decode(info, roles[info.slug], prompt, args, params[info.slug], "light")
        if code:
            return code
        traces.append(trace)
        if args.traces:
            write(str(Path(args.traces) / f"{info.slug}.json"), trace.to_json())
    rows = [row(trace, traces[0]) for trace in traces]
    if args.json:
        saved = [by_end_rule(trace, traces[0]) for trace in traces]
        print_json(
            [record | {"saved_by_end_rule": past[0] if past else 0} for record, past in zip(rows, saved, strict=True)]
        )
    else:
        print_lines([{HEADS.get(head, head.replace("_", " ")): value for head, value in row.items()} for row in rows])
        for trace in traces:
            if remark := of_end(trace, traces[0]):
                print(f"{trace.header.title}: {in_words(trace.steps, target_role(trace))}{remark}")
    return 0


def budget(args: argparse.Namespace) -> dict[str, Any]:
    """--max-steps and --max-seconds, as far as they were given. Raises UserError."""
    limits = {name: value for name in ("max_steps", "max_seconds") if (value := getattr(args, name)) is not None}
    for name, value in limits.items():
        if not value > 0:
            raise UserError(f"--{name.replace('_', '-')} {value:g} is not allowed; give a number above 0.")
    return limits


def decode(
    info: MethodInfo,
    roles: Models,
    prompt: str | list[int],
    args: argparse.Namespace,
    params: Mapping[str, str],
    detail: Any,
) -> tuple[Trace, int]:
    """The trace and the exit status."""
    run = engines.stream(info.slug, roles, prompt, params=params, seed=args.seed, detail=detail, **budget(args))
    code = to_its_end(run)
    return run.trace(), code


def to_its_end(run: Any) -> int:
    """Take all steps of a run; the exit status. Ctrl-C closes it and keeps what was decoded so far."""
    try:
        for _ in run:
            pass
    except KeyboardInterrupt:
        run.close()
        return INTERRUPTED
    return 0


def row(trace: Trace, first: Trace) -> dict[str, Any]:
    """One line of the comparison: counts, measured seconds, and where the output leaves that of the first method."""
    t, calls = trace.totals, sum(target_calls(step, target_role(trace)) for step in trace.steps)
    at = first_difference(answer_ids(first), answer_ids(trace))
    parted = "same" if at is None else f"token {at}"
    if first.header.prompt_ids != trace.header.prompt_ids:
        parted = "other tokens"
    return {
        "method": trace.header.method,
        "model": "+".join(m.name for m in trace.header.models),
        "steps": len(trace.steps),
        "target_calls": calls,
        "other_calls": t.forwards - calls,
        "work": sum(t.work_by_role.values()),
        "tokens_fed": t.tokens_fed,
        "tokens": t.tokens,
        "tokens_per_call": gained(trace) / calls if calls else None,
        "seconds": t.model_seconds + t.method_seconds,
        "first_difference": parted,
        "text": trace.text,
    }


def only_own(files: Sequence[str]) -> str:
    """The slug of the one method that these files of --method-file brought; those of an extra folder are there anyway.
    Raises UserError where there is none or a choice."""
    here = {Path(name).expanduser().resolve() for name in files}
    own = [
        info.slug
        for info in engines.list_methods()
        if info.file and (Path(info.file) in here or Path(info.file) in {folder / "__init__.py" for folder in here})
    ]
    if len(own) != 1:
        raise UserError(
            "no method is chosen; give --method with "
            f"{'one of ' + ', '.join(own) if own else 'a slug of `decoding-explorer methods`'}."
        )
    return own[0]


def read_prompt(args: argparse.Namespace) -> str | list[int]:
    """Text, or ids. Raises UserError for an empty or unreadable one."""
    if args.prompt_ids is not None:
        words = args.prompt_ids.replace(",", " ").split()
        if bad := [word for word in words if not re.fullmatch(r"[0-9]{1,9}", word)]:
            raise UserError(
                f"--prompt-ids holds '{bad[0][:40]}', which is not a token id; give whole numbers separated by spaces."
            )
        return [int(word) for word in words]
    given = args.prompt is not None
    if given:
        data = args.prompt.encode("utf-8", "surrogateescape")
    else:
        data = read_bytes(args.prompt_file, MAX_PROMPT_BYTES)
        if len(data) > MAX_PROMPT_BYTES:
            raise UserError(
                f"'{args.prompt_file}' has more than {MAX_PROMPT_BYTES:,} bytes, which is too long for a prompt."
            )
    try:
        return data.decode("utf-8") if given else texts.decoded(data).removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        encoding = error.encoding.upper()
        raise UserError(f"the prompt is not {encoding} text (byte {error.start}); save it as UTF-8.") from None


def shared_params(infos: Sequence[MethodInfo], given: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Each method's share: `name=value` goes to every method that declares it, `method:name=value` to that one. Raises
    UserError."""
    shares: dict[str, dict[str, str]] = {info.slug: {} for info in infos}
    declared = {info.slug: {p.name for p in info.params} for info in infos}
    for key, value in given.items():
        only, _, name = key.rpartition(":")
        takers = [i for i in infos if name in declared[i.slug] and only in ("", i.slug)]
        if not takers:
            known = sorted({p.name for i in infos for p in i.params})
            raise UserError(f"none of these methods has the parameter '{key[:60]}'; they have {', '.join(known)}.")
        for info in takers:
            shares[info.slug][name] = value
    return shares


def pick_models(infos: Sequence[MethodInfo], args: argparse.Namespace) -> dict[str, Models]:
    """Loaded models by role for each method: a named role where it has one, else the first given model of the kind that
    it needs, and without any the default one."""
    wanted = [split_role(spec, infos) for spec in args.model]
    options: dict[str, Any] = {name: option_value(text) for name, text in key_values(args.option, "--option").items()}
    options |= loading(args)
    loaded = {name: load(name, options) for name in dict.fromkeys(name for _, name in wanted)}
    chosen, beside = dict[str, Models](), dict[int, Any]()
    for info in infos:
        roles: Models = {role: loaded[name] for role, name in wanted if role in info.needs}
        if info.role not in roles:
            free = [name for role, name in wanted if not role]
            fitting = [name for name in free if loaded[name].record.kind == info.kind]
            roles[info.role] = (
                loaded[(fitting or free)[0]]
                if free
                else engines.load_model(default_model(info, infos, bool(args.part), roles), **options)
            )
        main = roles[info.role]
        if args.part and id(main) not in beside and "layered" in engines.kinds_of(main):
            beside[id(main)] = with_part(main, args, infos)
        roles[info.role] = beside.get(id(main), main)
        chosen[info.slug] = roles
    if args.part and not beside:
        raise UserError("--part gives a drafter, which needs a Llama- or Qwen-like target; none of the models is one.")
    return chosen


def split_role(given: str, infos: Sequence[MethodInfo]) -> tuple[str, str]:
    """`role=name` in two, or ('', name). Raises UserError for a role that none of the methods has."""
    role, equals, name = given.partition("=")
    if not equals or Path(given).exists():
        return "", given
    roles = sorted({r for info in infos for r in info.needs})
    if role not in roles or not name:
        raise UserError(
            f"--model {given[:60]} names no known role; write --model NAME, or ROLE=NAME with a role of "
            f"{', '.join(roles)}."
        )
    return role, name


def default_model(info: MethodInfo, infos: Sequence[MethodInfo], drafted: bool, given: Collection[str]) -> str:
    """The model of a method where none is named: of those that ship the first that fits all of these methods that can
    share one, so that they are compared on it, else the first that fits this one. drafted, given: as `fits` takes them.
    Raises UserError where none fits, or its weights are not here."""
    listed = engines.list_models()
    shipped = [model for model in listed if model.where == "embedded"]
    choice = first([other_info for other_info in infos if other_info.kind == info.kind], shipped, drafted, given)
    choice = choice or first([info], listed, drafted, given)
    if choice and choice.where != "download":
        return str(choice.name)
    beside = [role for role in wants(info) if role in info.needs and role not in given]
    others = f", and --model ROLE=NAME for {' and '.join(beside)}" if beside else ""
    what_to_do = (
        f"which no model that ships is or has; give --model {choice.name}, whose weights are fetched once"
        if choice
        else f"which no listed model is or has; give --model NAME{others}"
    )
    raise UserError(f"'{info.slug}' needs a {needed(info, given)}, {what_to_do}.")


def option_value(text: str) -> Any:
    """A loader option as JSON would read it (a number, true, false), else as text."""
    try:
        return json.loads(text)
    except ValueError:
        return text
