"""Which methods run on which models: one rule for the page's forms, sweeps and the command line."""

from collections.abc import Collection, Sequence
from typing import Any

import engines
from engines import MethodInfo


def wants(info: MethodInfo) -> list[str]:
    """What must be at hand beside the picked model: companions by their roles, but those that are optional, and trained
    parts by their names."""
    return [*(role for role in list(info.needs)[1:] if role not in info.optional), *info.parts.values()]


def needed(info: MethodInfo, given: Collection[str] = ()) -> str:
    """The same in words, behind "needs a": the model, and what must be beside it. given: roles whose models are
    named."""
    return " and ".join(
        [f"{info.needs[info.role]} model", *(f"its {role}" for role in wants(info) if role not in given)]
    )


def has(model: Any) -> set[str]:
    """The same, as a listed model has it."""
    return {*model.roles, *model.parts}


def fits(info: MethodInfo, model: Any, drafted: bool = False, given: Collection[str] = ()) -> bool:
    """Whether a listed model can be picked for a method: of the kind of its board and of the kind that it needs, with
    a companion for every further role and the trained parts. drafted: with a published drafter, which stands in the
    place of one of them. given: roles whose models are named anyway."""
    beside = has(model) | (replaced(info) if drafted else set()) | {*given}
    return model.kind == info.kind and info.needs[info.role] in model.kinds and {*wants(info)} <= beside


def first(
    infos: Sequence[MethodInfo], models: Sequence[Any], drafted: bool = False, given: Collection[str] = ()
) -> Any | None:
    """The model of these that methods run on where none is named: the first that fits all of them, one that ships
    before one that may have to be fetched. None where none fits."""
    fitting = (model for model in models if all(fits(info, model, drafted, given) for info in infos))
    return min(fitting, key=lambda model: model.where != "embedded", default=None)


def replaced(info: MethodInfo) -> set[str]:
    """The trained parts in whose place a published drafter can draft."""
    return {info.parts[role] for role in info.drafters}


def drafts(info: MethodInfo, model: Any) -> set[str]:
    """The parts of a method in whose place the published drafter beside a loaded model drafts."""
    drafter = getattr(model, "drafter", None)
    return {info.parts[role] for role, formats in info.drafters.items() if drafter and drafter.format in formats}


def runs_on(info: MethodInfo, model: Any, models: Sequence[Any] | None = None) -> bool:
    """The same for a loaded model, which may be listed nowhere. models: the listed ones, where they were listed
    already, since that reads files."""
    listed = engines.list_models() if models is None else models
    beside = next((has(listed_model) for listed_model in listed if listed_model.name == model.record.name), set[str]())
    beside |= drafts(info, model)
    return info.needs[info.role] in engines.kinds_of(model) and {*wants(info)} <= beside
