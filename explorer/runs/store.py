"""Runs kept on disk: one gzipped trace and one small card per run, named by the hash of what they hold.

A run is written into a temporary file, synced and renamed, so that a reader sees all of it or nothing. Several
processes may share a folder. The oldest runs that nobody pinned make room for new ones. What cannot be read is named,
never fatal."""

from __future__ import annotations

import contextlib
import copy
import gzip
import hashlib
import os
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from engines import Trace, TraceError, UserError, read_trace
from explorer.runs.cards import Kept, card_of, leaving
from explorer.runs.disk import data_folder, wait_for_lock, write_whole
from explorer.runs.gallery import read_bytes

ID = re.compile(r"[0-9a-f]{16,64}")
LENGTHS = (16, 24, 32, 64)  # of an id; the next one only where two different runs begin alike
MEGABYTE = 1_000_000
DEFAULT_MB = 512.0
SHARES = 8  # of the room on a public host: what one visitor keeps takes at most one of them
FORGET_SECONDS = 3600.0  # after which a deleted run cannot be brought back, and a half-written file is swept away
LATEST = 2.0**35  # Unix time; the year 3058, which every clock can show
MAX_LABEL = 120


class RunStore:
    """The runs of a folder. Every method may be called from several threads and processes. Raises OSError if the folder
    cannot be made."""

    def __init__(self, folder: Path, limit_mb: float = DEFAULT_MB) -> None:
        self.folder, self.limit = folder, int(limit_mb * MEGABYTE)
        self.trash, self.live = folder / "trash", folder / "live"
        for directory in (folder, self.trash, self.live):
            directory.mkdir(parents=True, exist_ok=True)
        self.broken: dict[str, str] = {}
        self.aside: dict[str, str] = {}  # journals that became no run: name -> why; listed among the broken
        self.owner, self._secret = "", b""
        self._cards: dict[str, tuple[tuple[int, int], Kept]] = {}
        self._thread_lock = threading.RLock()

    def of(self, visitor: str) -> RunStore:
        """The same store for one visitor of a public host: what they keep takes at most an eighth of the room, and
        makes room among their own runs first. The address itself is never written."""
        mine = copy.copy(self)
        mine.owner = hashlib.blake2b(visitor.encode(), key=self._key(), digest_size=8).hexdigest()
        return mine

    @classmethod
    def from_env(cls, public: bool = False) -> RunStore | None:
        """The store of EXPLORER_STORE, or of the user's data folder, with EXPLORER_STORE_MB. A public host keeps
        nothing unless EXPLORER_STORE names a folder. Raises UserError if the folder cannot be used."""
        named = os.environ.get("EXPLORER_STORE", "").strip()
        if public and not named:
            return None
        try:
            folder = Path(named).expanduser() if named else data_folder() / "runs"
            return cls(folder, _limit())
        except (OSError, RuntimeError) as error:  # RuntimeError: there is no home to expand
            raise UserError(
                f"runs cannot be kept in '{named[:200] or 'your data folder'}': "
                f"{getattr(error, 'strerror', None) or error}. Set EXPLORER_STORE to a folder that can be written."
            ) from None

    def save(self, trace: Trace, label: str = "") -> str:
        """Keep a trace and return its id; one that is kept already only gets its id back. Raises UserError where there
        is no room for it."""
        text = canonical(trace)
        digest = hashlib.sha256(text).hexdigest()
        packed = gzip.compress(text, compresslevel=6, mtime=0)
        with self._alone():
            name = self._free_name(digest)
            if self._path(name).exists():
                return name
            card = msgspec.structs.replace(
                card_of(trace, name, digest, len(packed), time.time(), label), owner=self.owner
            )
            self._make_room(len(packed) + 2 * len(msgspec.json.encode(card)))
            write_whole(self._path(name), packed)
            with contextlib.suppress(OSError):  # the run is kept; its card can be made again
                write_whole(self._card_path(name), msgspec.json.encode(card))
        return name

    def get(self, name: str) -> Trace:
        """The trace of an id. Raises TraceError if there is none, or if its file is damaged."""
        self._check(name)
        try:
            text = read_bytes(self._path(name))
        except TraceError:
            self._check(name)  # another process may have deleted it meanwhile
            raise
        if not hashlib.sha256(text).hexdigest().startswith(name):
            raise TraceError(
                f"the file of run {name} is not what was kept; delete it, and open the trace from another copy if "
                "there is one."
            )
        return read_trace(text)

    def card(self, name: str) -> Kept:
        """The card of an id. Raises TraceError if there is none."""
        self._check(name)
        card = self._read_card(name)
        if card is None:
            raise TraceError(self.broken.get(name, f"there is no run {name} here."))
        return card

    def cards(self) -> list[Kept]:
        """All cards, newest first. A run that cannot be read is left out and named in `broken`."""
        self.broken = dict(self.aside)
        cards = [self._read_card(path.name.removesuffix(".json.gz")) for path in sorted(self.folder.glob("*.json.gz"))]
        return sorted((card for card in cards if card), key=lambda card: (-card.saved_at, card.id))

    def pin(self, name: str, pinned: bool) -> Kept:
        """Protect a run from being cleaned up, or not any more."""
        return self._change(name, pinned=pinned)

    def rename(self, name: str, label: str) -> Kept:
        """Give a run a label of at most 120 characters; an empty one takes it away."""
        return self._change(name, label=" ".join(label.split())[:MAX_LABEL])

    def delete(self, name: str) -> None:
        """Put a run aside; `restore` brings it back for an hour, as long as the room is not needed."""
        with self._alone():
            self._check(name)
            for path in (self._path(name), self._card_path(name)):
                with contextlib.suppress(FileNotFoundError):
                    path.replace(self.trash / path.name)
                    os.utime(self.trash / path.name)

    def forget(self) -> int:
        """Delete all runs for good, pinned ones and those put aside too. Returns how many there were. Journals of runs
        under way stay: they become runs when these end."""
        with self._alone():
            paths = [path for folder in (self.folder, self.trash) for path in folder.glob("*.json*")]
            runs = {path.name.partition(".")[0] for path in paths}
            for path in paths:
                with contextlib.suppress(FileNotFoundError):
                    path.unlink()
        return len(runs)

    def restore(self, name: str) -> None:
        """Bring a deleted run back. Raises TraceError if it is gone for good."""
        with self._alone():
            if not ID.fullmatch(name) or not (self.trash / self._path(name).name).exists():
                raise TraceError(f"run {str(name)[:64]} is gone for good.")
            for path in (self._card_path(name), self._path(name)):
                with contextlib.suppress(FileNotFoundError):
                    (self.trash / path.name).replace(path)

    def used(self) -> int:
        """Bytes that runs and their cards take, deleted ones and the journals of live runs included."""
        kept = sum(_size(path) for folder in (self.folder, self.trash) for path in folder.glob("*.json*"))
        return kept + self._in_journals()

    def _in_journals(self) -> int:
        return sum(_size(path) for path in self.live.glob("*.journal"))

    def _key(self) -> bytes:
        """What makes the digests of this store's visitors useless elsewhere."""
        if not self._secret:
            path = self.folder / ".key"
            try:
                if not path.exists():
                    with self._alone():
                        if not path.exists():
                            write_whole(path, os.urandom(32))
                self._secret = path.read_bytes()
            except (UserError, OSError):  # a store that fails never fails a run: this one lasts as long as the process
                self._secret = os.urandom(32)
        return self._secret

    def sweep(self) -> None:
        """Remove what is left of deletions and of processes that were ended while they wrote."""
        for path in [*self.folder.glob(".tmp-*"), *self.live.glob(".tmp-*"), *self.trash.glob("*")]:
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > FORGET_SECONDS:
                    path.unlink()

    def _check(self, name: str) -> None:
        if not isinstance(name, str) or not ID.fullmatch(name) or not self._path(name).exists():
            raise TraceError(
                f"there is no run {str(name)[:64]} here; it may have been deleted, or made on another machine."
            )

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.json.gz"

    def _card_path(self, name: str) -> Path:
        return self.folder / f"{name}.card.json"

    def _free_name(self, digest: str) -> str:
        for length in LENGTHS:
            name = digest[:length]
            known = self._read_card(name) if self._path(name).exists() else None
            if known is None or known.sha256 == digest:
                return name
        return digest

    def _read_card(self, name: str) -> Kept | None:
        """The card of a file that is there, made anew from the trace where it is missing or does not belong to it."""
        try:
            size = _size(self._path(name))
            stamp = (self._card_path(name).stat().st_mtime_ns, size) if self._card_path(name).exists() else (0, size)
            if name in self._cards and self._cards[name][0] == stamp:
                return self._cards[name][1]
            card = self._written_card(name)
            if card is None or card.size != size:
                text = read_bytes(self._path(name))
                digest = hashlib.sha256(text).hexdigest()
                if not digest.startswith(name):
                    raise TraceError("its content is not what was kept")
                card = card_of(read_trace(text), name, digest, size, self._path(name).stat().st_mtime)
                write_whole(self._card_path(name), msgspec.json.encode(card))
                if not self._path(name).exists():  # another process deleted the run meanwhile
                    self._card_path(name).unlink(missing_ok=True)
                    return None
        except (TraceError, OSError) as error:
            if self._path(name).exists():
                self.broken[name] = str(error)
            return None
        self._cards[name] = (stamp, card)
        return card

    def _written_card(self, name: str) -> Kept | None:
        try:
            card = msgspec.json.decode(read_bytes(self._card_path(name)), type=Kept)
        except (OSError, TraceError, msgspec.DecodeError, RecursionError):
            return None
        fits = card.id == name and card.sha256.startswith(name) and 0 <= card.saved_at < LATEST
        return card if fits else None

    def _change(self, name: str, **changes: Any) -> Kept:
        with self._alone():
            card = msgspec.structs.replace(self.card(name), **changes)
            write_whole(self._card_path(name), msgspec.json.encode(card))
        self._cards.pop(name, None)
        return card

    def _make_room(self, needed: int) -> None:
        """Remove deleted runs, then the oldest that are not pinned, until `needed` bytes fit: on a public host first
        the visitor's own beyond their share, then of whoever keeps most. Raises UserError, with nothing removed, if
        they cannot."""
        cards = self.cards()
        takes = {card.id: _size(self._path(card.id)) + _size(self._card_path(card.id)) for card in cards}
        fixed = sum(takes[card.id] for card in cards if card.pinned) + self._in_journals()
        fixed += sum(_size(self._path(name)) for name in self.broken)  # never removed unseen
        if fixed + needed > self.limit:
            raise UserError(
                f"the run needs {needed / MEGABYTE:.1f} MB and {fixed / MEGABYTE:.1f} MB of "
                f"{self.limit / MEGABYTE:.0f} MB are pinned or being written; "
                "unpin or delete runs, or set EXPLORER_STORE_MB higher."
            )
        share = self.limit // SHARES if self.owner else self.limit
        if needed > share:
            raise UserError(
                f"the run needs {needed / MEGABYTE:.1f} MB and one visitor may keep {share / MEGABYTE:.1f} MB here; "
                "save it as a file instead."
            )
        over = self.used() + needed - self.limit
        for path in self.trash.glob("*"):
            if over > 0:
                over -= _size(path)
                path.unlink(missing_ok=True)
        for card in leaving(cards, takes, self.owner, needed, over, share):
            for path in (self._path(card.id), self._card_path(card.id)):
                path.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """One writer at a time, also among processes; where the system has no such lock, among threads (every change is
        still one rename)."""
        with self._thread_lock, (self.folder / ".lock").open("ab") as file:
            wait_for_lock(file, self.folder)
            yield


def canonical(trace: Trace) -> bytes:
    """The JSON of a trace with the keys of every object in order: equal traces give equal bytes."""
    return msgspec.json.encode(msgspec.json.decode(msgspec.json.encode(trace)), order="deterministic")


def _limit() -> float:
    text = os.environ.get("EXPLORER_STORE_MB", "").strip()
    try:
        value = float(text) if text else DEFAULT_MB
    except ValueError:
        value = 0.0
    if not value > 0 or value == float("inf"):
        raise UserError(
            f"EXPLORER_STORE_MB={text[:40]} is not a size; leave it unset or give megabytes above 0, such as "
            f"{DEFAULT_MB:g}."
        )
    return value


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
