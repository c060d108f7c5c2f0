"""What is known before the first step and after the last: header, models, edits, token table entries, end."""

from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta

from engines.core.errors import UserError
from engines.core.trace.base import EXACT, Count, Detail, Index, Record, Seconds
from engines.core.trace.records import RecordInfo

SCHEMA_VERSION = 3
IMPORTED = "imported"  # what `Header.method` says of a record of another program, or of a server's answer
WATCHED = "watched"  # what `Header.method` says of a loop that was watched: no method made it
Absent = Literal[
    "prompt_ids",
    "tokens",
    "token_ids",
    "token_texts",
    "seed",
    "params",
    "steps",
    "end_marks",
    "forwards",
    "tokens_fed",
    "work",
    "model_seconds",
    "method_seconds",
    "wall_seconds",
    "record_seconds",
    "warmup_seconds",
]


class Piece(Record):
    """What one token id looks like. `kind`: text, special (mask, end ...) or byte (a fragment of a character, shown as
    hex). `token`: of a record in which an id stood for several texts, the id that this is a further text of; `id` is a
    number of the table's own then."""

    id: Index
    text: str
    kind: Literal["text", "special", "byte"] = "text"
    token: Index | None = None

    @property
    def token_id(self) -> int:
        """The id as the model has it."""
        return self.id if self.token is None else self.token


class ModelRecord(Record):
    """Which weights ran, in which role, where. `options`: what the loader was told beside device, dtype and revision,
    as JSON would hold it. moved: by how much a logit of a row moved at most when other rows were fed beside it, where
    that was measured at loading; 0 says that its bits stayed. slower: with row-invariant forwards, seconds of a forward
    of one row over the plain network's, measured at loading."""

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
    moved: float | None = None
    slower: float | None = None
    OPTIONS: ClassVar[tuple[str, ...]] = (
        "mask_id",
        "eos_id",
        "shift",
        "block_size",
        "device_map",
        "quantization",
        "gpu_layers",
        "row_invariant",
    )  # what `options` may hold

    @property
    def loading(self) -> dict[str, Any]:
        """What `load_model` is given beside the name to load these weights as they were then. Raises UserError for
        options that no loader had."""
        if odd := sorted(set(self.options) - set(self.OPTIONS)):  # a trace is a file, and anyone may have changed it
            raise UserError(
                f"this run names the loader option '{odd[0][:40]}', which is none of {', '.join(self.OPTIONS)}; the "
                "trace was changed by hand."
            )
        given = {
            "device": "device_map" not in self.options and self.device,
            "dtype": self.dtype,
            "revision": "/" in self.name and self.revision,
        }
        return {
            name: value for name, value in given.items() if value
        } | self.options  # beside the hub a revision only says where the files are from


class Edit(Record):
    """What a person changed after a step: the next step continues from the changed state.

    `force`: position -> token. `remask`: positions to hide again (masked models). `forbid`: position -> tokens that may
    not stand there. `params`: new values of declared parameters. `method`: another method for the same kind of model
    takes over here, with `params` (its defaults where nothing is given); it begins anew from the board as it stands.
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
    """Where a fork comes from: the trace with this hash, after `step` of its steps, with `edit` made there (None:
    nothing was changed).

    `diverged`: the first step in which running again gave something else than the recording holds, where it did.
    """

    trace: str  # sha256 of the parent's JSON
    step: Count
    method: str
    title: str
    edit: Edit | None = None
    diverged: Index | None = None


class Header(Record):
    """Everything that is known before the first step; enough to run it again.

    `imported_from`: the program and record that a trace was read from, if it was not made here. `missing`: what that
    record does not hold; the field is filled with a placeholder then (0, empty), which nobody may show as a value."""

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
    parts: list[ModelRecord] = []  # trained parts of a model that the method used, by role, of kind "part"
    own: str = ""  # follows the title: written from less than the paper's text, or another algorithm than it
    records: dict[str, RecordInfo] = {}  # by name: what the method's own records are
    signature: str = ""  # the view that shows the method's idea, as the method declares it
    arrivals: bool = (
        False  # of an answer that a server sent: model_seconds are those until it was here, with all in them
    )


class End(Record):
    """How the run ended: complete, stopped (by a person), budget (steps or seconds ran out), failed (message says
    why)."""

    reason: Literal["complete", "stopped", "budget", "failed"]
    output_ids: list[int]
    text: str
    wall_seconds: Seconds  # from the first step's start to the end, recording and consumer included
    record_seconds: Seconds  # of it, spent on recording
    message: str = ""
    # Of the model calls, each by itself, and of them those in which the calling thread ran; 0: not recorded.
    called_seconds: Seconds = 0.0
    processor_seconds: Seconds = 0.0
