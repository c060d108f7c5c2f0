"""Recorded traces on disk: the gallery that ships with the program, and reading a trace that a person brings."""

import gzip
import threading
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import msgspec

from engines import ASSETS, Trace, TraceError, read_trace, texts
from explorer import papers
from explorer.figures.calls import by_role
from explorer.figures.handed import shown
from explorer.papers.schema import Recording
from explorer.runs.scenarios import scenarios

GALLERY = ASSETS / "traces"
MAX_TRACE_CHARACTERS = 8_000_000  # of a trace that a visitor brings


class _StepCost(msgspec.Struct):
    forwards: dict[str, int]


class _Model(msgspec.Struct):
    name: str
    role: str = ""
    dtype: str = ""


class _Head(msgspec.Struct):
    method: str
    title: str
    family: str
    models: list[_Model]
    prompt: str
    eos_ids: list[int]
    mask_id: int | None = None
    lossless: bool = False


class _Tail(msgspec.Struct):
    output_ids: list[int]
    text: str


class _Probe(msgspec.Struct):
    header: _Head
    steps: list[_StepCost]
    end: _Tail


@dataclass(frozen=True)
class Card:
    """What the gallery shows of a recorded trace without reading it whole."""

    id: str
    method: str
    title: str
    family: str
    models: tuple[str, ...]
    prompt: str
    text: str
    steps: int
    calls: str  # in words, those of the target first
    tokens: int
    caption: str = ""
    watch: str = ""
    lossless: bool = False  # what the run promised with its parameters
    dtypes: tuple[str, ...] = ()  # of its models
    beside: str = ""  # the id of the run that opens with it
    listed: bool = True  # among the cards; one that is not belongs to a scene


class Gallery:
    """The traces of folders: `*.json` and `*.json.gz`. A file that cannot be read is left out and named in `broken`.

    `recordings`: what is said of each by its name; without it a file `gallery.json` beside the folder may say it."""

    def __init__(self, *folders: Path, recordings: Mapping[str, Recording] | None = None) -> None:
        places = folders or (GALLERY,)
        captions = _captions(places[0].parent / "gallery.json") if recordings is None else recordings
        self.broken: dict[str, str] = {}
        self._paths: dict[str, Path] = {}
        self.cards: list[Card] = []
        paths = [path for place in places for path in (*place.glob("*.json"), *place.glob("*.json.gz"))]
        for path in sorted(paths, key=lambda path: (path.name, path)):
            name = path.name.removesuffix(".gz").removesuffix(".json")
            try:
                self.cards.append(_card(name, read_bytes(path), captions.get(name)))
                self._paths[name] = path
            except (TraceError, msgspec.DecodeError) as error:
                self.broken[name] = str(error)
        self.cards = [card if card.beside in self._paths else replace(card, beside="") for card in self.cards]
        self._read: dict[str, Trace] = {}
        self._lock = threading.Lock()

    def path(self, name: str) -> Path:
        """The file of a card. Raises TraceError if there is none of that name."""
        if name not in self._paths:
            raise TraceError(f"there is no recorded trace '{str(name)[:60]}'.")
        return self._paths[name]

    def get(self, name: str) -> Trace:
        """The validated trace of a card. Raises TraceError if there is none of that name."""
        path = self.path(name)
        with self._lock:
            if name not in self._read:
                self._read[name] = read_trace(read_bytes(path))
            return self._read[name]

    def opening(self) -> dict[str, Trace]:
        """The traces a page opens with, by name: the first scenario that is recorded, else the first two cards on one
        prompt (by different methods), else the first card, else none."""
        for scenario in scenarios(self._paths):
            return {name: self.get(name) for name in scenario.traces}
        for i, first in enumerate(self.cards):
            second = next(
                (c for c in self.cards[i + 1 :] if c.prompt == first.prompt and c.method != first.method), None
            )
            if second:
                return {card.id: self.get(card.id) for card in (first, second)}
        return {card.id: self.get(card.id) for card in self.cards[:1]}


class _Caption(msgspec.Struct):
    id: str
    title: str = ""
    watch: str = ""
    beside: str = ""
    listed: bool = True


