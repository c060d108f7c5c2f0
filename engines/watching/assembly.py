"""From what was read to a trace, which everything else here takes: steps with their costs, header, token table, end.

What the loop does not show is listed in the header's `missing`: its parameters, its seed, a warm-up, and the tokens of
the last step where no output was given."""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engines.core.kinds import Tokenizer
from engines.core.machine import machine
from engines.core.method import LaneInfo
from engines.core.recording import FOCUS_LIMIT, pack_scores
from engines.core.trace import (
    SCHEMA_VERSION,
    WATCHED,
    Candidates,
    Commits,
    Detail,
    End,
    Header,
    ModelRecord,
    Piece,
    Step,
    Trace,
    pack,
    step_tokens,
)
from engines.core.trace.records import places
from engines.core.version import versions
from engines.watching.hooks import Call
from engines.watching.iteration import Reading, Turn, Written
from engines.watching.rows import row_of

LANES = {
    "confidence": LaneInfo("probability", "The largest probability at each open position."),
    "entropy": LaneInfo("nats", "Entropy of the distribution at each open position."),
    "joint": LaneInfo("nats", "The entropies that are lower, added up."),
}


@dataclass
class Session:
    """What was known when watching ended. layers: transformer layers by role, where a config says it. began, ended:
    the `with` block, on time.perf_counter."""

    title: str
    main: str
    models: list[ModelRecord]
    layers: dict[str, int]
    tokenizer: Tokenizer
    eos_ids: list[int]
    mask_id: int | None
    detail: Detail
    began: float
    ended: float
    started_at: datetime.datetime
    prompt: str = ""


def assemble(reading: Reading, session: Session, faults: Sequence[str] = ()) -> Trace:
    """The trace of one answer. faults: sentences of what ended the watching early."""
    steps = [_step(i, turn, reading, session) for i, turn in enumerate(reading.turns)]
    _timed(steps, reading.turns, session)
    table = Table(session.tokenizer)
    output = reading.board[reading.prompt :]
    table.register_tokens(reading.board)
    table.register_tokens([] if session.mask_id is None else [session.mask_id])
    held = places(reading.records, "token")
    for step in steps:
        table.register_tokens(step_tokens(step, held))
    return Trace(
        _header(reading, session, steps), steps, list(table.pieces.values()), _end(reading, session, output, table,
        [*faults, reading.fault])
    )  # fmt: skip


class Table:
    """The token table, filled as tokens are named."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.pieces: dict[int, Piece] = {}
        self._tokenizer, self._size = tokenizer, int(getattr(tokenizer, "size", 2**62))
        self.unknown = -1  # an id beyond the tokenizer

    def register_tokens(self, tokens: Sequence[int]) -> None:
        """Put tokens into the table; those that the tokenizer does not have are shown as their numbers."""
        for token in tokens:
            if token not in self.pieces:
                beyond = token >= self._size
                self.unknown = token if beyond and self.unknown < 0 else self.unknown
                self.pieces[token] = Piece(token, f"·{token}", "special") if beyond else self._tokenizer.piece(token)


def _step(index: int, turn: Turn, reading: Reading, session: Session) -> Step:
    """The step of a turn, without its times."""
    forwards: dict[str, int] = {}
    work: dict[str, int] = {}
    for call in turn.calls:
        if call.forward:
            forwards[call.role] = forwards.get(call.role, 0) + 1
        if rows := _layer_rows(call, reading, session):
            work[call.role] = work.get(call.role, 0) + rows
    step = Step(
        index=index,
        forwards=forwards,
        tokens_fed=sum(_fed(call, reading) for call in turn.calls),
        model_seconds=sum(call.ended - call.began for call in turn.calls),
        method_seconds=0.0,
        work=work,
        commits=_commits(turn.written, reading.shift, turn, session.main),
        tree=turn.tree,
        spans=turn.spans,
        branches=turn.branches,
        facts=turn.told,
        records=turn.records,
        note=" ".join(turn.notes),
    )
    if turn.facts and turn.start is not None:
        _described(step, turn, reading.shift)
    return step


def _described(step: Step, turn: Turn, shift: bool) -> None:
    """Scores and candidates of the open places whose rows were taken down."""
    assert turn.facts is not None and turn.start is not None
    rows = turn.rows or {place: row_of(place, turn.start, shift) for place in turn.open}
    at = [place for place, row in sorted(rows.items()) if row in turn.facts.place]
    if not at:
        return
    index = [turn.facts.place[rows[place]] for place in at]
    facts = turn.facts
    lanes = {"confidence": (at, facts.confidence[index]), "entropy": (at, facts.entropy[index]), **turn.lanes}
    step.scores = pack_scores(lanes, LANES, {})
    focus = index[:FOCUS_LIMIT]
    tokens, chances = facts.tokens[focus].cpu().numpy(), facts.chances[focus].cpu().numpy()
    step.candidates = Candidates(at[:FOCUS_LIMIT], pack(tokens), pack(chances, 0.0, 1.0))


def _fed(call: Call, reading: Reading) -> int:
    """Positions computed for one answer: its share of a batch of several, all rows of guidance and of beams."""
    return call.n * max(1, call.batch // reading.rows)


def _layer_rows(call: Call, reading: Reading, session: Session) -> int:
    """Rows that layers computed for one answer: as they ran, or, where they cannot be seen, by the number of layers."""
    if call.layer_rows:
        return round(call.layer_rows * max(1, call.batch // reading.rows) / call.batch)
    return session.layers.get(call.role, 0) * _fed(call, reading)


def _commits(written: Sequence[Written], shift: bool, turn: Turn, role: str) -> Commits | None:
    if not written:
        return None
    p = [one.before if shift else one.p for one in written]
    return Commits(
        [one.position for one in written],
        [one.token for one in written],
        [one.cause for one in written],
        [None if one is None else round(one, 6) for one in p] if any(one is not None for one in p) else [],
        [_author(one.cause, turn, role) for one in written],
    )


def _author(cause: str, turn: Turn, role: str) -> str:
    """Who proposed a token: a watched model, or nobody that is known."""
    if cause == "constraint":
        return cause
    if cause != "accepted" or turn.records:
        return role
    return "draft" if any(call.role != role for call in turn.calls) else "unknown"


def _timed(steps: list[Step], turns: Sequence[Turn], session: Session) -> None:
    """Share out the time between the calls: what passes behind a call belongs to its step, what passes before the
    first one to the first step. The hooks' own time is left out."""
    calls = [(call, index) for index, turn in enumerate(turns) for call in turn.calls]
    calls.sort(key=lambda one: one[0].entered)
    for place, (call, index) in enumerate(calls):
        upto = calls[place + 1][0].entered if place + 1 < len(calls) else max(call.left, session.ended)
        before = max(0.0, call.entered - session.began) if place == 0 else 0.0
        steps[index].method_seconds += before + max(0.0, upto - call.left)


