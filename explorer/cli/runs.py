"""The command `runs`: the kept runs of the page ("My runs") on the command line, with `--keep` of a trace that came
from elsewhere."""

import argparse
import time

from engines import UserError
from explorer.cli.io import check_target, print_json, print_table, read_traces, write
from explorer.cli.options import Command
from explorer.figures.calls import many
from explorer.runs.cards import Kept
from explorer.runs.journal import recover
from explorer.runs.store import ID, MAX_LABEL, MEGABYTE, RunStore
from explorer.words import printable

SHOWN = 48  # characters of a prompt in the list
ENDINGS = {"complete": "", "budget": "budget used up"}
CHANGED = {
    "pin": "is pinned: it is never cleaned up",
    "unpin": "is not pinned any more",
    "delete": "is deleted; `decoding-explorer runs restore` with its id brings it back for an hour",
}


def add_arguments(runs: Command) -> None:
    """Declare the actions and their options."""
    runs.set_defaults(command=list_command, json=False)
    actions = runs.add_subparsers(metavar="ACTION", dest="action")
    listing = actions.add_parser("list", help="the kept runs, newest first (what `runs` alone does)")
    listing.flag("--json", "print JSON")
    listing.set_defaults(command=list_command)
    for name, command, words in (
        ("show", show_command, "what is known of a run"),
        ("pin", change_command, "never clean a run up to make room"),
        ("unpin", change_command, "let a run make room again"),
        ("delete", change_command, "put a run aside; `restore` brings it back for an hour"),
        ("restore", restore_command, "bring a deleted run back"),
        ("export", export_command, "write a run's trace, for `replay`, `fork` and `export`"),
    ):
        action = actions.add_parser(name, help=words)
        action.option("id", "ID", "a run's id, or as much of its beginning as names one run")
        if name == "export":
            action.option("out", "OUT", "the file to write; - is standard output")
        if name == "show":
            action.flag("--json", "print JSON")
        action.set_defaults(command=command)
    keep = actions.add_parser("keep", help="keep the trace of a file")
    keep.option("file", "FILE", "a trace as `run --json` writes it; - is standard input")
    keep.option("--label", "TEXT", "a name for the list", default="")
    keep.set_defaults(command=keep_command)
    mend = actions.add_parser("recover", help="make runs of what processes that were killed left behind")
    mend.set_defaults(command=recover_command)


def store() -> RunStore:
    """The folder that the page keeps its runs in. Raises UserError if it cannot be used."""
    run_store = RunStore.from_env()
    assert run_store  # only a public page keeps nothing
    return run_store


def find(keep: RunStore, given: str) -> str:
    """The id of one run that begins so. Raises UserError for none and for several."""
    names = sorted(path.name.removesuffix(".json.gz") for path in keep.folder.glob("*.json.gz"))
    matches = [given] if given in names else [name for name in names if given and name.startswith(given)]
    if not matches:
        raise UserError(
            f"no kept run begins with '{given[:64]}'; `decoding-explorer runs` lists the {len(names)} in {keep.folder}."
        )
    if len(matches) > 1:
        raise UserError(
            f"{len(matches)} kept runs begin with '{given[:64]}': "
            f"{', '.join(matches[:4])}{' ...' if len(matches) > 4 else ''}; give more of the id."
        )
    return matches[0]


def list_command(args: argparse.Namespace) -> int:
    """One line for each run, the room that they take, and what cannot be read."""
    keep = store()
    cards = keep.cards()
    if args.json:
        return print_json(
            {
                "folder": str(keep.folder),
                "bytes": keep.used(),
                "limit": keep.limit,
                "runs": cards,
                "broken": keep.broken,
            }
        )
    rows = [
        (
            c.id,
            when(c),
            "yes" if c.pinned else "",
            c.method,
            "+".join(c.models),
            c.tokens,
            c.forwards,
            c.mark or ENDINGS.get(c.reason, c.reason),
            name(c),
        )
        for c in cards
    ]
    if rows:
        print_table(
            ("id", "kept", "pinned", "method", "model", "tokens", "forwards", "result", "label or prompt"), rows
        )
    print(
        f"{count(len(cards))}, {keep.used() / MEGABYTE:.1f} of {keep.limit / MEGABYTE:.0f} MB in "
        f"{printable(str(keep.folder))}"
    )
    for broken, why in keep.broken.items():
        print(f"broken: {broken}: {printable(why)}")
    return 0