def _captions(path: Path) -> dict[str, _Caption]:
    """What a `gallery.json` beside a folder of one's own says of its traces."""
    captions = msgspec.json.decode(texts.utf8(path.read_bytes()), type=list[_Caption]) if path.is_file() else []
    return {caption.id: caption for caption in captions}


def _card(name: str, text: bytes, caption: Recording | _Caption | None) -> Card:
    probe = msgspec.json.decode(text, type=_Probe)
    ids, ends = probe.end.output_ids, set(probe.header.eos_ids)
    cut = next((i for i, token in enumerate(ids) if token in ends), len(ids))
    calls = Counter[str]()
    for step in probe.steps:
        calls.update(step.forwards)
    return Card(
        id=name,
        method=probe.header.method,
        title=probe.header.title,
        family=probe.header.family,
        models=tuple(m.name for m in probe.header.models),
        prompt=probe.header.prompt,
        text=probe.end.text,
        steps=len(probe.steps),
        calls=by_role(calls, probe.header.models[0].role if probe.header.models else ""),
        tokens=sum(token != probe.header.mask_id for token in ids[:cut]),
        caption=caption.title if caption else "",
        watch=caption.watch if caption else "",
        beside=caption.beside if caption else "",
        listed=caption.listed if caption else True,
        lossless=probe.header.lossless,
        dtypes=tuple(m.dtype for m in probe.header.models),
    )


def read_bytes(path: Path, limit: int = 64 * 2**20) -> bytes:
    """A file in UTF-8, unpacked if gzipped. Raises TraceError if it is damaged or unpacks to more than `limit`."""
    try:
        if path.exists() and not path.is_file():  # a pipe would be waited for without end
            raise TraceError(f"{path.name} is not a file.")
        if path.suffix != ".gz":
            return texts.utf8(path.read_bytes())
        with gzip.open(path) as file:
            text = texts.utf8(file.read(limit + 1))
    except (OSError, EOFError, UnicodeError, zlib.error) as error:
        raise TraceError(f"{path.name} cannot be unpacked: {error}") from None
    if len(text) > limit:
        raise TraceError(f"{path.name} unpacks to more than {limit // 2**20} MB.")
    return text


@lru_cache(maxsize=32)
def played(path: Path, beside: Path | None, changed: int) -> bytes:
    """A recorded run as the player reads it, gzipped: with its figures, and those of it and the run beside it. changed:
    when the file was written, so that another one of that name is read anew. Raises TraceError."""
    others = [read_trace(read_bytes(beside))] if beside else []
    return gzip.compress(shown(read_trace(read_bytes(path)), others).encode(), 1)


def read_pasted(text: str, limit: int | None = None) -> Trace:
    """A trace, or a record of another program, of at most `limit` characters, that a visitor pasted or picked. Raises
    TraceError with a sentence that says what is wrong."""
    from explorer.importers import import_trace

    if not isinstance(text, str) or not text.strip():
        raise TraceError("there is nothing to read; choose a trace file or paste its JSON.")
    limit = limit or MAX_TRACE_CHARACTERS
    if len(text) > limit:
        raise TraceError(f"the trace has {len(text):,} characters; at most {limit:,} are taken here.")
    try:
        trace = import_trace(text)
        if (size := len(trace.to_json())) > max(limit, 2 * len(text)):  # a count of a record can stand for much
            raise TraceError(f"the record makes a trace of {size:,} characters; at most {limit:,} are taken here.")
        return trace
    except TraceError:
        raise
    except UnicodeError:
        raise TraceError("the file holds half of a character (a lone surrogate), which no trace can hold.") from None
    except (RecursionError, OverflowError, MemoryError):
        raise TraceError("the file is nested too deeply or holds numbers that are too large to be a trace.") from None


@lru_cache(maxsize=1)
def gallery() -> Gallery:
    """The gallery that ships with the program, and that of the extra folder. A recorded run that a paper promises and
    no folder holds is named in `broken`."""
    recordings = {recording.id: recording for recording in papers.read().recordings()}
    made = Gallery(*(place / "traces" for place in papers.folders()), recordings=recordings)
    there = {card.id for card in made.cards} | set(made.broken)
    why = "it is not recorded; `python -m explorer.record` does it"
    made.broken |= dict.fromkeys(sorted(recordings.keys() - there), why)
    return made
