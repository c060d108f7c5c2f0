"""Records the gallery: real runs of the installed methods, written to `assets/traces` with an index. `python -m explorer.record`.

What is recorded stands in `assets/gallery.json`: method, model, prompt, parameters and seed of each run, with a title and one sentence on
what to watch. Nothing else is edited; a trace is what the run left.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import engines

ASSETS = Path(__file__).resolve().parents[1] / "assets"
TRACES = ASSETS / "traces"


def record(entry: dict[str, Any], folder: Path) -> Path:
    """Run one entry and write its trace, compressed with a fixed time stamp so that equal traces give equal files."""
    trace = engines.run(entry["method"], entry["model"], entry["prompt"], params=entry.get("params"), seed=entry.get("seed", 0))
    path = folder / f"{entry['id']}.json.gz"
    path.write_bytes(gzip.compress(trace.to_json().encode(), compresslevel=9, mtime=0))
    print(f"{entry['id']}: {trace.totals.tokens} tokens in {trace.totals.forwards} forwards, {path.stat().st_size / 1000:.0f} kB", file=sys.stderr)
    return path


def main(names: list[str]) -> None:
    """Record all entries, or the named ones."""
    entries = json.loads((ASSETS / "gallery.json").read_text())
    for entry in entries:
        if not names or entry["id"] in names:
            record(entry, TRACES)


if __name__ == "__main__":
    main(sys.argv[1:])
