"""Figures of a run that chooses between models, exits or modes."""

from collections import Counter

from engines import Trace
from explorer.figures.metric import Metric, counted, derived, ratio


def choice_metrics(trace: Trace) -> list[Metric]:
    """Share of each option, number of switches and parameter-weighted cost of a run that chooses; empty for any
    other."""
    choices = [step.choice for step in trace.steps if step.choice]
    if not choices:
        return []
    seen = Counter(choice.chosen for choice in choices)
    shown = [
        derived(
            f"share_{option}",
            f"Share of {option}",
            seen[option] / len(choices),
            "share",
            f"steps that chose '{option}' ÷ steps with a choice",
            "",
            f"{seen[option]} ÷ {len(choices)}",
        )
        for option in dict.fromkeys(option for choice in choices for option in choice.options)
    ]
    shown.append(
        counted("switches", "Switches", sum(choice.switched for choice in choices), "steps at which the choice changed")
    )
    cost = weighted_cost(trace)
    if cost is not None:
        formula = "Σ over roles (forwards × parameters) ÷ ((tokens + end mark) × parameters of the largest model)"
        note = (
            "1 is the largest model alone, one token per forward; as in the paper, reading missed tokens after a "
            "switch is not weighed: see positions computed and the seconds for it"
        )
        shown.append(derived("weighted_cost", "Parameter-weighted cost", cost, "ratio", formula, note, kind="modelled"))
    return shown


def weighted_cost(trace: Trace) -> float | None:
    """Forwards weighted by parameters, against the largest model alone; None where sizes are unknown or there is one
    model."""
    sizes = {record.role: record.parameters for record in trace.header.models}
    if len(sizes) < 2 or not all(sizes.values()):
        return None
    sums = trace.totals
    return ratio(
        sum(n * sizes.get(role, 0) for role, n in sums.forwards_by_role.items()),
        (sums.tokens + sums.end_tokens) * max(sizes.values()),
    )
