"""`--part head=ID_OR_FOLDER`: a published drafter for the methods that can draft with it."""

import argparse
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import engines
from engines import MethodInfo, UserError
from explorer.cli.io import several
from explorer.words import printable

ROLE = "head"  # of the drafter, in any method
ALL = 12  # methods that are not named one by one


def add_part(parser: argparse.ArgumentParser) -> None:
    """Declare --part and --force."""
    formats = "EAGLE, EAGLE-3, P-EAGLE, Medusa, Hydra, MTP or DFlash checkpoints as they are"
    several(parser, "--part", "head=ID", f"a published drafter of the target, a hub id or a folder: {formats}")
    parser.add_argument(
        "--force", action="store_true", help="take a drafter although it names another target; the output says so"
    )


def with_part(
    model: Any, args: argparse.Namespace, infos: Iterable[MethodInfo] | None = None, *, any_format: bool = False
) -> Any:
    """The loaded model with the drafter of --part beside it, or as it is. What a person should know of the drafter goes
    to standard error. infos: the methods that were asked for, of which one has to take it; any_format: none has to.
    Raises UserError."""
    given = named(args.part)
    if given is None:
        return model
    drafter = engines.load_drafter(given, model, force=args.force)
    if not any_format:
        _check_taken(drafter, list(engines.list_methods() if infos is None else infos))
    for note in drafter.notes:
        print(f"decoding-explorer: {printable(note)}", file=sys.stderr)
    return engines.with_drafter(model, drafter)


def named(parts: Sequence[str]) -> str | None:
    """The one hub id or folder that --part names. Raises UserError for several, and for a role that no drafter has."""
    if len(parts) > 1:
        raise UserError(f"--part was given {len(parts)} times; a run drafts with one drafter, so give it once.")
    if not parts:
        return None
    role, equals, name = parts[0].partition("=")
    if not equals or role != ROLE or not name:
        raise UserError(f"--part {parts[0][:80]} names no part; write --part {ROLE}=ID_OR_FOLDER.")
    return name


def _check_taken(drafter: Any, infos: list[MethodInfo]) -> None:
    """Raises UserError where none of these methods can draft with a drafter."""

    def takes(info: MethodInfo) -> bool:
        return any(drafter.format in formats for formats in info.drafters.values())

    if any(map(takes, infos)):
        return
    able = ", ".join(info.slug for info in engines.list_methods() if takes(info))
    asked = ", ".join(info.slug for info in infos) if len(infos) < ALL else "the methods here"
    raise UserError(
        f"'{drafter.name}' is a drafter of the format {drafter.format}, and {asked} cannot draft with it; choose "
        f"{able}."
    )
