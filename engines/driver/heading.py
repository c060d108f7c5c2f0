"""The header of a run: everything that is known before its first step, enough to run it again."""

import datetime
from collections.abc import Mapping

import msgspec

from engines.core.kinds import KINDS, Model
from engines.core.machine import machine
from engines.core.method import MethodInfo
from engines.core.params import LENGTH, Params
from engines.core.trace import SCHEMA_VERSION, Detail, Header, Origin
from engines.core.version import versions
from engines.driver.roles import parts_of


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
