"""What a task asks of generation (`until`, `max_gen_toks`, `temperature`, ...) as parameters of a method. What the
method cannot do is refused."""

from collections.abc import Mapping
from typing import Any

from engines import MethodInfo, Param, UserError
from explorer.bench.quality import fitted

LENGTH, TEMPERATURE = "max_new_tokens", "temperature"
USUAL_LENGTH = 256  # where a task says none: that of the harness's own models
OF_SAMPLING = {"top_p", "top_k", "min_p", "typical_p"}  # without effect where nothing is drawn
NEUTRAL = {"top_p": 1, "top_k": 0, "min_p": 0, "typical_p": 1, "num_beams": 1, "repetition_penalty": 1}


def checked(info: MethodInfo, given: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters that a person set, each checked by itself. Raises UserError."""
    declared = {p.name: p for p in info.params}
    for name in given:
        if name not in declared:
            raise UserError(f"'{info.slug}' has no parameter '{name[:60]}'; it has {', '.join(sorted(declared))}.")
    return {name: declared[name].check(value) for name, value in given.items()}


def asked_of(
    info: MethodInfo, own: Mapping[str, Any], gen_kwargs: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """The parameters of a run, and the strings that end its answer. own: those that a person set, which stand before
    the task's. Raises UserError for what the method cannot do."""
    from lm_eval.models.utils import normalize_gen_kwargs

    declared = {p.name: p for p in info.params}
    given = {name: value for name, value in gen_kwargs.items() if value is not None}
    wish = dict(normalize_gen_kwargs(given, default_max_gen_toks=USUAL_LENGTH))
    params = fitted(info, _length(declared[LENGTH], wish.pop("max_gen_toks"), own))
    until = [end for end in wish.pop("until") if isinstance(end, str) and end]
    sampling = {"do_sample", TEMPERATURE} & {*given}
    warm = float(wish.pop(TEMPERATURE, 1.0))
    heat = warm if wish.pop("do_sample") else 0.0
    if sampling and TEMPERATURE not in own:
        params |= _temperature(info, declared.get(TEMPERATURE), heat)
    if not heat:
        wish = {name: value for name, value in wish.items() if name not in OF_SAMPLING}
    for name, value in wish.items():
        if name in declared:
            params[name] = declared[name].check(value)
        elif value != NEUTRAL.get(name) and name not in own:
            raise UserError(
                f"the task asks for {name}={str(value)[:40]}, and '{info.slug}' has no such parameter; it has "
                f"{', '.join(sorted(declared))}. Take it out with --gen_kwargs {name}=None."
            )
    return params | dict(own), until


def _length(declared: Param, asked: int, own: Mapping[str, Any]) -> int:
    """A person's length, else the task's. Raises UserError where the method writes no such answers."""
    try:
        length: int = declared.check(own.get(LENGTH, asked))
    except UserError:
        raise UserError(
            f"the task asks for max_gen_toks={asked}; {declared.allowed()}, with --param {LENGTH}=N."
        ) from None
    return length


def _temperature(info: MethodInfo, declared: Param | None, heat: float) -> dict[str, Any]:
    """The task's temperature. Raises UserError where the method cannot decode at it."""
    asks = f"the task asks for {'sampling at' if heat else 'greedy decoding,'} temperature {heat:g}"
    if declared is None:
        if heat:
            raise UserError(
                f"{asks}, and '{info.slug}' has no temperature; choose a method that has one, or "
                "--gen_kwargs do_sample=False."
            )
        return {}
    try:
        return {TEMPERATURE: declared.check(heat)}
    except UserError:
        raise UserError(
            f"{asks}, and '{info.slug}' cannot do that: {declared.allowed()}. Say what is meant with --param "
            f"{TEMPERATURE}=..."
        ) from None
