"""Records the gallery: real runs of the installed methods, written to the folder `traces` beside their papers. `python
-m explorer.papers.record` records all, with ids only those.

What is recorded is in the files of `assets/papers`: method, model, prompt, parameters and seed of each run, with a
title and one sentence on what to watch. Nothing else is edited; a trace is what the run left."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import engines
from explorer import papers
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


def main(names: list[str]) -> int:
    """Record all entries, or the named ones. Returns the exit status: 2 for a name that no paper has."""
    found = papers.read()
    entries = {one.id: one for one in found.recordings()}
    for name in names:
        if name not in entries:
            print(f"no file of assets/papers has a recording '{name}'; there is {', '.join(entries)}.", file=sys.stderr)
            return 2
    for name in names or entries:
        folder = found.homes[name]
        folder.mkdir(exist_ok=True)
        record(entries[name], folder)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
