"""Runs that several workers ask for, kept on disk: decoded once for all of them, and for the next call of pytest, until
anything that they depend on changes."""

import hashlib
import os
import platform
import shutil
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path

import engines
from engines import Trace

LEAST = 0.1  # seconds of processor that a run takes if it is worth a file
FASTEST = 1_000_000  # bytes of JSON a second of decoding: reading takes five times as many, so a file always pays
MOST = 200_000_000  # bytes in all


def fingerprint(read: Iterable[Path], seen: Iterable[Path] = ()) -> str:
    """What a run depends on beside its arguments: the text of the files of `read` (folders: of all in them), the size
    and time of those of `seen`, and the versions of the libraries that compute."""
    libraries = [version(name) for name in ("torch", "transformers", "numpy", "msgspec")]
    found = hashlib.sha256(repr([platform.machine(), platform.python_version(), *libraries]).encode())
    for path in _files(read):
        found.update(f"\n{path}\n".encode() + path.read_bytes())
    for path in _files(seen):
        status = path.stat()
        found.update(f"\n{path} {status.st_size} {status.st_mtime_ns}".encode())
    return found.hexdigest()[:16]


def _files(given: Iterable[Path]) -> list[Path]:
    inside = (one.rglob("*") if one.is_dir() else [one] for one in given)
    return sorted(path for some in inside for path in some if path.is_file() and "__pycache__" not in path.parts)


class Memo:
    """A folder of runs. sources: a fingerprint; what was kept for another one is deleted. Without a folder (pytest's
    cache is switched off) nothing is kept."""

    def __init__(
        self, folder: Path | None, sources: str, *, least: float = LEAST, most: int = MOST, fastest: float = FASTEST
    ) -> None:
        self.folder = folder / sources if folder else None
        self.least, self.most, self.fastest = least, most, fastest
        for old in folder.iterdir() if folder and folder.is_dir() else ():
            if old != self.folder:
                shutil.rmtree(old, ignore_errors=True)

    def run(self, asked: object, decode: Callable[[], Trace]) -> Trace:
        """The run that `asked` describes in full: its repr is the key."""
        if self.folder is None:
            return decode()
        path = self.folder / hashlib.sha256(repr(asked).encode()).hexdigest()
        kept = _read(path)
        if kept is not None:
            return kept
        before = time.process_time()
        trace = decode()
        spent = time.process_time() - before
        if spent > self.least:
            self._keep(path, trace.to_json().encode(), spent)
        return trace

    def _keep(self, path: Path, json: bytes, spent: float) -> None:
        """Written whole or not at all: a worker that reads at the same time sees no half of it."""
        if len(json) > self.fastest * spent:
            return
        packed = zlib.compress(json, 1)
        path.parent.mkdir(parents=True, exist_ok=True)
        if sum(file.stat().st_size for file in _files([path.parent])) + len(packed) > self.most:
            return
        handle, name = tempfile.mkstemp(dir=path.parent, prefix="unfinished-")
        with os.fdopen(handle, "wb") as file:
            file.write(packed)
        os.replace(name, path)


def _read(path: Path) -> Trace | None:
    """The run in a file; nothing where there is none or it is damaged, which its checksum tells."""
    try:
        return Trace.from_json(zlib.decompress(path.read_bytes()))
    except (OSError, zlib.error, engines.TraceError):
        return None
