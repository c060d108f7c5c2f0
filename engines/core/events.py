"""The trace: one schema for every family, versioned, validated when read, JSON that a browser reads without a library.

`Trace = header + steps + end`. A step records *facts* about one turn of a decoding loop; a group that a method does not fill is absent.
Derived figures (rates, speed-ups) never stand here, only in `explorer.metrics`. Positions are absolute: the prompt starts at 0.

Shapes: L positions of the board (prompt included), n rows of a draft tree, k candidates, V vocabulary. Times are seconds.
"""

from __future__ import annotations

import base64
import math
from typing import Annotated, Any, ClassVar, Literal

import msgspec
import numpy as np
from msgspec import Meta

from engines.core.errors import UserError

SCHEMA_VERSION = 1
MISSING = 255  # in a "u1" array: no value at this place
EXACT = 2**53 - 1  # the largest whole number that a browser counts exactly

Index = Annotated[int, Meta(ge=0, le=EXACT)]
Count = Annotated[int, Meta(ge=0, le=EXACT)]
Seconds = Annotated[float, Meta(ge=0, le=1e12)]
Detail = Literal["none", "light", "full"]
Unit = Literal["probability", "nats", "bits", "count", "score"]
Absent = Literal[
    "prompt_ids", "tokens", "token_ids", "token_texts", "seed", "params", "steps", "end_marks", "forwards", "tokens_fed",
    "model_seconds", "method_seconds", "wall_seconds", "record_seconds", "warmup_seconds",
]  # fmt: skip


class TraceError(ValueError):
    """A trace that cannot be read; the message says what is wrong and where."""


