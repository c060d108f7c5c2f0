"""`--max-new-tokens N`, spelt alike in every command that decodes: the length of an answer, which methods call
`max_new_tokens`."""

import argparse
from collections.abc import Mapping, Sequence

from engines import MethodInfo, UserError
from explorer.cli.io import key_values, positive

LENGTH = "max_new_tokens"
OPTION = "--max-new-tokens"


def add_length(parser: argparse.ArgumentParser, usual: object = "the method's own") -> None:
    """Declare the option, None where it is not given. usual: the length then."""
    parser.add_argument(
        OPTION, type=positive, metavar="N", help=f"how many tokens an answer may have (default {usual})"
    )


def with_length(given: Mapping[str, str], args: argparse.Namespace, infos: Sequence[MethodInfo]) -> dict[str, str]:
    """What --param gives, with --max-new-tokens as one more. Raises UserError where the two contradict each other, and
    where none of the methods has the parameter."""
    asked: int | None = args.max_new_tokens
    if asked is None:
        return dict(given)
    if other := _another(given, asked):
        raise UserError(f"--param {other} and {OPTION} {asked} are two lengths; leave one of them out.")
    known = sorted({p.name for info in infos for p in info.params})
    if LENGTH not in known:
        whose = " and ".join(info.slug for info in infos)
        raise UserError(
            f"{OPTION} sets the parameter {LENGTH}, which {whose} has not; what it has is {', '.join(known) or 'none'}."
        )
    return {LENGTH: str(asked), **given}


def length_of_all(args: argparse.Namespace, usual: int) -> int:
    """The one length of the answers of several methods and their controls: the given one, or the usual. Raises
    UserError where --param gives another one to a method."""
    given = key_values(args.param, "--param")
    length: int = args.max_new_tokens or _number(given.get(LENGTH, "")) or usual
    if other := _another(given, length):
        raise UserError(
            f"--param {other} is another length than the {length} tokens that all answers here may have, those of the "
            f"control too; give all of them one by {OPTION} N."
        )
    return length


def _another(given: Mapping[str, str], length: int) -> str:
    """The first of these parameters that says another length, as it was given, or nothing."""
    lengths = {key: value for key, value in given.items() if key.rpartition(":")[2] == LENGTH}
    return next((f"{key}={value}"[:80] for key, value in lengths.items() if _number(value) != length), "")


def _number(text: str) -> int | None:
    """A whole number as parameters read it: 16, 16.0 or 1.6e1."""
    try:
        number = float(text)
    except ValueError:
        return None
    return int(number) if number.is_integer() else None
