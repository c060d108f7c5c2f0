"""Fork a recorded run: the same method, model, prompt, parameters and seed are run again up to a step, and go on from
there with a change.

Nothing is restored from the recording. The run is deterministic, so running it again gives the state of every method,
whatever it keeps; the replayed steps are held against the recorded ones, and where they differ (other weights, another
number type, another machine) the fork says so."""

from collections.abc import Mapping
from typing import Any

import msgspec

from engines.core.devices import loaded_with
from engines.core.errors import UserError
from engines.core.kinds import KINDS
from engines.core.params import LENGTH
from engines.core.registry import get_method
from engines.core.trace import WATCHED, Detail, Edit, Header, Origin, Trace
from engines.driver.replay import Replay
from engines.driver.roles import assign_roles, roles_for
from engines.driver.run import MAX_STEPS, Run, stream
from engines.driver.watched import FromBoard, digest, forking_method
from engines.models.files.hub import HUB_ID


def stream_fork(
    trace: Trace,
    step: int,
    *,
    edit: Edit | None = None,
    method: str = "",
    params: Mapping[str, Any] | None = None,
    model: Any = None,
    detail: Detail | None = None,
    max_steps: int = MAX_STEPS,
    max_seconds: float | None = None,
) -> Run:
    """A fork of `trace` after `step` of its steps (0: before the first one), as an iterator of steps. `next` replays
    first, then goes on.

    edit: tokens to force, forbid or hide again. method: another method for the same kind of model, which begins anew
    from the board there; a watched loop needs one. params: new values for the method, or the parameters of the new one.
    model: as in `run`; by default the trace's models by their names. Raises UserError."""
    change = msgspec.structs.replace(edit or Edit(), method=method or (edit.method if edit else ""))
    change.params = {**change.params, **(params or {})}
    if not isinstance(step, int) or isinstance(step, bool) or not 0 <= step <= len(trace.steps):
        raise UserError(
            f"step={str(step)[:40]} cannot be forked; this run has {len(trace.steps)} steps, give a whole number from "
            f"0 to {len(trace.steps)}."
        )
    if trace.steps and all(recorded.commits is None for recorded in trace.steps):
        raise UserError(
            "this trace was recorded without its tokens (detail=none), so a replay could not be checked; record it "
            "with detail=light or full."
        )
    h, changed = trace.header, change != Edit()
    if h.method == WATCHED:
        return _from_board(
            trace, step, change, model, detail=detail or h.detail, max_steps=max_steps, max_seconds=max_seconds
        )
    slug, given = h.method, h.params
    models = assign_roles(get_method(slug).info, models_of(h) if model is None else model)
    if step == 0 and change.method:  # nothing of the old method is left
        slug, given = change.method, {LENGTH: h.params[LENGTH], **change.params}
        models = _passed_on(h.method, change.method, models)
        changed, now = True, msgspec.structs.replace(change, method="", params={})
    else:
        now = change
    edits = [(timed.after_step, timed.edit) for timed in h.edits if timed.after_step < step - 1]
    edits += [(step - 1, now)] if changed and now != Edit() else []
    origin = Origin(digest(trace), step, h.method, h.title, change if changed else None)
    run = stream(
        slug,
        models,
        h.prompt_ids,
        params=given,
        seed=h.seed,
        detail=detail or h.detail,
        edits=edits,
        max_steps=max_steps,
        max_seconds=max_seconds,
        replay=Replay(origin, trace.steps),
    )
    run.header.prompt = h.prompt  # the text as a person gave it, not the ids' text
    return run


def _from_board(trace: Trace, step: int, change: Edit, model: Any, **options: Any) -> Run:
    """A method takes over from the board of a watched loop. Raises UserError."""
    h, slug = trace.header, forking_method(trace, change.method)
    info = get_method(slug).info
    if KINDS[info.needs[info.role]].board != h.models[0].kind:
        raise UserError(
            f"'{slug}' is for {info.kind} models and this run has a {h.models[0].kind} one; choose a method for those."
        )
    models = assign_roles(info, models_of(h, slug) if model is None else model)
    return FromBoard(trace, step, change, get_method(slug), models, **options)


def fork(trace: Trace, step: int, **options: Any) -> Trace:
    """The finished fork of a recorded run. Arguments as in `stream_fork`."""
    run = stream_fork(trace, step, **options)
    try:
        for _ in run:
            pass
    finally:
        run.close()
    return run.trace()


def models_of(header: Header, method: str = "", **options: Any) -> dict[str, Any]:
    """The models of a trace by their names, loaded as they were then but for the options of `load_model` given here,
    for the roles of the method that began it, or of the one that takes over from a watched loop. Raises UserError where
    one is not known here."""
    from engines.models.loading import zoo

    watched = header.method == WATCHED
    info = get_method(method if watched else header.method).info
    models: dict[str, Any] = {}
    for number, record in enumerate(header.models):
        role = info.role if watched and not number else record.role
        if role not in info.needs or role in models:
            continue  # of a method that took over later
        if not zoo.is_known(record.name):
            known = {m.name for m in zoo.list_models()}
            raise UserError(
                f"this run was made with the model '{record.name[:80]}', which is not available here; the models here "
                f"are {', '.join(sorted(known))}."
            )
        models[role] = zoo.load_model(record.name, **loaded_with(record.loading, options))
    return models | _drafted(header, info.role, models)


def _drafted(header: Header, role: str, models: Mapping[str, Any]) -> dict[str, Any]:
    """The picked model with the published drafter that the run drafted with, by its hub id; nothing where it had none.
    Raises UserError for one that came from a folder, whose place a trace does not tell."""
    part = next((part for part in header.parts if "format" in part.options), None)
    if part is None or role not in models:
        return {}
    if not HUB_ID.fullmatch(part.name):
        raise UserError(
            f"this run drafted with the checkpoint '{part.name[:80]}' of a folder, which a trace does not name; give "
            "the model with it (TARGET + FOLDER)."
        )
    from engines.models.drafters import load_drafter, with_drafter

    model = models[role]
    return {role: with_drafter(model, load_drafter(part.name, model, revision=part.revision or None, force=True))}


def _passed_on(before: str, after: str, models: Mapping[str, Any]) -> dict[str, Any]:
    """The models of one method for the roles of another. Raises UserError where the two need other kinds."""
    a, b = get_method(before).info, get_method(after).info
    if a.kind != b.kind:
        raise UserError(
            f"'{after}' needs a {b.kind} model and this run has a {a.kind} one; switch to a method for {a.kind} models."
        )
    return roles_for(b, models[a.role], models)