class Record(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """Base of all parts: unknown fields are refused, defaults are not written."""


class Packed(Record):
    """A numeric array as base64 of little-endian values, row-major. `u1` holds lo + (hi - lo) * q / 254, with 255 for "no value"."""

    dtype: Literal["u1", "u2", "i4", "f4"]
    shape: list[Index]
    data: str
    lo: float = 0.0
    hi: float = 1.0

    def array(self) -> np.ndarray:
        """The values as float32 (NaN where missing) or integers, with `shape`. Raises TraceError if the bytes do not fit the shape."""
        try:
            raw = base64.b64decode(self.data, validate=True)
        except ValueError as error:
            raise TraceError(f"a packed array holds text that is not base64: {error}") from None
        size = {"u1": 1, "u2": 2, "i4": 4, "f4": 4}[self.dtype]
        if len(raw) != size * math.prod(self.shape):
            raise TraceError(f"a packed {self.dtype} array of shape {self.shape} needs {size * math.prod(self.shape)} bytes, got {len(raw)}")
        try:
            values = np.frombuffer(raw, dtype="<" + self.dtype).reshape(self.shape)
        except (ValueError, OverflowError):  # no bytes and a huge side, or more dimensions than there can be
            raise TraceError(f"a packed array cannot have the shape {str(self.shape)[:80]}") from None
        if self.dtype != "u1":
            return values
        return np.where(values == MISSING, np.nan, self.lo + (self.hi - self.lo) * values.astype(np.float32) / 254)


def pack(values: np.ndarray, lo: float | None = None, hi: float | None = None) -> Packed:
    """Floats become u1 between `lo` and `hi` (their own range if not given; NaN = missing), integers u2 or i4."""
    if np.issubdtype(values.dtype, np.integer):
        dtype: Literal["u2", "i4"] = "u2" if not values.size or (values.min() >= 0 and values.max() < 65536) else "i4"
        return Packed(dtype, list(values.shape), _b64(values.astype("<" + dtype)))
    finite = np.isfinite(values)
    whole = bool(finite.all())
    if lo is None or hi is None:
        known = values if whole else values[finite]
        lo = lo if lo is not None else float(known.min()) if known.size else 0.0
        hi = hi if hi is not None else float(known.max()) if known.size else 1.0
    scaled = (values - lo) * (254 / (hi - lo) if hi > lo else 0.0) + 0.5  # rounds to nearest when cut to an integer
    if not whole:
        scaled = np.where(finite, scaled, 0.0)
    quantised = np.clip(scaled, 0, 254.5).astype(np.uint8)
    if not whole:
        quantised[~finite] = MISSING
    return Packed("u1", list(values.shape), _b64(quantised), lo, hi)


def pack_raw(values: np.ndarray) -> Packed:
    """Floats as float32, for arrays on which a law is checked."""
    return Packed("f4", list(values.shape), _b64(values.astype("<f4")))


def _b64(values: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode("ascii")


class Piece(Record):
    """What one token id looks like. `kind`: text, special (mask, end ...) or byte (a fragment of a character, shown as hex)."""

    id: Index
    text: str
    kind: Literal["text", "special", "byte"] = "text"


class Commits(Record):
    """Tokens written in this step, one entry per position, in the order in which they were decided.

    `causes`: threshold, top1, quota, factor, random, boosted, greedy, sampled, accepted, bonus, forced, remasked, withdrawn, cut ...
    `probabilities`: what the deciding distribution gave the token; None where there was none. A remasked position holds the mask id.
    A -1 ends the board: nothing stands there or behind it any more (a causal run that an edit cut back, a masked board that the method cut off).
    """

    positions: list[Index]
    tokens: list[int]
    causes: list[str]
    probabilities: list[float | None] = []

    def __post_init__(self) -> None:
        if not len(self.positions) == len(self.tokens) == len(self.causes) or len(self.probabilities) not in (0, len(self.tokens)):
            raise ValueError(
                f"commits: {len(self.positions)} positions, {len(self.tokens)} tokens, {len(self.causes)} causes and "
                f"{len(self.probabilities)} probabilities must be equally many"
            )


class Lane(Record):
    """One named score over the positions [start, start + len(values)). `threshold`: the line it was compared with, if any."""

    name: str
    unit: Unit
    start: Index
    values: Packed
    threshold: float | None = None


class Candidates(Record):
    """The k most likely tokens at each position in focus: `tokens` and `probabilities` have shape [len(positions), k], best first."""

    positions: list[Index]
    tokens: Packed
    probabilities: Packed

    def __post_init__(self) -> None:
        if self.tokens.shape != self.probabilities.shape or not self.tokens.shape or self.tokens.shape[0] != len(self.positions):
            raise ValueError(f"candidates: shapes {self.tokens.shape} and {self.probabilities.shape} do not fit {len(self.positions)} positions")
        if self.tokens.dtype not in ("u2", "i4"):
            raise ValueError(f"candidates: tokens are whole numbers, not {self.tokens.dtype}")


class Tree(Record):
    """A draft tree as fed to one verification forward. Row 0 is the root (the last emitted token); parents stand before children.

    `why` says what became of each row: root, accepted, mismatch (looked at and refused), unreached (never looked at).
    `sources`: root, draft, retrieval, both, ngram, matrix. `ranks`: order among the siblings. `emitted`: the tokens the step gained.
    `chances`: the chance of each row that was looked at to be kept, given the refusals before it; `uniforms`: the number drawn for that test.
    `values`: what the drafter chose the rows by, where that is not their probability; `value_name` says what it is.
    """

    start: Index  # position of the root
    parents: list[Annotated[int, Meta(ge=-1)]]
    tokens: list[Index]
    accepted: list[bool]
    why: list[str]
    emitted: list[Index]
    sources: list[str] = []
    ranks: list[int] = []
    draft_logprobs: list[float | None] = []
    target_logprobs: list[float | None] = []
    emitted_source: str = "argmax"  # argmax, target, residual; draft: nothing beyond the accepted rows
    chances: list[float | None] = []
    uniforms: list[float | None] = []
    values: list[float | None] = []
    value_name: str = ""

    def __post_init__(self) -> None:
        n = len(self.parents)
        for name in ("tokens", "accepted", "why"):
            if len(getattr(self, name)) != n:
                raise ValueError(f"tree: {name} has {len(getattr(self, name))} entries for {n} rows")
        for name in ("sources", "ranks", "draft_logprobs", "target_logprobs", "chances", "uniforms", "values"):
            if len(getattr(self, name)) not in (0, n):
                raise ValueError(f"tree: {name} has {len(getattr(self, name))} entries for {n} rows")
        if any(parent >= row for row, parent in enumerate(self.parents)):
            raise ValueError("tree: a parent must stand before its children")


class Branch(Record):
    """A beam or reasoning path: what it added in this step, its score and its fate (alive, pruned, finished, chosen)."""

    id: Index
    parent: int
    tokens: list[Index]
    score: float
    fate: str = "alive"


class Span(Record):
    """A stretch [start, end) of the board: block, fed (positions really computed), window, late, neighbourhood, unit, cache ..."""

    kind: str
    start: Index
    end: Index
    label: str = ""


class Interval(Record):
    """Work on a device or worker between two times (seconds since the run began), measured or modelled."""

    lane: str
    start: Seconds
    end: Seconds
    label: str = ""
    measured: bool = True


class Routing(Record):
    """Which experts, layers or memory slots served which position, with their weights."""

    kind: Literal["expert", "layer", "memory"]
    position: Index
    layer: int
    chosen: list[int]
    weights: list[float] = []


class Memory(Record):
    """An entry of what a method remembers, as it stands after this step: behind a key of one or more tokens the tokens it expects, best first.

    `weights`: one number per token (a probability, a table's weight), or none where the memory only ranks. `read`: this step drafted from the entry;
    `written`: this step changed it. `source`: the part of the memory it lies in, such as matrix, corpus, adapted or 3-gram.
    """

    key: list[Index]
    tokens: list[Index]
    weights: list[float] = []
    read: bool = False
    written: bool = False
    source: str = ""

    def __post_init__(self) -> None:
        if len(self.weights) not in (0, len(self.tokens)):
            raise ValueError(f"memory: {len(self.weights)} weights for {len(self.tokens)} tokens")


class Choice(Record):
    """A decision between models, exits or modes, with the quantity that decided and the line it was held against."""

    options: list[str]
    chosen: str
    quantity: str
    value: float | None
    threshold: float
    unit: Unit = "score"
    raw: float | None = None  # the unsmoothed reading
    switched: bool = False  # after this step another option takes over
    detail: str = ""


class Box(Record):
    """A rectangle on the picture, in cells."""

    row: Index
    column: Index
    height: Count
    width: Count
    label: str = ""


class Media(Record):
    """An image token grid (`codes` has shape [rows, columns], -1 unknown), with boxes on it."""

    codes: Packed
    boxes: list[Box] = []

    def __post_init__(self) -> None:
        if self.codes.dtype not in ("u2", "i4") or len(self.codes.shape) != 2:
            raise ValueError(f"media: codes are whole numbers in rows and columns, not {self.codes.dtype} of shape {self.codes.shape}")


class Step(Record):
    """One turn of the loop: its cost, then the groups that the method filled."""

    index: Index
    forwards: dict[str, Count]  # by model role: target, draft, small, large, reward ...
    tokens_fed: Count  # rows x positions computed in those forwards
    model_seconds: Seconds
    method_seconds: Seconds
    commits: Commits | None = None
    scores: list[Lane] = []
    candidates: Candidates | None = None
    tree: Tree | None = None
    branches: list[Branch] = []
    spans: list[Span] = []
    lanes: list[Interval] = []
    routing: list[Routing] = []
    memory: list[Memory] = []
    choice: Choice | None = None
    media: Media | None = None
    facts: dict[str, float] = {}
    note: str = ""


class ModelRecord(Record):
    """Which weights ran, in which role, where. `options`: what the loader was told beside device, dtype and revision, as JSON would hold it."""

    role: str
    name: str
    kind: str
    sha256: str = ""
    revision: str = ""
    parameters: Count = 0
    dtype: str = ""
    device: str = "cpu"
    threads: Count = 1
    tokenizer: str = ""
    licence: str = ""
    options: dict[str, Any] = {}
    OPTIONS: ClassVar[tuple[str, ...]] = ("mask_id", "shift", "block_size", "device_map", "quantization")  # what `options` may hold

    @property
    def loading(self) -> dict[str, Any]:
        """What `load_model` is given beside the name to load these weights as they were then. Raises UserError for options that no loader had."""
        if odd := sorted(set(self.options) - set(self.OPTIONS)):  # a trace is a file, and anyone may have changed it
            raise UserError(f"this run names the loader option '{odd[0][:40]}', which is none of {', '.join(self.OPTIONS)}; the trace was changed by hand.")
        given = {"device": "device_map" not in self.options and self.device, "dtype": self.dtype, "revision": "/" in self.name and self.revision}
        return {name: value for name, value in given.items() if value} | self.options  # beside the hub a revision only says where the files are from


class Edit(Record):
    """What a person changed after a step: the next step continues from the changed state.

    `force`: position -> token. `remask`: positions to hide again (masked models). `forbid`: position -> tokens that may not stand there.
    `params`: new values of declared parameters. `method`: another method for the same kind of model takes over here, with `params` (its defaults where
    nothing is given); it begins anew from the board as it stands.
    """

    force: dict[int, int] = {}
    remask: list[Index] = []
    forbid: dict[int, list[int]] = {}
    params: dict[str, Any] = {}
    method: str = ""


class TimedEdit(Record):
    """An edit and the step after which it was sent; -1 is before the first step."""

    after_step: Annotated[int, Meta(ge=-1, le=EXACT)]
    edit: Edit


class Origin(Record):
    """Where a fork comes from: the trace with this hash, after `step` of its steps, with `edit` made there (None: nothing was changed).

    `parted`: the first step in which running again gave something else than the recording holds, where it did.
    """

    trace: str  # sha256 of the parent's JSON
    step: Count
    method: str
    title: str
    edit: Edit | None = None
    parted: Index | None = None


class Header(Record):
    """Everything that is known before the first step; enough to run it again.

    `imported_from`: the program and record that a trace was read from, if it was not made here. `missing`: what that record does not hold; the
    field is filled with a placeholder then (0, empty), which nobody may show as a value.
    """

    schema: Index
    method: str
    title: str
    family: str
    paper: str
    params: dict[str, Any]
    models: list[ModelRecord]
    prompt: str
    prompt_ids: list[Index]
    seed: int
    detail: Detail
    baseline: str | None
    lossless: bool
    emits: list[str]
    departures: str
    versions: dict[str, str]
    machine: str
    started_at: str
    eos_ids: list[Index]
    mask_id: int | None = None
    canvas: Count | None = None  # positions of a masked board, prompt included; None for a board that grows
    imported_from: str = ""
    missing: list[Absent] = []
    warmup_seconds: Seconds = 0.0
    edits: list[TimedEdit] = []
    origin: Origin | None = None  # of a fork


class End(Record):
    """How the run ended: complete, stopped (by a person), budget (steps or seconds ran out), failed (message says why)."""

    reason: Literal["complete", "stopped", "budget", "failed"]
    output_ids: list[int]
    text: str
    wall_seconds: Seconds  # from the first step's start to the end, recording and consumer included
    record_seconds: Seconds  # of it, spent on recording
    message: str = ""


class Totals(Record):
    """Sums over the steps. Tokens are counted as ids emitted before the first end mark; end and padding stand apart."""

    forwards: Count
    forwards_by_role: dict[str, Count]
    tokens_fed: Count
    tokens: Count
    end_tokens: Count
    padding: Count
    masks_left: Count
    model_seconds: Seconds
    method_seconds: Seconds


class Trace(Record):
    """A whole run. `pieces` is the token table: every id that occurs anywhere in the trace."""

    header: Header
    steps: list[Step]
    pieces: list[Piece]
    end: End

    @property
    def text(self) -> str:
        """The generated text up to the first end mark, special tokens left out."""
        return self.end.text

    @property
    def output_ids(self) -> list[int]:
        """All ids after the prompt as the run left them: end marks, padding and remaining masks included."""
        return self.end.output_ids

    @property
    def totals(self) -> Totals:
        """Counts and times summed over the steps."""
        return totals(self)

    def to_json(self) -> str:
        """Compact JSON; `Trace.from_json` gives an equal trace back."""
        return msgspec.json.encode(self).decode("utf-8")

    @classmethod
    def from_json(cls, text: str | bytes) -> Trace:
        """Read and validate. Raises TraceError with the place of the first fault; never executes or trusts anything in the text."""
        from engines.core.reading import read_trace

        return read_trace(text)


def totals(trace: Trace) -> Totals:
    """The sums behind `Trace.totals`."""
    by_role: dict[str, int] = {}
    for step in trace.steps:
        for role, n in step.forwards.items():
            by_role[role] = by_role.get(role, 0) + n
    ids, ends = trace.end.output_ids, set(trace.header.eos_ids)
    first_end = next((i for i, token in enumerate(ids) if token in ends), len(ids))
    masks = ids.count(trace.header.mask_id) if trace.header.mask_id is not None else 0
    body = ids[:first_end]
    return Totals(
        forwards=sum(by_role.values()),
        forwards_by_role=by_role,
        tokens_fed=sum(s.tokens_fed for s in trace.steps),
        tokens=len(body) - (body.count(trace.header.mask_id) if trace.header.mask_id is not None else 0),
        end_tokens=int(first_end < len(ids)),
        padding=sum(1 for token in ids[first_end + 1 :] if token != trace.header.mask_id),
        masks_left=masks,
        model_seconds=math.fsum(s.model_seconds for s in trace.steps),
        method_seconds=math.fsum(s.method_seconds for s in trace.steps),
    )


def step_tokens(step: Step) -> list[int]:
    """Every token id that a step mentions (the -1 that ends a board excepted)."""
    found: list[int] = []
    if step.commits:
        found += [t for t in step.commits.tokens if t >= 0]
    if step.candidates:
        step.candidates.probabilities.array()
        found += [int(t) for t in step.candidates.tokens.array().ravel()]
    if step.tree:
        found += step.tree.tokens + step.tree.emitted
    for entry in step.memory:
        found += entry.key + entry.tokens
    for branch in step.branches:
        found += branch.tokens
    return found
