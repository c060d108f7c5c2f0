"""Records the gallery: real runs of the installed methods, written to the folder `traces` beside their papers.

    python -m explorer.papers.record           records all
    python -m explorer.papers.record ID ...    only those

What is recorded is in the files of `assets/papers`: method, model, prompt, parameters and seed of each run, with a
title and one sentence on what to watch. Nothing else is edited; a trace is what the run left."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

import engines
from explorer import papers
from explorer.arguments import BAD_INPUT, Parser, of_module
from explorer.export.thumbs import beside, picture
from explorer.papers.schema import Recording


def record(entry: Recording, folder: Path) -> Path:
    """Run one entry and write its trace, compressed with a fixed time stamp so that equal traces give equal files, and
    its picture beside it."""
    trace = engines.run(entry.method, entry.model, entry.prompt, params=entry.params, seed=entry.seed)
    path = folder / f"{entry.id}.json.gz"
    path.write_bytes(gzip.compress(trace.to_json().encode(), compresslevel=9, mtime=0))
    beside(path).write_text(picture(trace), encoding="utf-8")
    print(
        f"{entry.id}: {trace.totals.tokens} tokens in {trace.totals.forwards} model calls, "
        f"{path.stat().st_size / 1000:.0f} kB",
        file=sys.stderr,
    )
    return path


def _options(parser: Parser) -> None:
    parser.add_argument("--list", action="store_true", help="print the ids and record nothing")
    parser.add_argument("ids", nargs="*", metavar="ID", help="what to record; without one, everything")


def main(argv: Sequence[str] | None = None) -> int:
    """Record all entries, or the named ones. Returns the exit status: 2 for a name that no paper has."""
    asked = of_module("explorer.papers.record", __doc__, argv, _options)
    found = papers.read()
    entries = {one.id: one for one in found.recordings()}
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
        folder = found.homes[name]
        folder.mkdir(exist_ok=True)
        record(entries[name], folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
