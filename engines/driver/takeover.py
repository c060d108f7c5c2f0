"""The header of a run, which holds all that is known before its first step, enough to run it again; and how another
method takes over: which one, with which models and parameters, what the header says of it, and how much is left for it
to write. `Run` has it begin."""

import datetime
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from engines.core.kinds import KINDS, Model
from engines.core.machine import machine
from engines.core.method import Method, MethodInfo
from engines.core.params import LENGTH, Params
from engines.core.trace import SCHEMA_VERSION, Detail, Edit, Header, Origin
from engines.core.validation import method_after
from engines.core.version import versions
from engines.driver.roles import assign_roles, parts_of, roles_for


def _departures(info: MethodInfo, main: Model) -> str:
    """What departs from the paper; beside a published drafter, that it is not about this one."""
    drafter = getattr(main, "drafter", None)
    if drafter is None or not any(drafter.format in formats for formats in info.drafters.values()):
        return info.departures
    return " ".join(
        [
            f"It drafts with the published checkpoint {drafter.name} ({drafter.title}), so what follows of a part that "
            "was trained here does not hold.",
            *drafter.notes,
            info.departures,
        ]
    )


def header_of(
    info: MethodInfo,
    models: Mapping[str, Model],
    p: Params,
    prompt: str,
    ids: list[int],
    seed: int,
    detail: Detail,
    warmup: float,
    origin: Origin | None,
) -> Header:
    """The header of a run of `info` that begins now. ids: the prompt's tokens; warmup: seconds spent on it."""
    main, masked = models[info.role], KINDS[info.kind].masked
    size = getattr(main, "block_size", 1)  # a block-diffusion board is made of whole blocks
    return Header(
        schema=SCHEMA_VERSION,
        method=info.slug,
        title=info.title,
        family=info.family,
        paper=info.paper,
        params=dict(vars(p)),
        models=[msgspec.structs.replace(model.record, role=role) for role, model in models.items()],
        prompt=prompt,
        prompt_ids=ids,
        seed=seed,
        detail=detail,
        baseline=info.baseline,
        lossless=info.keeps(vars(p)),
        emits=sorted(info.emits),
        records=info.described,
        departures=_departures(info, main),
        own=info.own,
        signature=info.signature,
        versions=dict(versions()) | ({"method file": f"sha256 {info.version[:16]}"} if info.file else {}),
        machine=machine(model.record.device for model in models.values()),
        started_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        eos_ids=sorted(main.eos_ids),
        mask_id=getattr(main, "mask_id", None) if masked else None,
        canvas=-(-(len(ids) + getattr(p, LENGTH, 0)) // size) * size if masked else None,
        warmup_seconds=warmup,
        origin=origin,
        parts=[part.record(role, main.record) for role, part in parts_of(info, main).items()],
    )


@dataclass(frozen=True)
class BoundMethod:
    """A method that takes over, with its models by role and its parameters for the whole answer."""

    method: Method
    models: Mapping[str, Model]
    params: Params


def bind(edit: Edit, main: Model, models: Mapping[str, Model], length: int) -> BoundMethod:
    """The method that an edit switches to. length: of the whole answer. Raises UserError where it does not fit."""
    method, p = method_after(edit.method, main.record.kind, edit.params, length)
    assigned = assign_roles(method.info, roles_for(method.info, main, models))
    parts_of(method.info, assigned[method.info.role])  # refused now, not in the middle of the run
    return BoundMethod(method, assigned, p)


def announce(header: Header, after: BoundMethod) -> None:
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
    main = after.models[info.role]
    h.parts += [part.record(role, main.record) for role, part in parts_of(info, main).items()]
    known = {(m.role, m.name) for m in h.models}
    h.models += [
        msgspec.structs.replace(m.record, role=role)
        for role, m in after.models.items()
        if (role, m.record.name) not in known
    ]


def room_left(board: list[int], header: Header, length: int) -> int:
    """How many positions a method that takes over a board is given: of a masked board all behind the prompt, of a text
    those that are left of `length`; 0 where no mask is left, or the text is whole or ended."""
    answer_length = len(board) - len(header.prompt_ids)
    if header.mask_id is not None:
        return answer_length if header.mask_id in board else 0
    ended = answer_length > 0 and board[-1] in header.eos_ids
    return 0 if ended else max(0, length - answer_length)
