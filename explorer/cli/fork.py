"""The command `fork`: a recorded run goes on from one of its steps with a change."""

import argparse

import engines
from engines import UserError
from explorer.cli.io import (
    check_target,
    print_answer,
    read_traces,
    remark,
    say,
    write,
)
from explorer.cli.loading import load, loading
from explorer.cli.options import Command, key_values
from explorer.cli.run import budget, split_role, to_its_end
from explorer.figures.compare import answer_ids, first_difference
from explorer.forking import Word, make_edit, sentence


def add_arguments(fork: Command) -> None:
    """Declare the options."""
    fork.option("file", "FILE", "a trace as `run --json` writes it; - is standard input")
    fork.option("--step", "N", "go on after N steps; 0 is before the first one", type=int, required=True)
    fork.several("--force", "POS=TEXT", "write this token at a position; POS=#ID names it by its id")
    fork.several("--forbid", "POS=TEXT", "never write this token at a position from here on; or POS=#ID")
    fork.several("--remask", "POS", "mask a position again (masked models)", type=int)
    fork.several("--param", "NAME=VALUE", "a new value for a parameter, or a parameter of the new method")
    fork.option("--method", "M", "another method for the same kind of model takes over", default="")
    fork.several("--model", "[ROLE=]NAME", "use this model instead of the recorded one")
    fork.loading()
    fork.option("--max-steps", "N", "stop after N steps, replayed ones included", type=int)
    fork.option("--max-seconds", "S", "stop after S seconds", type=float)
    fork.option("--json", "FILE", "write the fork's trace here; - prints the trace instead of the text")
    fork.flag("--stats", "print what was changed and where the texts part on standard error")
    fork.method_files()
    fork.set_defaults(command=fork_command)


def fork_command(args: argparse.Namespace) -> int:
    """Replay to the step, change, go on: the text (or the trace) on standard output. Exit 1 where the replay was not
    the recording."""
    check_target(args.json)
    trace = read_traces([args.file])[0]
    slug = engines.forking_method(trace, args.method)
    info = engines.get_method(slug).info
    given = {role or info.role: name for role, name in (split_role(spec, [info]) for spec in args.model)}
    options = loading(args)
    models = (
        {role: load(name, options) for role, name in given.items()}
        if given
        else engines.models_of(trace.header, slug, **options)
    )
    models = engines.assign_roles(info, models)
    limits = budget(args)
    places = {option: [place(text, option) for text in getattr(args, option)] for option in ("force", "forbid")}
    edit = make_edit(models[info.role], places["force"], places["forbid"], args.remask)
    run = engines.stream_fork(
        trace,
        args.step,
        edit=edit,
        method=args.method,
        params=key_values(args.param, "--param"),
        model=models,
        **limits,
    )
    code = to_its_end(run)
    made = run.trace()
    if args.json:
        write(args.json, made.to_json())
    if args.json != "-":
        print_answer(made.text)
    if args.stats:
        origin, at = made.header.origin, first_difference(answer_ids(trace), answer_ids(made))
        assert origin
        summary = sentence(origin, {piece.id: piece.text for piece in made.pieces})
        parted = "the texts are the same" if at is None else f"the texts part at token {at}"
        say(f"fork after step {args.step}: {summary}; {parted}")
    if made.end.message:
        remark(made.end.message)
    return code or int(made.header.origin is not None and made.header.origin.diverged is not None)


def place(given: str, option: str) -> tuple[int, Word]:
    """`7= Mia` or `7=#120` as a position and a text or an id. Raises UserError."""
    position, equals, word = given.partition("=")
    if not equals or not position.strip().isdecimal() or not position.isascii() or len(position) > 9:
        raise UserError(f"--{option} {given[:60]} is not understood; write --{option} POSITION=TEXT or POSITION=#ID.")
    if word.startswith("#") and word[1:].isascii() and word[1:].isdecimal() and len(word) < 12:
        return int(position), int(word[1:])
    return int(position), word
