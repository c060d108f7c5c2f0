"""The command `diagnose`: why is a published drafter slow on my prompts?"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import msgspec

import engines
from engines import UserError
from explorer.cli.drafters import add_part, with_part
from explorer.cli.io import check_target, positive, print_json, signed, write
from explorer.cli.prompts import add_prompts, given_prompts
from explorer.words import printable

TOKENS = 64


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--model", required=True, metavar="NAME", help="the target: a name, hub id or folder")
    add_part(parser)
    add_prompts(parser)
    parser.add_argument("--dtype", metavar="D", help="float32, bfloat16 ... (default: the model's own)")
    parser.add_argument("--device", metavar="D", help="where both run: cpu (default), cuda, cuda:1 ...")
    parser.add_argument(
        "--max-new-tokens",
        type=positive,
        default=TOKENS,
        metavar="N",
        help=f"tokens that the target writes behind each prompt, and that are looked at (default {TOKENS})",
    )
    parser.add_argument("--depth", type=positive, metavar="K", help="depth of the drafts (default: the drafter's own)")
    parser.add_argument("--json", nargs="?", const="-", metavar="FILE", help="print JSON, or write it here")
    parser.set_defaults(command=diagnose_command)


def diagnose_command(args: argparse.Namespace) -> int:
    """Look at every place of what the target writes, and print what was found."""
    check_target(args.json)
    prompts = given_prompts(args)
    if not args.part:
        raise UserError("no drafter is given; write --part head=ID_OR_FOLDER.")
    options = {name: value for name in ("dtype", "device") if (value := getattr(args, name)) is not None}
    model = with_part(engines.load_model(args.model, **options), args, any_format=True)
    found = engines.diagnose(model, model.drafter, prompts, k=args.depth or 0, tokens=args.max_new_tokens)
    if args.json:
        record = signed(found, args)
        if args.json == "-":
            print_json(record)
        else:
            write(args.json, msgspec.json.format(msgspec.json.encode(record), indent=1).decode())
    if args.json != "-":
        for line in lines(found):
            print(printable(line))
    return 0


def lines(found: Any) -> Iterator[str]:
    """A diagnosis as lines of text."""
    yield (
        f"{found.drafter} ({found.format}) on {found.target}: {found.accepted:.2f} of {found.k} drafted tokens "
        f"accepted, if a draft began at each of {found.tokens} written tokens ({found.prompts} prompts)."
    )
    yield ""
    yield from table(
        ("depth", "accepted", "of those reached", "target's token first", "2nd", "3rd", "4-10", "later", "not drafted"),
        [
            (one.depth, share(one.accepted, one.reached), one.reached, *(share(n, one.places) for n in one.ranks))
            for one in found.depths
        ],
    )
    yield ""
    yield from _misses(found)
    for one in found.partings[:3]:
        yield f"Prompt {one.prompt + 1}, behind “{one.before}”:"
        yield f"  target: {candidates(one.target)}"
        yield f"  draft:  {candidates(one.draft)}"
    yield ""
    yield from _slips(found)


def _misses(found: Any) -> Iterator[str]:
    for row in found.misses:
        if row.missed:
            examples = ", ".join(f"“{drafted}” for “{wanted}”" for wanted, drafted in row.examples)
            yield f"{row.kind}: {row.missed} of {row.places} missed ({examples})"


def _slips(found: Any) -> Iterator[str]:
    """Which slips help when they are turned."""
    names = list(dict.fromkeys(one.name for one in found.tried))
    for one in found.slips:
        yield (
            f"Turning {one.name} helps: {one.gain:+.2f} nats for the target's token ({one.low:+.2f} to "
            f"{one.high:+.2f}), {one.accepted:.2f} accepted instead of {one.before:.2f}. {one.wrong}"
        )
    if len(found.slips) > 1:
        yield "Mend the first and look again: the others may be its traces."
    if not found.slips:
        yield f"No known slip: none of {', '.join(names)} helps when it is turned."
    if same := list(dict.fromkeys(one.name for one in found.tried if one.state == "same")):
        yield f"Not told apart, since no logit changes: {', '.join(same)}."


def share(n: int, of: int) -> str:
    """A share in percent, and of how many."""
    return f"{100 * n / of:.0f} %" if of else "-"


def candidates(some: Any) -> str:
    """Tokens with their probabilities."""
    return ", ".join(f"“{one.text}” {one.probability:.3g}" for one in some[:3])


def table(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> Iterator[str]:
    """A table in columns."""
    told = [head, *([str(value) for value in row] for row in rows)]
    widths = [max(len(row[i]) for row in told) for i in range(len(head))]
    for row in told:
        yield "  ".join(value.rjust(width) for value, width in zip(row, widths, strict=True))
