"""Reading a trace that may come from anywhere: checked against the schema, then for what types cannot say."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

import msgspec

from engines.core.texts import utf8
from engines.core.trace.base import TraceError
from engines.core.trace.header import SCHEMA_VERSION, End, Header, Piece
from engines.core.trace.packed import Packed
from engines.core.trace.records import MAX_FIELDS, MAX_PATH, MAX_RECORDS, arrays, check_names, held, places
from engines.core.trace.step import Step, step_tokens

MAX_TRACE_BYTES = 64 * 2**20
SAID = 300  # characters of a complaint: it quotes what was found, which may be long
MAX_POSITIONS = 2**20  # a longer board than any model has; more is a broken trace
MAX_CELLS = 2**25  # steps times positions of a masked board, such as 4,096 steps of 8,192 positions
MAX_STEPS = 2**14  # four times as many as a run makes where nobody asks for more
MAX_WITHDRAWN = 2**21  # positions taken away again, over all steps: what looks back visits each of them
MAX_INTERVALS = 2**12  # intervals of a step; no recorded run has two hundred
MAX_NAMES = 2**10  # different tracks, roles of models and options of a choice: each has rows of its own in tables


class Whole(Protocol):
    """What a trace consists of."""

    header: Header
    steps: list[Step]
    pieces: list[Piece]
    end: End


T = TypeVar("T")


def decode(text: str | bytes, kind: type[T]) -> T:
    """Decode a trace into `kind`: size, version, schema. Raises TraceError."""
    size = len(text.encode("utf-8", "surrogatepass")) if isinstance(text, str) else len(text)
    if size > MAX_TRACE_BYTES:
        raise TraceError(f"the trace has {size:,} bytes; at most {MAX_TRACE_BYTES:,} are read")
    try:
        text = text.removeprefix("\ufeff") if isinstance(text, str) else utf8(text)
        version = msgspec.json.decode(text, type=_Probe).header.schema
        if version != SCHEMA_VERSION:
            raise TraceError(
                f"the trace has schema version {version}; this program reads version {SCHEMA_VERSION}, so record the "
                "run again"
            )
        return msgspec.json.decode(text, type=kind)
    except msgspec.ValidationError as error:
        raise TraceError(f"not a valid trace: {str(error)[:SAID]}") from None
    except (msgspec.DecodeError, UnicodeError) as error:
        raise TraceError(f"not JSON, or cut off: {error}") from None
    except RecursionError:
        raise TraceError("the trace is nested too deeply") from None


class _ProbeHeader(msgspec.Struct):
    schema: int


class _Probe(msgspec.Struct):
    header: _ProbeHeader


def check_consistency(trace: Whole) -> None:
    """What types cannot say: step numbers in order, every array readable, every position on the board, every token in
    the table."""
    if len(trace.steps) > MAX_STEPS:
        raise TraceError(f"the trace has {len(trace.steps):,} steps; at most {MAX_STEPS:,} are read")
    known = {piece.id for piece in trace.pieces}
    start, canvas = len(trace.header.prompt_ids), trace.header.canvas
    limit = canvas if canvas is not None else start + len(trace.end.output_ids) + 4096
    limit += sum(len(step.commits.inserted) for step in trace.steps if step.commits)
    if limit > MAX_POSITIONS or (canvas is not None and start > canvas):
        raise TraceError(
            f"a board of {limit:,} positions does not fit a prompt of {start}; at most {MAX_POSITIONS:,} are read"
        )
    if canvas is not None and limit * len(trace.steps) > MAX_CELLS:
        raise TraceError(
            f"{len(trace.steps):,} steps of a board of {limit:,} positions are {limit * len(trace.steps):,} cells; at "
            f"most {MAX_CELLS:,} are read"
        )
    _require_known(trace.header.prompt_ids, known, "the prompt")
    _require_known((t for t in trace.end.output_ids if t >= 0), known, "the output")
    _require_few(trace.steps)
    _require_names(trace)
    tokens, on_board = (places(trace.header.records, unit) for unit in ("token", "position"))
    width, withdrawn, moved = canvas if canvas is not None else start, 0, 0
    for number, step in enumerate(trace.steps):
        where = f"step {number}"
        if step.index != number:
            raise TraceError(f"{where} says it is step {step.index}")
        for positions in _positions(step, on_board):
            if any(p >= limit for p in positions):
                raise TraceError(f"{where} names position {max(positions)}, but the board ends at {limit}")
        if step.commits:
            try:
                width, gone = step.commits.after(start, width)
            except ValueError as error:
                raise TraceError(f"{where}: {error}") from None
            withdrawn += gone
            moved += width if step.commits.moves else 0
        if withdrawn > MAX_WITHDRAWN:
            raise TraceError(
                f"up to {where} {withdrawn:,} positions are taken away; at most {MAX_WITHDRAWN:,} are read"
            )
        if moved > MAX_WITHDRAWN:
            raise TraceError(f"up to {where} {moved:,} positions are moved; at most {MAX_WITHDRAWN:,} are read")
        for lane in step.scores:
            if lane.values.array().ndim != 1 or lane.start + lane.values.shape[0] > limit:
                raise TraceError(f"{where}: lane '{lane.name[:60]}' does not fit the board")
        for packed in _arrays(step):
            packed.array()
        _require_known(step_tokens(step, tokens), known, where)


def _arrays(step: Step) -> Iterable[Packed]:
    """Arrays that nothing else has read yet."""
    if step.media:
        yield step.media.codes
    for record in step.records.values():
        yield from arrays(record)
    for route in step.routing:
        yield route.chosen
        if route.weights is not None:
            yield route.weights


def _positions(step: Step, records: Mapping[str, Sequence[Sequence[str]]]) -> Iterable[Sequence[int]]:
    if step.commits:
        yield step.commits.positions
    if step.candidates:
        yield step.candidates.positions
    yield [span.end - 1 for span in step.spans if span.end]
    yield [span.start - 1 for span in step.spans if span.start]
    yield from (route.positions for route in step.routing)
    yield from (held(record, records[name]) for name, record in step.records.items() if name in records)
    if step.tree:
        yield [step.tree.start]


def _require_few(steps: Sequence[Step]) -> None:
    """Intervals of a step, and different names of tracks, roles and options, are as many as tables and pictures
    take."""
    tracks, roles, options = set[str](), set[str](), set[str]()
    for number, step in enumerate(steps):
        if len(step.intervals) > MAX_INTERVALS:
            raise TraceError(f"step {number} has {len(step.intervals):,} intervals; at most {MAX_INTERVALS:,} are read")
        tracks.update(call.track for call in step.intervals)
        roles.update(step.forwards, step.work)
        options.update(step.choice.options if step.choice else ())
    if len(tracks) > MAX_NAMES:
        raise TraceError(f"the trace names {len(tracks):,} different tracks; at most {MAX_NAMES:,} are read")
    if len(roles) > MAX_NAMES:
        raise TraceError(f"the trace names {len(roles):,} different roles of models; at most {MAX_NAMES:,} are read")
    if len(options) > MAX_NAMES:
        raise TraceError(f"the trace names {len(options):,} options of choices; at most {MAX_NAMES:,} are read")


def _require_names(trace: Whole) -> None:
    """Records have names that nothing else has, and are few; so are the fields of which the header tells something."""
    names, infos = {name for step in trace.steps for name in step.records}, trace.header.records
    try:
        check_names({*names, *infos}, Step.__struct_fields__, "the trace")
    except ValueError as error:
        raise TraceError(str(error)) from None
    if len({*names, *infos}) > MAX_RECORDS:
        raise TraceError(f"the trace names {len({*names, *infos}):,} records; at most {MAX_RECORDS} are read")
    fields = [path for info in infos.values() for path in info.units]
    if len(fields) > MAX_FIELDS:
        raise TraceError(f"the header names the units of {len(fields):,} fields; at most {MAX_FIELDS} are read")
    if long := next((path for path in fields if len(path) > MAX_PATH), ""):
        raise TraceError(
            f"the header names the unit of a field with {len(long):,} characters; at most {MAX_PATH} are read"
        )


def _require_known(tokens: Iterable[int], known: set[int], where: str) -> None:
    missing = next((t for t in tokens if t not in known), None)
    if missing is not None:
        raise TraceError(f"{where} uses token {missing}, which is not in the token table")