def _header(reading: Reading, session: Session, steps: Sequence[Step]) -> Header:
    names = ("commits", "scores", "candidates", "tree", "spans", "branches", "facts", "note")
    groups = {name for step in steps for name in names if getattr(step, name)}
    ids = reading.board[: reading.prompt]
    about = ["The loop was watched from outside: its rule and its parameters are not known."]
    if not reading.records:
        about.append("Probabilities are the model's own, without any temperature, filter or noise of the loop.")
    about += reading.remarks
    if reading.rows > 1:
        about.append(f"Row {reading.row} of {reading.rows} that were decoded together; times are those of all of them.")
    lost: list[Any] = ["params", "seed", "warmup_seconds"]
    lost += [] if reading.complete else ["tokens"]
    lost += [] if all(session.layers.get(model.role) for model in session.models) else ["work"]
    return Header(
        schema=SCHEMA_VERSION,
        method=WATCHED,
        title=session.title,
        family=WATCHED,
        paper="",
        params={},
        models=session.models,
        prompt=session.prompt or session.tokenizer.decode(ids).strip(),
        prompt_ids=ids,
        seed=0,
        detail=session.detail,
        baseline=None,
        lossless=False,
        emits=sorted(groups),
        departures=" ".join(about),
        versions=dict(versions()),
        machine=machine(model.device for model in session.models),
        started_at=session.started_at.isoformat(timespec="seconds"),
        eos_ids=session.eos_ids,
        mask_id=session.mask_id,
        canvas=reading.canvas,
        missing=lost,
        records=reading.records,
    )


def _end(reading: Reading, session: Session, output: list[int], table: Table, faults: Sequence[str]) -> End:
    ends = set(session.eos_ids)
    cut = next((i for i, token in enumerate(output) if token in ends), len(output))
    shown = [token for token in output[:cut] if token != session.mask_id]
    said = [fault for fault in faults if fault]
    if table.unknown >= 0:
        said.append(
            f"The tokenizer has no token {table.unknown}, so it does not fit this model; such tokens are shown as "
            "numbers: give the model's own as tokenizer=."
        )
    recorded = sum(call.recorded for turn in reading.turns for call in turn.calls)
    return End(
        reason="failed" if any(faults) else "complete",
        output_ids=output,
        text=session.tokenizer.decode(shown).strip(),
        wall_seconds=max(0.0, session.ended - session.began),
        record_seconds=recorded,
        message=" ".join(said),
    )
