"""Records the gallery: real runs of the installed methods, written to the folder `traces` beside their papers.

    python -m explorer.record           records all
    python -m explorer.record ID ...    only those
    python -m explorer.record --words   runs them again and takes over nothing but the sentences of their steps

What is recorded is in the files of `assets/papers`: method, model, prompt, parameters and seed of each run, with a
title and one sentence on what to watch. Nothing else is edited; a trace is what the run left."""

import gzip
import re
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

import msgspec

import engines
from engines import Trace
from explorer import papers
from explorer.arguments import BAD_INPUT, Parser, of_module
from explorer.export.thumbs import beside, picture
from explorer.figures.calls import many
from explorer.papers.schema import Recording

NUMBER = re.compile(r"-?\d(?:[\d.,]*\d)?")


def record(entry: Recording, folder: Path) -> Path:
    """Run one entry and write its trace, compressed with a fixed time stamp so that equal traces give equal files, and
    its picture beside it."""
    trace = engines.run(entry.method, entry.model, entry.prompt, params=entry.params, seed=entry.seed)
    path = folder / f"{entry.id}.json.gz"
    path.write_bytes(gzip.compress(trace.to_json().encode(), compresslevel=9, mtime=0))
    beside(path).write_text(picture(trace), encoding="utf-8")
    print(
        f"{entry.id}: {many(trace.totals.tokens, 'token')} in {many(trace.totals.forwards, 'model call')}, "
        f"{path.stat().st_size / 1000:.0f} kB",
        file=sys.stderr,
    )
    return path


def decisions(trace: Trace) -> list[tuple[object, ...]]:
    """What each step wrote and why, drafted and chose: in this a recorded run repeats on any machine."""
    return [
        (
            step.commits and (step.commits.positions, step.commits.tokens, step.commits.causes),
            step.tree and step.tree.tokens,
            step.choice and step.choice.chosen,
        )
        for step in trace.steps
    ]


def wording(trace: Trace) -> list[str]:
    """The sentences of each step, its note and what it says of its choice, without their numbers."""
    return [NUMBER.sub("#", f"{step.note} {step.choice.detail if step.choice else ''}") for step in trace.steps]


def with_numbers_of(old: str, new: str) -> str:
    """The new sentence with the numbers of the recorded one, where as many stand in it and this machine has rounded
    some of them differently; they are in the same order then."""
    recorded, today = NUMBER.findall(old), NUMBER.findall(new)
    if sorted(recorded) == sorted(today) or len(recorded) != len(today):
        return new
    numbers = iter(recorded)
    return NUMBER.sub(lambda _: next(numbers), new)


def retell(entry: Recording, folder: Path) -> None:
    """Take over the sentences that the engine says of the same steps today, where other words are used than when it was
    recorded; the numbers in them, the times and all else stay. A run that writes other tokens today, or for other
    reasons, is left as it is, and said so."""
    path = folder / f"{entry.id}.json.gz"
    data = gzip.decompress(path.read_bytes())
    old, new = (
        engines.read_trace(data),
        engines.run(entry.method, entry.model, entry.prompt, params=entry.params, seed=entry.seed),
    )
    if decisions(old) != decisions(new):
        print(f"{entry.id}: it decides otherwise today; record it anew to have today's sentences", file=sys.stderr)
    elif wording(old) != wording(new):
        raw = msgspec.json.decode(data)
        for step, now in zip(raw["steps"], new.steps, strict=True):
            step["note"] = with_numbers_of(step.get("note", ""), now.note)
            if now.choice and step.get("choice"):
                step["choice"]["detail"] = with_numbers_of(step["choice"].get("detail", ""), now.choice.detail)
        path.write_bytes(gzip.compress(msgspec.json.encode(raw), compresslevel=9, mtime=0))
        print(f"{entry.id}: new sentences", file=sys.stderr)


def _options(parser: Parser) -> None:
    parser.add_argument("--list", action="store_true", help="print the ids and record nothing")
    parser.add_argument("--words", action="store_true", help="take over nothing but the sentences of the steps")
    parser.add_argument("ids", nargs="*", metavar="ID", help="what to record; without one, everything")


def main(argv: Sequence[str] | None = None) -> int:
    """Record all entries, or the named ones. Returns the exit status: 2 for a name that no paper has."""
    asked = of_module("explorer.record", __doc__, argv, _options)
    collection = papers.read()
    entries = {recording.id: recording for recording in collection.recordings()}
    if asked.list:
        print("\n".join(entries))
        return 0
    for name in asked.ids:
        if name not in entries:
            like = get_close_matches(name, entries)
            advice = f"did you mean {' or '.join(like)}?" if like else "--list prints those that there are."
            print(f"no paper has a recording '{name}'; {advice}", file=sys.stderr)
            return BAD_INPUT
    for name in asked.ids or entries:
        folder = collection.homes[name]
        folder.mkdir(exist_ok=True)
        (retell if asked.words else record)(entries[name], folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
