"""From what was read to a trace, which everything else here takes: steps with their costs, header, token table, end.

What the loop does not show is listed in the header's `missing`: its parameters, its seed, a warm-up, and the tokens of
the last step where no output was given."""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from msgspec.structs import replace

from engines.core.kinds import Tokenizer
from engines.core.machine import machine
from engines.core.method import LaneInfo
from engines.core.packing import FOCUS_LIMIT, pack_scores
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
from engines.watching.hooks import Call, layer_count
from engines.watching.iteration import Reading, Turn, Written
from engines.watching.rows import row_of
from engines.watching.subjects import Subject

LANES = {
    "confidence": LaneInfo("probability", "The largest probability at each open position."),
    "entropy": LaneInfo("nats", "Entropy of the distribution at each open position."),
    "joint": LaneInfo("nats", "The entropies that are lower, added up."),
}


@dataclass
class Session:
    """What is watched, by role with the one that decides first, and how. prompt: as text, where it was given so.
    began, ended: the `with` block, on time.perf_counter."""

    subjects: dict[str, Subject]
    kind: str
    title: str
    tokenizer: Tokenizer
    eos_ids: list[int]
    mask_id: int | None
    detail: Detail
    prompt: str
    began: float = 0.0
    ended: float = 0.0
    started_at: datetime.datetime = field(default_factory=lambda: datetime.datetime.now(datetime.UTC))

    @property
    def main(self) -> str:
        """The role of the module that decides."""
        return next(iter(self.subjects))

    @cached_property
    def models(self) -> list[ModelRecord]:
        """What the header says of each module."""
        return [replace(subject.record(self.kind), role=role) for role, subject in self.subjects.items()]

    @cached_property
    def layers(self) -> dict[str, int]:
        """Transformer layers by role, 0 where no config says it."""
        return {role: layer_count(getattr(known.module, "config", None)) for role, known in self.subjects.items()}


def assemble(reading: Reading, session: Session, faults: Sequence[str] = ()) -> Trace:
    """The trace of one answer. faults: sentences of what ended the watching early."""
    steps = [_step(i, iteration, reading, session) for i, iteration in enumerate(reading.turns)]
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


def _step(index: int, iteration: Turn, reading: Reading, session: Session) -> Step:
    """The step of a turn, without its times."""
    forwards: dict[str, int] = {}
    work: dict[str, int] = {}
    for call in iteration.calls:
        if call.forward:
            forwards[call.role] = forwards.get(call.role, 0) + 1
        if rows := _layer_rows(call, reading, session):
            work[call.role] = work.get(call.role, 0) + rows
    step = Step(
        index=index,
        forwards=forwards,
        tokens_fed=sum(_fed(call, reading) for call in iteration.calls),
        model_seconds=sum(call.ended - call.began for call in iteration.calls),
        method_seconds=0.0,
        work=work,
        commits=_commits(iteration.commits, reading.shift, iteration, session.main),
        tree=iteration.tree,
        spans=iteration.spans,
        branches=iteration.branches,
        facts=iteration.recorded_facts,
        records=iteration.records,
        note=" ".join(iteration.notes),
    )
    if iteration.facts and iteration.start is not None:
        _described(step, iteration, reading.shift)
    return step


def _described(step: Step, iteration: Turn, shift: bool) -> None:
    """Scores and candidates of the open places whose rows were taken down."""
    assert iteration.facts is not None and iteration.start is not None
    rows = iteration.rows or {place: row_of(place, iteration.start, shift) for place in iteration.open}
    at = [place for place, row in sorted(rows.items()) if row in iteration.facts.place]
    if not at:
        return
    index = [iteration.facts.place[rows[place]] for place in at]
    facts = iteration.facts
    lanes = {"confidence": (at, facts.confidence[index]), "entropy": (at, facts.entropy[index]), **iteration.lanes}
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


def _commits(commits: Sequence[Written], shift: bool, iteration: Turn, role: str) -> Commits | None:
    if not commits:
        return None
    p = [commit.before if shift else commit.p for commit in commits]
    return Commits(
        [commit.position for commit in commits],
        [commit.token for commit in commits],
        [commit.cause for commit in commits],
        [None if probability is None else round(probability, 6) for probability in p]
        if any(probability is not None for probability in p)
        else [],
        [_author(commit.cause, iteration, role) for commit in commits],
    )


def _author(cause: str, iteration: Turn, role: str) -> str:
    """Who proposed a token: a watched model, or nobody that is known."""
    if cause == "constraint":
        return cause
    if cause != "accepted" or iteration.records:
        return role
    return "draft" if any(call.role != role for call in iteration.calls) else "unknown"


def _timed(steps: list[Step], turns: Sequence[Turn], session: Session) -> None:
    """Share out the time between the calls: what passes behind a call belongs to its step, what passes before the
    first one to the first step. The hooks' own time is left out."""
    calls = [(call, index) for index, iteration in enumerate(turns) for call in iteration.calls]
    calls.sort(key=lambda pair: pair[0].entered)
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
    sentences = [fault for fault in faults if fault]
    if table.unknown >= 0:
        sentences.append(
            f"The tokenizer has no token {table.unknown}, so it does not fit this model; such tokens are shown as "
            "numbers: give the model's own as tokenizer=."
        )
    recorded = sum(call.recorded for iteration in reading.turns for call in iteration.calls)
    return End(
        reason="failed" if any(faults) else "complete",
        output_ids=output,
        text=session.tokenizer.decode(shown).strip(),
        wall_seconds=max(0.0, session.ended - session.began),
        record_seconds=recorded,
        message=" ".join(sentences),
    )
