"""Every displayed number: a pure function of a trace with its unit, its formula and how it was obtained. A step records
facts; this is the only place where they become figures.

    for metric in measure(trace):
        print(metric.label, metric.shown, metric.kind, metric.formula)
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from engines import Trace
from explorer.figures.acceptance import tree_metrics
from explorer.figures.calls import other_calls, target_calls, target_role
from explorer.figures.definitions import DEFINITIONS, LOST, needs
from explorer.figures.hindsight import CAVEAT, coverage, hindsight
from explorer.figures.history import history
from explorer.figures.metric import Metric, clocked, counted, defined, derived, quotient, ratio
from explorer.figures.samples import all_tokens, gained
from explorer.figures.work import work

HEADER = (
    "models",
    "machine",
    "seed",
    "detail",
    "versions",
    "started_at",
    "warmup_seconds",
    "params",
    "missing",
    "imported_from",
)
"""What a receipt says of a run beside its numbers."""
OWN_TIMES = ("prompt seconds, as the server says", "generation seconds, as the server says")


def measure(trace: Trace) -> list[Metric]:
    """All metrics that apply to this trace: counts, times, then what its trees, choices and candidates allow."""
    metrics = [
        *counts(trace),
        *times(trace),
        *arrival_metrics(trace),
        *work_metrics(trace),
        *tree_metrics(trace),
        *choice_metrics(trace),
        *hindsight_metrics(trace),
    ]
    return [without(metric, trace) for metric in metrics]


def without(metric: Metric, trace: Trace) -> Metric:
    """The metric, said to be absent where the trace does not hold what it is computed from."""
    lost = [name for name in needs(metric.name) if name in trace.header.missing]
    if trace.header.arrivals and metric.name != "method_seconds":
        lost = [name for name in lost if name != "method_seconds"]  # it is in the waiting
    if not lost:
        return metric
    source = trace.header.imported_from or "the record of this run"
    return msgspec.structs.replace(
        metric,
        value=None,
        absent=True,
        terms="",
        conditions=f"not in {source}: {', '.join(lost).replace('_', ' ')}",
    )


def numbers(trace: Trace) -> dict[str, float | str | None]:
    """What the definitions' formulas are filled with: counts, seconds, and the calls by role in words. The player has
    the same at any step."""
    sums, target, causes = trace.totals, target_role(trace), _causes(trace)
    values: dict[str, float | str | None] = {
        "steps": len(trace.steps),
        "target_calls": sum(target_calls(step, target) for step in trace.steps),
        "draft_calls": sum(other_calls(step, target) for step in trace.steps),
        "roles": _by_role(sums.forwards_by_role, ", "),
        "work": sum(sums.work_by_role.values()),
        "work_roles": _by_role(sums.work_by_role, " + "),
        "tokens_fed": sums.tokens_fed,
        "tokens": sums.tokens,
        "gained": gained(trace),
        "ids": len(trace.output_ids),
        "prompt": len(trace.header.prompt_ids),
        "end_tokens": sums.end_tokens,
        "padding": sums.padding,
        "masks": sums.masks_left,
        "bonus": causes["bonus"],
        "corrections": causes["correction"],
        "model_seconds": sums.model_seconds,
        "method_seconds": sums.method_seconds,
        "record_seconds": trace.end.record_seconds,
        "warmup_seconds": trace.header.warmup_seconds,
    }
    lost = {name for field in trace.header.missing for name in LOST.get(field, (field,))}
    return {name: None if name in lost else value for name, value in values.items()}


def _causes(trace: Trace) -> Counter[str]:
    """Tokens of the answer by the reason for which they were written; those of other samples and what was taken back
    are not in it, and an end mark is not a token."""
    past, start = history(trace), len(trace.header.prompt_ids)
    writes = (past.last(at) for at in range(start, start + trace.totals.tokens))
    return Counter(last[2] for last in writes if last is not None)


def _by_role(counts: Mapping[str, int], between: str) -> str:
    return between.join(f"{role} {n:,}" for role, n in counts.items()) or "0"


def counts(trace: Trace) -> list[Metric]:
    """Steps, model calls and beside them those of other models, work, tokens and their ratios."""
    sums, known = trace.totals, numbers(trace)
    target, roles = target_role(trace), sums.forwards_by_role
    calls, alone = sum(target_calls(step, target) for step in trace.steps), set(roles) <= {target}
    beside = [
        counted(f"calls_{role}", f"Calls, {role}", n, f"calls of the model in the role '{role}'")
        for role, n in roles.items()
        if target and role != target
    ]
    return [
        defined("steps", len(trace.steps), known),
        defined("target_calls", calls, known, label="Model calls" if alone else ""),
        *beside,
        defined("tokens_per_call", ratio(gained(trace), calls), known, label="Tokens per model call" if alone else ""),
        defined("work", sum(sums.work_by_role.values()), known),
        defined("tokens_fed", sums.tokens_fed, known),
        defined("tokens", sums.tokens, known),
        *([] if (every := all_tokens(trace)) is None else [defined("all_tokens", every, known)]),
        defined("end_tokens", sums.end_tokens + sums.padding, known),
        defined("masks_left", sums.masks_left, known),
    ]


def times(trace: Trace) -> list[Metric]:
    """Seconds of the model, of the method, of recording, and what follows from them."""
    sums, end, known = trace.totals, trace.end, numbers(trace)
    busy, where = sums.model_seconds + sums.method_seconds, conditions(trace)
    model = defined("waiting_seconds" if trace.header.arrivals else "model_seconds", sums.model_seconds, known, where)
    return [
        msgspec.structs.replace(model, name="model_seconds"),
        defined("method_seconds", sums.method_seconds, known, where),
        defined("busy_seconds", busy, known, where),
        defined("tokens_per_second", ratio(gained(trace), busy), known, where),
        defined("record_seconds", end.record_seconds, known, where),
        defined("recording_overhead", ratio(end.record_seconds, busy), known, where),
        defined("warmup_seconds", trace.header.warmup_seconds, known, where),
        defined("wall_seconds", end.wall_seconds, known, where),
    ]


def arrival_metrics(trace: Trace) -> list[Metric]:
    """When an answer of a server arrived, and what of it can be told apart; empty for a run of our own."""
    if not trace.header.arrivals or not trace.steps:
        return []
    where, first, rest = conditions(trace), trace.steps[0], [step.model_seconds for step in trace.steps[1:]]
    facts, whole = first.facts | trace.steps[-1].facts, sum(rest) + first.model_seconds
    times = [facts.get(name) for name in OWN_TIMES]
    own = sum(time for time in times if time is not None) if any(time is not None for time in times) else None
    connected = [facts[name] for name in ("connect seconds", "TLS seconds") if name in facts]
    tokens = trace.totals.tokens
    longest, connecting = max(rest, default=None), sum(connected) if connected else None
    between = None if "tokens" in trace.header.missing else ratio(sum(rest), tokens - 1)
    name, formula = "Time between tokens, mean", "time after the first arrival ÷ (tokens − 1)"
    terms, sent = f"{sum(rest):.6f} s ÷ {tokens - 1}", "from the sent request to the first arrival"
    metrics = [
        clocked("first_token_seconds", "Time to first token", first.model_seconds, sent, where),
        clocked("longest_wait", "Longest wait between arrivals", longest, "largest time between two arrivals", where),
        clocked("connect_seconds", "Connecting", connecting, "TCP handshake and TLS; not in any other time", where),
        derived("between_tokens", name, between, "seconds", formula, where, terms),
    ]
    if own is not None:
        formula = "waiting − (prompt + generation as the server reports them): network, queue and its web server"
        about = "the server's own times are its word; what they leave out cannot be told apart further"
        name, outside, terms = "Beside the server's own time", max(0.0, whole - own), f"{whole:.6f} s − {own:.6f} s"
        metrics.append(derived("outside_seconds", name, outside, "seconds", formula, about, terms))
    return metrics


def work_metrics(trace: Trace) -> list[Metric]:
    """How long each model computed and how long two of them did at once; empty for a run of one model."""
    done, where = work(trace), conditions(trace)
    if len(done.rows) < 2:
        return []
    busy = [
        clocked(
            f"busy_{track}", f"Computing, {track}", done.busy(track), f"time in which a call of '{track}' ran", where
        )
        for track in done.rows
    ]
    both, terms = "time in which calls of two models ran", f"{done.shared:.6f} s ÷ {done.any:.6f} s"
    share, formula = ratio(done.shared, done.any), "computing at once ÷ time in which any model computed"
    return [
        *busy,
        derived("shared_seconds", "Computing at once", done.shared, "seconds", both, where),
        derived("shared_share", "Share at once", share, "share", formula, where, terms),
    ]


def choice_metrics(trace: Trace) -> list[Metric]:
    """Share of each option, number of switches and parameter-weighted cost of a run that chooses; empty for any
    other."""
    choices = [step.choice for step in trace.steps if step.choice]
    if not choices:
        return []
    seen = Counter(choice.chosen for choice in choices)
    shown = list[Metric]()
    for option in dict.fromkeys(option for choice in choices for option in choice.options):
        formula = f"steps that chose '{option}' ÷ steps with a choice"
        name, label = f"share_{option}", f"Share of {option}"
        shown.append(quotient(name, label, "share", formula, seen[option], len(choices)))
    switched = sum(choice.switched for choice in choices)
    shown.append(counted("switches", "Switches", switched, "steps at which the choice changed"))
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


def hindsight_metrics(trace: Trace) -> list[Metric]:
    """How long final tokens had been the top guess before they were committed; empty where no candidates show it."""
    lens = hindsight(trace)
    if lens.enough is None:
        return []
    about = f"{CAVEAT}; {coverage(lens)}"
    since = "model calls from the step since which the final token stayed the top guess to the step that wrote it"
    formula = "model calls until every final token was written, or was the top guess and stayed it ÷ all model calls"
    mean, most, name = f"mean of {since}", f"largest number of {since}", "Model calls that were enough"
    return [
        derived("commit_delay_mean", "Delay of writing, mean", lens.mean_delay, "model calls", mean, about),
        derived("commit_delay_max", "Delay of writing, longest", lens.max_delay, "count", most, about),
        quotient("forwards_enough", name, "share", formula, lens.enough, lens.forwards, about),
    ]


def conditions(trace: Trace) -> str:
    """The machine and the models behind a time."""
    if trace.header.arrivals:
        return f"clocked here, at {trace.header.imported_from}; its machine is not recorded"
    if trace.header.imported_from:
        return f"as {trace.header.imported_from} has it; machine not recorded"
    models = "; ".join(f"{m.name} {m.dtype} on {m.device}, {m.threads} threads" for m in trace.header.models)
    return f"{trace.header.machine}; {models}; batch 1, recorded at detail '{trace.header.detail}'"


# --- receipts: how a number on screen was obtained; the player composes the text (assets/client/player/receipt.js)


def facts(trace: Trace) -> dict[str, Any]:
    """What every receipt of a run shares: the numbers that formulas and counts are filled with, and the conditions of
    the run."""
    header = {name: msgspec.to_builtins(getattr(trace.header, name)) for name in HEADER}
    return {"numbers": numbers(trace), "header": header}


def receipt(metric: Metric) -> dict[str, Any]:
    """One number of a run for the page's tables."""
    known = DEFINITIONS.get(metric.name)
    return {
        "label": metric.label,
        "kind": metric.kind,
        "value": metric.shown,
        "formula": metric.formula,
        "terms": metric.terms,
        "counts": known.counts if known and not metric.absent else [],
        "note": known.note if known and not metric.absent else metric.conditions,
    }
