"""Which methods are worth a try on a model, where nobody named any: lossless ones that fit, by the benchmarks that ship
and by what they need."""

from collections.abc import Sequence
from typing import Any

import engines
from engines import MethodInfo, UserError
from explorer.bench import classes
from explorer.fitting import drafts, needed, runs_on, wants

BY_ITSELF, WITH_MORE = 2, 1  # methods that need the model alone, and that need a draft or a trained part


def fitting(model: Any, models: Sequence[Any] | None = None) -> list[MethodInfo]:
    """The lossless methods with a control that a loaded model and what ships for it can run."""
    listed = engines.list_models() if models is None else models
    return [info for info in engines.list_methods() if info.lossless and info.baseline and runs_on(info, model, listed)]


def chosen(model: Any) -> list[MethodInfo]:
    """The fastest in the benchmarks that ship: two that need nothing but the model, and one that has a draft or a
    trained part here, that of a published drafter first; what no benchmark has comes last, what needs least first.
    Raises UserError where none fits."""
    infos = fitting(model)
    if not infos:
        raise UserError(
            f"no lossless method here runs on {model.record.name}, which is {model.record.kind}; choose a causal model."
        )
    places = {slug: place for place, slug in enumerate(ranked())}
    infos.sort(key=lambda info: (not drafts(info, model), places.get(info.slug, len(places)), len(wants(info))))
    alone, more = ([info for info in infos if bool(wants(info)) is needs] for needs in (False, True))
    return [*alone[:BY_ITSELF], *more[:WITH_MORE]]


def reason(infos: Sequence[MethodInfo], model: Any) -> str:
    """In one sentence why `chosen` names these methods for a loaded model."""
    if not {info.slug for info in infos} <= {*ranked()}:
        return (
            "These methods were chosen because they keep the control's text and need least; our benchmarks have not "
            "measured all of them."
        )
    if any(drafts(info, model) for info in infos):
        return (
            "These methods were chosen because they keep the control's text and were the fastest in our benchmarks or "
            "can draft with this drafter."
        )
    if any(wants(info) for info in infos):
        return (
            "These methods were chosen because they keep the control's text and were the fastest in our benchmarks, "
            "with and without a draft model or a trained part."
        )
    return (
        "These methods were chosen because they keep the control's text and were the fastest in our benchmarks of "
        "those that need nothing but the model."
    )


def named(slugs: Sequence[str], model: Any) -> list[MethodInfo]:
    """The declarations of methods that somebody named, each once. Raises UserError for one that has no control, or that
    the model cannot run."""
    infos = [engines.get_method(slug).info for slug in dict.fromkeys(slugs)]
    listed = engines.list_models()
    for info in infos:
        if not info.baseline:
            raise UserError(f"'{info.slug}' is a control itself and has none; choose a lossless method.")
        if not runs_on(info, model, listed):
            fit = ", ".join(candidate.slug for candidate in fitting(model, listed)) or "none"
            raise UserError(
                f"'{info.slug}' needs a {needed(info)}, which {model.record.name} is not or has not; lossless methods "
                f"that fit it: {fit}."
            )
    return infos


def ranked() -> list[str]:
    """Slugs of the methods that the benchmarks that ship measured at their defaults, the fastest first, by their best
    median over classes of prompts."""
    best: dict[str, float] = {}
    for bench in classes.recorded():
        for label in {score.label for score in bench.scores if not score.params}:
            best[label] = max(best.get(label, 0.0), bench.overall(label))
    return sorted(best, key=lambda slug: -best[slug])
