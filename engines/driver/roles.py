"""Which loaded model plays which role of a method."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from engines.core.errors import UserError
from engines.core.kinds import KINDS, Model, kinds_of
from engines.core.method import MethodInfo
from engines.core.trace import ModelRecord


@dataclass(frozen=True)
class Roles:
    """Several models of one run by role, read as attributes: `models.small`, `models.large`, each of the kind that the
    method declares for it, and the trained parts that it asks for, such as `models.head`."""

    models: Mapping[str, Any]

    def __getattr__(self, role: str) -> Any:
        try:
            return self.models[role]
        except KeyError:
            raise AttributeError(role) from None


def assign_roles(info: MethodInfo, model: Any) -> dict[str, Model]:
    """A loaded model of the right kind for every role; missing roles come from the model's companions. A drafter that
    is given for the role of a part stands beside the picked model from then on. Raises UserError."""
    from engines.models.loading import zoo

    given = dict(model) if isinstance(model, Mapping) else {info.role: model}
    drafters = {role: given.pop(role) for role in info.drafters if role in given}
    if unknown := set(given) - set(info.needs):
        known = ", ".join((*info.needs, *info.drafters))
        raise UserError(f"unknown role '{sorted(unknown)[0]}'; '{info.slug}' has the roles {known}.")
    if given.get(info.role) in (None, ""):
        raise UserError(f"'{info.slug}' needs a model for the role '{info.role}'; give its name, or a loaded one.")
    loaded: dict[str, Model] = {}
    for role, kind in info.needs.items():
        model_or_name = given.get(role) or zoo.companion(loaded[info.role].record.name, role)
        if model_or_name is None and role in info.optional:
            continue
        if model_or_name is None:
            names = [m.name for m in zoo.list_models() if role in m.roles] or ["a model with one beside it"]
            raise UserError(
                f"'{info.slug}' needs a second model for the role '{role}' with the tokenizer of "
                f"{loaded[info.role].record.name}, and none is known; "
                f"choose {' or '.join(names)}, or give both as {{'{info.role}': ..., '{role}': ...}}."
            )
        if isinstance(model_or_name, (str, os.PathLike)):
            main = loaded[info.role].record if role not in given else None
            beside = {"device": main.device, "dtype": main.dtype} if main else {}
            model_or_name = zoo.load_model(model_or_name, **beside)
        loaded[role] = model_or_name
        if kind not in kinds_of(loaded[role]):
            if KINDS[kind].of == loaded[role].record.kind and (instead := getattr(loaded[role], "instead", "")):
                raise UserError(
                    f"'{info.slug}' reads layers, and {loaded[role].record.name} is a GGUF file, of which llama.cpp "
                    f"gives logits only; load {instead}, or choose another method."
                )
            fitting = ", ".join(m.name for m in zoo.list_models() if kind in m.kinds)
            what_to_do = f"choose one of {fitting}" if fitting else "none is built in, give a folder or a hub id"
            raise UserError(
                f"'{info.slug}' needs a {kind} model, {loaded[role].record.name} is {loaded[role].record.kind}; "
                f"{what_to_do}."
            )
    _check_shared_tokenizer(info, loaded)
    for role, drafter in drafters.items():
        loaded[info.role] = _beside(info, role, drafter, loaded[info.role])
    return loaded


def _beside(info: MethodInfo, role: str, drafter: Any, main: Model) -> Model:
    """The picked model with a drafter, loaded or by its folder or hub id, for a role of this method. Raises UserError
    for a drafter of another format."""
    from engines.models.drafters import load_drafter, with_drafter

    loaded = load_drafter(drafter, main) if isinstance(drafter, (str, os.PathLike)) else drafter
    if loaded.format not in info.drafters[role]:
        raise UserError(
            f"'{info.slug}' drafts with {' or '.join(info.drafters[role])} checkpoints, and {loaded.name} is of the "
            f"format {loaded.format}; choose the method for that."
        )
    return with_drafter(main, loaded)


def _check_shared_tokenizer(info: MethodInfo, loaded: Mapping[str, Model]) -> None:
    from engines.models.tokenizers.tokens import same_vocabulary

    first, *all_others = loaded.values()
    others = [model for model in all_others if KINDS[model.record.kind].board == KINDS[first.record.kind].board]
    for other in others:  # a model of another kind of board writes none of these tokens
        if not same_vocabulary(first.tokenizer, other.tokenizer):
            raise UserError(
                f"'{info.slug}' needs models with one tokenizer; {first.record.name} and {other.record.name} number "
                "their tokens differently."
            )


def parts_of(info: MethodInfo, main: Model) -> dict[str, Any]:
    """The trained parts of the picked model that a method needs, by role; the published drafter beside the model where
    that can stand in a part's place. Raises UserError, with the command that makes it, where one is missing or was
    trained for other weights."""
    from engines.models.loading.zoo import plain_name

    record, drafter = replace(main.record, name=plain_name(main.record.name)), getattr(main, "drafter", None)
    return {
        role: drafter
        if drafter is not None and drafter.format in info.drafters.get(role, ())
        else _trained(name, record, main)
        for role, name in info.parts.items()
    }


def _trained(name: str, record: ModelRecord, main: Model) -> Any:
    """A part as it lies in its folder, or the drafter that its tensors are where its card holds a drafter's config."""
    from engines.models.drafters import trained_drafter
    from engines.models.loading import zoo
    from engines.models.parts import load_part

    def elsewhere() -> str:
        having = " or ".join(model.name for model in zoo.list_models() if name in model.parts)
        return having and f"or choose {having}, which has one"

    part = load_part(name, [record], way_out=elsewhere)
    return trained_drafter(part, main) if "config" in part.card else part


def roles_for(info: MethodInfo, main: Model, models: Mapping[str, Model]) -> dict[str, Model]:
    """What is at hand for another method's roles: the main model, and of the others those with the same name and
    kind."""
    others = {role: kind for role, kind in info.needs.items() if role != info.role and role in models}
    return {info.role: main} | {role: models[role] for role, kind in others.items() if kind in kinds_of(models[role])}
