"""Files of the hub, fetched by a process of their own: its end is the end of the download at once, whatever the hub's
library does in its threads, and the next one goes on with the files that are there in part.

Importing this loads nothing heavy."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path

from engines.core.devices import gigabytes
from engines.core.errors import UserError

LARGE = 10_000_000  # bytes from which on a download is told and has a process of its own
POLL = 0.25  # seconds between two looks at it
PATIENCE = 10.0  # seconds that it has to end when it is told to
PARTIAL = (".part", ".incomplete")  # how files end that are there in part, ours and those of the hub's library
ROOT = Path(__file__).resolve().parents[3]  # where `engines` lies


@dataclass(frozen=True)
class Download:
    """What is fetched: so many files of a model of the hub that are not whole on this machine, their bytes, and how
    many of these are here by now."""

    repo: str
    files: int
    bytes: int
    done: int = 0

    def __str__(self) -> str:
        files = "1 file" if self.files == 1 else f"{self.files} files"
        here = f" ({gigabytes(self.done)} of them are here from before)" if self.done else ""
        return f"{self.repo}: {files} of {gigabytes(self.bytes)} to download{here}"


Watcher = Callable[[Download], None]
_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def watching_downloads(watcher: Watcher) -> Iterator[None]:
    """Inside, `watcher` is told of every large download before it begins and while it goes on, four times a second. It
    stops the download by raising; the next one goes on where that stopped."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


def fetch(repo: str, commit: str, files: Mapping[str, int], cache: Path) -> None:
    """Fetch files (name -> bytes) into the hub's cache. cache: the folder of the model there. Raises UserError where
    the disk has no room or the download breaks off."""
    watch, before, size = _watcher.get() or (lambda download: None), _bytes(cache, whole=True), sum(files.values())
    now = Download(repo, len(files), size, _bytes(cache) - before)
    place = next(folder for folder in cache.parents if folder.is_dir())
    if (needed := now.bytes - now.done) > (free := shutil.disk_usage(place).free):
        raise UserError(
            f"the download of '{repo}' takes {gigabytes(needed)} and the disk of {place} has {gigabytes(free)} free; "
            "make room there, or name another folder in HF_HOME."
        )
    watch(now)
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    with tempfile.TemporaryFile() as log:
        child = subprocess.Popen(
            [sys.executable, "-m", "engines.models.files.fetching", repo, commit, str(cache / "blobs"), *files],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            env={**os.environ, "HF_HUB_DISABLE_PROGRESS_BARS": "1", "PYTHONPATH": path},
            start_new_session=True,  # a terminal's Ctrl-C comes here, and here it is ended
        )
        try:
            while _runs(child):
                watch(replace(now, done=min(size, _bytes(cache) - before)))
        finally:
            _end(child)
        if child.returncode:
            log.seek(0)
            last = (log.read().decode("utf-8", "replace").strip().splitlines() or ["no message"])[-1]
            raise UserError(f"the download of '{repo}' broke off ({last[:200]}); start it again, it goes on from here.")
    watch(replace(now, done=size))


def _runs(child: subprocess.Popen[bytes]) -> bool:
    try:
        child.wait(POLL)
    except subprocess.TimeoutExpired:
        return True
    return False


def _end(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _bytes(cache: Path, whole: bool = False) -> int:
    """Of the files of a model in the hub's cache; whole: without those that are there in part."""
    total = 0
    for file in (cache / "blobs").glob("*"):
        if file.suffix != ".lock" and not (whole and file.name.endswith(PARTIAL)):
            try:
                total += file.stat().st_size
            except FileNotFoundError:  # renamed meanwhile
                continue
    return total
