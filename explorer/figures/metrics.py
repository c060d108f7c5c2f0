"""Every displayed number: a pure function of a trace with its unit, its formula and how it was obtained. A step records
facts; this is the only place where they become figures.

    for metric in measure(trace):
        print(metric.label, metric.shown, metric.kind, metric.formula)
"""

from collections import Counter
from collections.abc import Mapping

import msgspec

from engines import Trace
from explorer.figures.acceptance import tree_metrics
from explorer.figures.board import history
from explorer.figures.calls import other_calls, target_calls, target_role
from explorer.figures.deciding import choice_metrics
from explorer.figures.definitions import LOST, needs
from explorer.figures.hindsight import CAVEAT, coverage, hindsight
from explorer.figures.metric import Metric, counted, defined, derived, ratio
from explorer.figures.samples import all_tokens, gained
from explorer.figures.work import work

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
    metrics = [
        (
            "first_token_seconds",
            "Time to first token",
            first.model_seconds,
            "from the sent request to the first arrival",
        ),
        ("longest_wait", "Longest wait between arrivals", max(rest, default=None), "largest time between two arrivals"),
        (
            "connect_seconds",
            "Connecting",
            sum(connected) if connected else None,
            "TCP handshake and TLS; not in any other time",
        ),
    ]
    measured = [
        Metric(name=n, label=label, value=v, unit="seconds", kind="measured", formula=f, conditions=where)
        for n, label, v, f in metrics
    ]
    between = None if "tokens" in trace.header.missing else ratio(sum(rest), tokens - 1)
    terms = f"{sum(rest):.6f} s ÷ {tokens - 1}"
    apart = None if own is None else max(0.0, whole - own)
    return [
        *measured,
        derived(
            "between_tokens",
            "Time between tokens, mean",
            between,
            "seconds",
            "time after the first arrival ÷ (tokens − 1)",
            where,
            terms,
        ),
        *(
            [
                derived(
                    "outside_seconds",
                    "Beside the server's own time",
                    apart,
                    "seconds",
                    "waiting − (prompt + generation as the server reports them): network, queue and its web server",
                    "the server's own times are its word; what they leave out cannot be told apart further",
                    f"{whole:.6f} s − {own:.6f} s",
                )
            ]
            if own is not None
            else []
        ),
    ]


def work_metrics(trace: Trace) -> list[Metric]:
    """How long each model computed and how long two of them did at once; empty for a run of one model."""
    done, where = work(trace), conditions(trace)
    if len(done.rows) < 2:
        return []
    busy = {track: done.busy(track) for track in done.rows}
    metrics = [
        (f"busy_{track}", f"Computing, {track}", seconds, f"time in which a call of '{track}' ran")
        for track, seconds in busy.items()
    ]
    return [
        *(
            Metric(name=n, label=label, value=v, unit="seconds", kind="measured", formula=f, conditions=where)
            for n, label, v, f in metrics
        ),
        derived(
            "shared_seconds",
            "Computing at once",
            done.shared,
            "seconds",
            "time in which calls of two models ran",
            where,
        ),
        derived(
            "shared_share",
            "Share at once",
            ratio(done.shared, done.any),
            "share",
            "computing at once ÷ time in which any model computed",
            where,
            f"{done.shared:.6f} s ÷ {done.any:.6f} s",
        ),
    ]


def hindsight_metrics(trace: Trace) -> list[Metric]:
    """How long final tokens had been the top guess before they were committed; empty where no candidates show it."""
    lens = hindsight(trace)
    if lens.enough is None:
        return []
    about = f"{CAVEAT}; {coverage(lens)}"
    since = "model calls from the step since which the final token stayed the top guess to the step that wrote it"
    formula = "model calls until every final token was written, or was the top guess and stayed it ÷ all model calls"
    return [
        derived(
            "commit_delay_mean", "Delay of writing, mean", lens.mean_delay, "model calls", f"mean of {since}", about
        ),
        derived(
            "commit_delay_max",
            "Delay of writing, longest",
            lens.max_delay,
            "count",
            f"largest number of {since}",
            about,
        ),
        derived(
            "forwards_enough",
            "Model calls that were enough",
            ratio(lens.enough, lens.forwards),
            "share",
            formula,
            about,
            f"{lens.enough} ÷ {lens.forwards}",
        ),
    ]


def conditions(trace: Trace) -> str:
    """The machine and the models behind a time."""
    if trace.header.arrivals:
        return f"clocked here, at {trace.header.imported_from}; its machine is not recorded"
    if trace.header.imported_from:
        return f"as {trace.header.imported_from} has it; machine not recorded"
    models = "; ".join(f"{m.name} {m.dtype} on {m.device}, {m.threads} threads" for m in trace.header.models)
    return f"{trace.header.machine}; {models}; batch 1, recorded at detail '{trace.header.detail}'"
