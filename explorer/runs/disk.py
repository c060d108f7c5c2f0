"""Files that several processes write: whole or not at all, one writer at a time, in the folder of this user."""

import contextlib
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import IO

from engines import UserError

LOCK_SECONDS = 10.0  # that a writer waits for another process


def wait_for_lock(file: IO[bytes], folder: Path) -> None:
    """Take the lock of a folder, held until `file` is closed. Raises UserError where another process does not give it
    back in time."""
    until = time.monotonic() + LOCK_SECONDS
    while not lock(file):
        if time.monotonic() > until:
            raise UserError(
                f"another program has held the lock of '{folder}' for {LOCK_SECONDS:g} seconds; end it, or set "
                "EXPLORER_STORE to another folder."
            )
        time.sleep(0.02)


def lock(file: IO[bytes]) -> bool:
    """Take the lock of an open file, held until it is closed or its process ends. False if another one has it."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that nobody ever sees half of it, also after a power cut. Raises OSError."""
    handle, temporary = tempfile.mkstemp(prefix=".tmp-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    if sys.platform != "win32":
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def data_folder() -> Path:
    """Where this user's programs keep their data."""
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Application Support"
    else:
        base = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    return base / "decoding-explorer"
