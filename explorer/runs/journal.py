"""A journal of a live run: one JSON line per step, written as it happens, so that a process that is killed leaves a
trace that can be read.

The first line holds the header, each further line a step and the token table's new entries. The process that writes a
journal holds a lock on it; a journal whose lock is free belongs to a process that is gone, and `recover` makes a kept
run of it. What is lost is at most the step under way."""

import contextlib
import os
import re
import uuid
from pathlib import Path
from typing import Any

import msgspec

from engines import Step, Trace, TraceError, UserError, read_trace
from explorer.figures.history import boards
from explorer.runs.disk import lock
from explorer.runs.store import RunStore

SAID = 300  # characters of a complaint
UNKNOWN = ["wall_seconds", "record_seconds"]  # what a journal cannot tell
_BYTES = re.compile(r"0x([0-9A-F]{2})")


class Journal:
    """Writes the journal of a run. A disk that fails ends the journal, never the run: `failed` says why."""

    def __init__(self, keep: RunStore, run: Any) -> None:
        self.failed = ""
        self._run, self._pieces, self._edits = run, 0, 0
        self._path = keep.live / f"{os.getpid()}-{uuid.uuid4().hex[:12]}.journal"
        try:
            new = keep.live / f".tmp-{self._path.name}"
            self._file = new.open("wb", buffering=0)  # a line is one write: nothing waits in this process
            lock(self._file)
            self._line({"header": msgspec.structs.replace(run.header, edits=[])})
            new.rename(self._path)
        except OSError as error:
            self.failed = str(error)

    def step(self, step: Step) -> None:
        """Add a step that has just been made."""
        edits, self._edits = self._run.header.edits[self._edits :], len(self._run.header.edits)
        self._line({"step": step} | ({"edits": edits} if edits else {}))

    def close(self) -> None:
        """The run is over and kept, or not wanted: the journal goes."""
        self.leave()
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)

    def leave(self) -> bool:
        """The run is over and was not kept: the journal, its only copy, stays for `recover`. False where it does not
        hold all of the run."""
        with contextlib.suppress(OSError, AttributeError):
            self._file.close()
        return not self.failed

    def _line(self, body: dict[str, Any]) -> None:
        if self.failed:
            return
        pieces = self._run.pieces(self._pieces)
        self._pieces += len(pieces)
        try:
            self._file.write(msgspec.json.encode(body | {"pieces": pieces}) + b"\n")
        except OSError as error:
            self.failed = str(error)


def recover(keep: RunStore) -> list[str]:
    """Make kept runs of the journals whose processes are gone; returns their ids. A journal that cannot be read is set
    aside and named in `broken`; one for which there is no room stays for the next start."""
    recovered = []
    keep.aside = {}
    for path in filter(Path.is_file, sorted(keep.live.glob("*.journal"))):
        with contextlib.suppress(FileNotFoundError), path.open("r+b") as file:
            if not lock(file):
                continue  # its process lives
            try:
                trace = read_journal(file.read())
                if trace is not None:
                    recovered.append(keep.save(trace))
            except (UserError, OSError) as error:  # no room for it now
                keep.aside[path.name] = f"not kept yet: {error}"
                continue
            except Exception as error:  # whatever a damaged file can do
                keep.aside[path.name] = set_aside(path, error)
                continue
        path.unlink(missing_ok=True)
    keep.sweep()
    keep.broken |= keep.aside
    return recovered


def set_aside(path: Path, error: Exception) -> str:
    """Put a journal that cannot be read where nothing reads it again. Returns the sentence about it."""
    reason = str(error) if isinstance(error, TraceError) else f"the journal is damaged ({type(error).__name__})"
    with contextlib.suppress(OSError):
        path = path.rename(path.with_suffix(".broken"))
    return f"{reason[:SAID]}; it is left as {path}"


def read_journal(data: bytes) -> Trace | None:
    """The trace of a journal up to its last whole line; None if no step was finished. Raises TraceError."""
    lines = data.split(b"\n")[:-1]  # what follows the last line's end was cut off
    if len(lines) < 2:
        return None
    try:
        head, *rest = (msgspec.json.decode(line) for line in lines)
        header, steps = {**head["header"], "missing": UNKNOWN}, [entry["step"] for entry in rest]
        edits = [edit for entry in rest for edit in entry.get("edits", ())]
        pieces = [piece for entry in (head, *rest) for piece in entry["pieces"]]
    except KeyError as error:
        raise TraceError(f"the journal is damaged: a line has no {error.args[0]}") from None
    except (msgspec.DecodeError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise TraceError(f"the journal is damaged: {error}") from None
    end = {"reason": "stopped", "output_ids": [], "text": "", "wall_seconds": 0.0, "record_seconds": 0.0}
    body = {"header": header | ({"edits": edits} if edits else {}), "steps": steps, "pieces": pieces, "end": end}
    trace = read_trace(msgspec.json.encode(body))
    *_, left = boards(trace)
    hole = trace.header.mask_id or 0
    ids = [hole if token is None else token for token in left[len(trace.header.prompt_ids) :]]
    if unknown := set(ids) - {piece.id for piece in trace.pieces}:
        raise TraceError(f"the journal is damaged: token {min(unknown)} is not in its token table")
    words = (
        f"the process that ran this ended without a word after {len(steps)} steps; recovered from its journal, at "
        "most the step under way is lost"
    )
    trace.end = msgspec.structs.replace(trace.end, output_ids=ids, text=plain_text(trace, ids), message=words)
    return read_trace(trace.to_json())


def plain_text(trace: Trace, ids: list[int]) -> str:
    """What the ids say by the token table, up to the first end mark, special tokens left out."""
    pieces, ends = {piece.id: piece for piece in trace.pieces}, set(trace.header.eos_ids)
    encoded = b""
    for token in ids[: next((i for i, t in enumerate(ids) if t in ends), len(ids))]:
        piece = pieces[token]
        if piece.kind != "special":
            encoded += (
                bytes(int(digits, 16) for digits in _BYTES.findall(piece.text))
                if piece.kind == "byte"
                else piece.text.encode("utf-8", "replace")
            )
    return encoded.decode("utf-8", "replace").strip()
