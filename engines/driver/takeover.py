"""Another method takes over a run from the board as it is: which one, with which models and parameters, and from
where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from engines.core.errors import UserError
from engines.core.kinds import Model, counted
from engines.core.meter import Meter
from engines.core.method import Method
from engines.core.params import LENGTH, Params
from engines.core.recorder import Recorder
from engines.core.trace import Edit, Header, ModelRecord, Step
from engines.core.user_methods import explained
from engines.core.validation import parameters, successor
from engines.driver.roles import Roles, assign_roles, parts_of, roles_for


@dataclass(frozen=True)
class Successor:
    """A method that takes over, its models by role, and its parameters for the whole answer."""

    method: Method
    models: Mapping[str, Model]
    params: Params


def successor_of(edit: Edit, main: Model, models: Mapping[str, Model], length: int) -> Successor:
    """The method that an edit switches to. length: of the whole answer. Raises UserError where it does not fit."""
    method, p = successor(edit.method, main.record.kind, edit.params, length)
    assigned = assign_roles(method.info, roles_for(method.info, main, models))
    parts_of(method.info, assigned[method.info.role])  # refused now, not in the middle of the run
    return Successor(method, assigned, p)


def announce(header: Header, after: Successor) -> None:
    """The header of a run in which another method takes over, changed in place."""
    info, h = after.method.info, header
    h.title, h.baseline, h.lossless = (
        f"{h.title}, then {info.title}",
        None,
        h.lossless and info.keeps(vars(after.params)),
    )
    h.emits = sorted({*h.emits, *info.emits})
    h.records = {**h.records, **info.described}
    h.departures = " ".join(dict.fromkeys(d for d in (h.departures, info.departures) if d != "none")) or "none"
    h.own = "; ".join(dict.fromkeys(own for own in (h.own, info.own) if own))
    h.parts += _part_records(after)
    known = {(m.role, m.name) for m in h.models}
    h.models += [
        msgspec.structs.replace(m.record, role=role)
        for role, m in after.models.items()
        if (role, m.record.name) not in known
    ]


def _part_records(one: Successor) -> list[ModelRecord]:
    main = one.models[one.method.info.role]
    return [part.record(role, main.record) for role, part in parts_of(one.method.info, main).items()]


def begin(one: Successor, text: list[int], meter: Meter, recorder: Recorder) -> Any:
    """The generator of a method that reads `text` as its prompt, its models seen through the meter."""
    info = one.method.info
    models = {
        role: counted(model, role, meter.aside() if role in info.beside else meter, info.needs[role])
        for role, model in one.models.items()
    }
    seen: dict[str, Any] = models | parts_of(info, one.models[info.role])
    generator = one.method.decode(Roles(seen) if len(seen) > 1 else seen[info.role], text, one.params, recorder)
    return explained(info, generator) if info.file else generator


def take_over(one: Successor, board: list[int], header: Header, recorder: Recorder, length: int) -> Successor | None:
    """The successor with the room that is left for it on a board that it takes over; None where the edit that called it
    completed the answer. A masked method fills the board's masks, a causal one reads the text so far as its prompt.
    Raises UserError where nothing is left to decode."""
    start, masked, ends = len(header.prompt_ids), header.mask_id is not None, header.eos_ids
    room = len(board) - start if masked else length - (len(board) - start)
    ended = len(board) > start and board[-1] in ends
    if header.mask_id not in board if masked else room < 1 or ended:
        if not recorder.unrecorded:
            raise UserError(f"nothing is left to decode after step {recorder.steps}; fork at an earlier step.")
        return None
    return Successor(one.method, one.models, parameters(one.method, {**vars(one.params), LENGTH: room}))


def nothing() -> Iterator[Step]:
    """The loop of a method that has nothing left to do."""
    yield from ()