def count(n: int) -> str:
    """A number of runs in words."""
    return f"{n} run{'' if n == 1 else 's'}"


def when(card: Kept) -> str:
    """When it was kept, in local time."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(card.saved_at))


def name(card: Kept) -> str:
    """Its label, or the beginning of its prompt."""
    text = card.label or card.prompt
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."


def show_command(args: argparse.Namespace) -> int:
    """The card of a run, with its whole answer."""
    keep = store()
    card = keep.card(find(keep, args.id))
    if args.json:
        return print_json(card)
    calls = "unknown" if card.forwards is None else f"{card.forwards:,}"
    cost = f"{many(card.tokens, 'token')} in {card.calls or f'{calls} model calls'} and {many(card.steps, 'step')}"
    lines = {
        "run": f"{card.id}, kept {when(card)}, {card.size / 1000:.0f} kB{', pinned' if card.pinned else ''}",
        "label": card.label,
        "method": f"{card.title} ({card.method}) on {' + '.join(card.models)}",
        "prompt": card.prompt,
        "answer": card.text,
        "cost": cost if card.seconds is None else f"{cost}, {card.seconds:.3f} s",
        "result": card.mark,
        "ended": card.message or ENDINGS.get(card.reason, card.reason),
        "sha256": card.sha256,
        "link": f"/?run={card.id} behind the address of the page",
    }
    for head, text in lines.items():
        if text:
            print(f"{head + ':':8} {printable(text)}")
    return 0


def change_command(args: argparse.Namespace) -> int:
    """Pin a run, unpin it or put it aside."""
    keep = store()
    run_id = find(keep, args.id)
    if args.action == "delete":
        keep.delete(run_id)
    else:
        keep.pin(run_id, args.action == "pin")
    print(f"run {run_id} {CHANGED[args.action]}")
    return 0


def restore_command(args: argparse.Namespace) -> int:
    """Bring a deleted run back; its id has to be whole."""
    keep = store()
    if not ID.fullmatch(args.id):
        raise UserError(
            f"'{args.id[:64]}' is not a whole id; `runs delete` said it, 16 characters or more from 0 to 9 and a to f."
        )
    keep.restore(args.id)
    print(f"run {args.id} is back")
    return 0


def export_command(args: argparse.Namespace) -> int:
    """Write a run's trace."""
    check_target(args.out)
    keep = store()
    run_id = find(keep, args.id)
    write(args.out, keep.get(run_id).to_json())
    if args.out != "-":
        print(f"run {run_id} is written to {printable(args.out)}")
    return 0


def keep_command(args: argparse.Namespace) -> int:
    """Keep a trace; prints its id alone, so that a script can use it."""
    trace = read_traces([args.file])[0]
    if not trace.steps:
        raise UserError(f"'{args.file}' holds no step, so there is nothing to keep.")
    keep = store()
    run_id = keep.save(trace, " ".join(args.label.split())[:MAX_LABEL])
    print(run_id)
    return 0


def recover_command(args: argparse.Namespace) -> int:
    """Make runs of journals whose processes are gone; exit 1 if one of them cannot be read."""
    keep = store()
    recovered = recover(keep)
    broken = dict(keep.broken)
    for run_id in recovered:
        print(f"recovered: {run_id}")
    print(f"{count(len(recovered))} recovered" if recovered else "nothing was left behind")
    for journal, why in broken.items():
        print(f"broken: {journal}: {printable(why)}")
    return int(bool(broken))
