"""Every displayed number: a pure function of a trace with its unit, its formula and how it was obtained. A step records facts; this is the only
place where they become figures.

    for metric in measure(trace):
        print(metric.label, metric.shown, metric.kind, metric.formula)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import accumulate

import msgspec

from engines import Trace
from explorer.boards import boards, gained
from explorer.definitions import DEFINITIONS, LOST, Kind, fill, needs
from explorer.hindsight import CAVEAT, coverage, hindsight
from explorer.work import work


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """One number. `value` is None where the run did nothing it could be computed from, or, with `absent`, where the trace does not hold what it needs;
    `conditions` say under which the number holds. terms: the formula with the numbers of this run put in, "" where there is nothing to put in."""

    name: str
    label: str
    value: float | None
    unit: str
    kind: Kind
    formula: str
    conditions: str = ""
    absent: bool = False
    terms: str = ""

    @property
    def shown(self) -> str:
        """The value as a person reads it, unit included."""
        if self.absent:
            return "not recorded"
        return "–" if self.value is None else f"{_number(self.value, self.unit)}{_SUFFIX.get(self.unit, '')}"


_SUFFIX = {"seconds": " s", "share": "", "times": "×"}


def _number(value: float, unit: str) -> str:
    if unit == "share":
        return f"{100 * value:.1f} %"
    if unit == "seconds":
        return f"{value:.3f}" if value < 10 else f"{value:.1f}"
    return f"{int(value):,}" if float(value).is_integer() and unit == "count" else f"{value:,.2f}"


def measure(trace: Trace) -> list[Metric]:
    """All metrics that apply to this trace: counts, times, then what its trees, choices and candidates allow."""
    found = [*counts(trace), *times(trace), *work_metrics(trace), *tree_metrics(trace), *choice_metrics(trace), *hindsight_metrics(trace)]
    return [without(metric, trace) for metric in found]


def without(metric: Metric, trace: Trace) -> Metric:
    """The metric, said to be absent where the trace does not hold what it is computed from."""
    lost = [name for name in needs(metric.name) if name in trace.header.missing]
    if not lost:
        return metric
    source = trace.header.imported_from or "what is left of this run"
    return msgspec.structs.replace(metric, value=None, absent=True, terms="", conditions=f"{source} does not say: {', '.join(lost).replace('_', ' ')}")


def numbers(trace: Trace) -> dict[str, float | str | None]:
    """What the definitions' formulas are filled with: counts, seconds, and the forwards by role in words. The player has the same at any step."""
    sums = trace.totals
    found: dict[str, float | str | None] = {
        "steps": len(trace.steps),
        "forwards": sums.forwards,
        "roles": " + ".join(f"{n:,} {role}" for role, n in sums.forwards_by_role.items()) or "0",
        "tokens_fed": sums.tokens_fed,
        "tokens": sums.tokens,
        "ids": len(trace.output_ids),
        "prompt": len(trace.header.prompt_ids),
        "end_tokens": sums.end_tokens,
        "padding": sums.padding,
        "masks": sums.masks_left,
        "bonus": sum(step.commits.causes.count("bonus") for step in trace.steps if step.commits),
        "model_seconds": sums.model_seconds,
        "method_seconds": sums.method_seconds,
        "record_seconds": trace.end.record_seconds,
        "warmup_seconds": trace.header.warmup_seconds,
    }
    lost = {name for field in trace.header.missing for name in LOST.get(field, (field,))}
    return {name: None if name in lost else value for name, value in found.items()}


def counts(trace: Trace) -> list[Metric]:
    """Steps, forwards, tokens and their ratios."""
    sums, known = trace.totals, numbers(trace)
    roles = sums.forwards_by_role
    by_role = [_count(f"forwards_{role}", f"Forwards, {role}", n, f"calls of the model in the role '{role}'") for role, n in roles.items() if len(roles) > 1]
    return [
        _defined("steps", len(trace.steps), known),
        _defined("forwards", sums.forwards, known),
        *by_role,
        _defined("tokens_fed", sums.tokens_fed, known),
        _defined("tokens", sums.tokens, known),
        _defined("end_tokens", sums.end_tokens + sums.padding, known),
        _defined("masks_left", sums.masks_left, known),
        _defined("tokens_per_forward", ratio(sums.tokens, sums.forwards), known),
    ]


def times(trace: Trace) -> list[Metric]:
    """Seconds of the model, of the method, of recording, and what follows from them."""
    sums, end, known = trace.totals, trace.end, numbers(trace)
    busy, where = sums.model_seconds + sums.method_seconds, conditions(trace)
    return [
        _defined("model_seconds", sums.model_seconds, known, where),
        _defined("method_seconds", sums.method_seconds, known, where),
        _defined("tokens_per_second", ratio(sums.tokens, busy), known, where),
        _defined("record_seconds", end.record_seconds, known, where),
        _defined("recording_overhead", ratio(end.record_seconds, busy), known, where),
        _defined("warmup_seconds", trace.header.warmup_seconds, known, where),
        _defined("wall_seconds", end.wall_seconds, known, where),
    ]


def work_metrics(trace: Trace) -> list[Metric]:
    """How long each model computed and how long two of them did at once; empty for a run of one model."""
    done, where = work(trace), conditions(trace)
    if len(done.rows) < 2:
        return []
    busy = {lane: done.busy(lane) for lane in done.rows}
    said = [(f"busy_{lane}", f"Computing, {lane}", seconds, f"time in which a call of '{lane}' ran") for lane, seconds in busy.items()]
    return [
        *(Metric(name=n, label=label, value=v, unit="seconds", kind="measured", formula=f, conditions=where) for n, label, v, f in said),
        _derived("shared_seconds", "Computing at once", done.shared, "seconds", "time in which calls of two models ran", where),
        _derived(
            "shared_share", "Share at once", ratio(done.shared, done.any), "share", "computing at once ÷ time in which any model computed", where,
            f"{done.shared:.6f} s ÷ {done.any:.6f} s",
        ),
    ]  # fmt: skip


def tree_metrics(trace: Trace) -> list[Metric]:
    """Acceptance figures of a run that verifies draft trees; empty for any other."""
    trees = [step.tree for step in trace.steps if step.tree]
    if not trees:
        return []
    accepted = [tree.why.count("accepted") for tree in trees]
    nodes = [len(tree.parents) - 1 for tree in trees]
    n, taken, drafted = len(trees), sum(accepted), sum(nodes)
    about = "over the steps that verified a draft tree; the root row is no drafted node"
    target = next(iter(trace.totals.forwards_by_role), "")
    drafts = [sum(n for role, n in step.forwards.items() if role != target) for step in trace.steps if step.tree]
    sizes = {record.role: record.parameters for record in trace.header.models}
    size_ratio = ratio(sizes.get("draft", 0), sizes.get(target, 0)) or 0.0
    shown = [
        _derived(
            "block_efficiency",
            "Block efficiency τ",
            block_efficiency(accepted),
            "tokens",
            "mean of (accepted + 1) over verification steps",
            about,
            f"({taken} + {n}) ÷ {n}",
        ),
        _derived(
            "mean_accepted_excluding_bonus",
            "Accepted per step",
            mean_accepted(accepted),
            "tokens",
            "mean accepted nodes; the emitted token is not one",
            about,
            f"{taken} ÷ {n}",
        ),
        _derived(
            "acceptance_rate_of_drafted",
            "Acceptance rate",
            acceptance_rate(accepted, nodes),
            "share",
            "Σ accepted ÷ Σ drafted nodes",
            about,
            f"{taken} ÷ {drafted}",
        ),
        _derived("wasted_nodes", "Wasted nodes", wasted_nodes(accepted, nodes), "count", "Σ drafted nodes − Σ accepted nodes", about, f"{drafted} − {taken}"),
        _derived(
            "verified_rows_per_emitted_token",
            "Rows per token",
            rows_per_token(accepted, nodes),
            "ratio",
            "Σ drafted nodes ÷ Σ (accepted + 1)",
            about,
            f"{drafted} ÷ ({taken} + {n})",
        ),
    ]
    if size_ratio:
        bound = "a model of cost, not a time: only reading the weights counts"
        formula = "τ ÷ (1 + c · draft forwards per step), c = draft parameters ÷ target parameters"
        value = memory_bound_speedup(accepted, drafts, size_ratio)
        terms = f"({taken} + {n}) ÷ {n} ÷ (1 + {size_ratio:.3f} × {sum(drafts)} ÷ {n})"
        shown.append(
            Metric(name="mbsu", label="Memory-bound speed-up", value=value, unit="times", kind="modelled", formula=formula, conditions=bound, terms=terms)
        )
    return shown


def choice_metrics(trace: Trace) -> list[Metric]:
    """Share of each option, number of switches and parameter-weighted cost of a run that chooses; empty for any other."""
    choices = [step.choice for step in trace.steps if step.choice]
    if not choices:
        return []
    seen = Counter(choice.chosen for choice in choices)
    shown = [
        _derived(
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
    shown.append(_count("switches", "Switches", sum(choice.switched for choice in choices), "steps at which the choice changed"))
    cost = weighted_cost(trace)
    if cost is not None:
        formula = "Σ over roles (forwards × parameters) ÷ ((tokens + end mark) × parameters of the largest model)"
        note = (
            "1 is the largest model alone, one token per forward; as in the paper, reading missed tokens after a switch is not weighed: "
            "see positions computed and the seconds for it"
        )
        shown.append(Metric(name="weighted_cost", label="Parameter-weighted cost", value=cost, unit="ratio", kind="modelled", formula=formula, conditions=note))
    return shown


def hindsight_metrics(trace: Trace) -> list[Metric]:
    """How long final tokens had been the top guess before they were committed; empty where no candidates show it."""
    lens = hindsight(trace)
    if lens.enough is None:
        return []
    about = f"{CAVEAT}; {coverage(lens)}"
    since = "forwards from the step since which the final token stayed the top guess to the step that committed it"
    formula = "forwards until every final token was written, or was the top guess and stayed it ÷ all forwards of the run"
    return [
        _derived("commit_delay_mean", "Commit delay, mean", lens.mean_delay, "forwards", f"mean of {since}", about),
        _derived("commit_delay_max", "Commit delay, longest", lens.max_delay, "count", f"largest number of {since}", about),
        _derived(
            "forwards_enough", "Forwards that were enough", ratio(lens.enough, lens.forwards), "share", formula, about, f"{lens.enough} ÷ {lens.forwards}"
        ),
    ]


def weighted_cost(trace: Trace) -> float | None:
    """Forwards weighted by parameters, against the largest model alone; None where sizes are unknown or there is one model."""
    sizes = {record.role: record.parameters for record in trace.header.models}
    if len(sizes) < 2 or not all(sizes.values()):
        return None
    sums = trace.totals
    return ratio(sum(n * sizes.get(role, 0) for role, n in sums.forwards_by_role.items()), (sums.tokens + sums.end_tokens) * max(sizes.values()))


def ratio(part: float, whole: float) -> float | None:
    """part ÷ whole; None where there is nothing to divide by."""
    return part / whole if whole else None


def mean_accepted(accepted: Sequence[int]) -> float | None:
    """Mean of accepted drafts per verification step, the emitted token left out."""
    return ratio(sum(accepted), len(accepted))


def block_efficiency(accepted: Sequence[int]) -> float | None:
    """τ: mean of accepted + 1, the tokens per target forward; 1 is plain decoding."""
    return ratio(sum(accepted) + len(accepted), len(accepted))


def acceptance_rate(accepted: Sequence[int], drafted: Sequence[int]) -> float | None:
    """Σ accepted ÷ Σ drafted."""
    return ratio(sum(accepted), sum(drafted))


def memory_bound_speedup(accepted: Sequence[int], draft_forwards: Sequence[int], size_ratio: float) -> float | None:
    """τ ÷ (1 + c · draft forwards per step) with c = draft size ÷ target size."""
    tau = block_efficiency(accepted)
    return None if tau is None else tau / (1 + size_ratio * sum(draft_forwards) / len(draft_forwards))


def forwards_per_token(accepted: Sequence[int]) -> float | None:
    """Target forwards per emitted token, 1 ÷ τ."""
    return ratio(len(accepted), sum(accepted) + len(accepted))


def rows_per_token(accepted: Sequence[int], nodes: Sequence[int]) -> float | None:
    """Verified nodes per emitted token."""
    return ratio(sum(nodes), sum(accepted) + len(accepted))


def wasted_nodes(accepted: Sequence[int], nodes: Sequence[int]) -> int:
    """Verified nodes that were not accepted."""
    return sum(nodes) - sum(accepted)


def conditions(trace: Trace) -> str:
    """The machine and the models behind a time."""
    if trace.header.imported_from:
        return f"as {trace.header.imported_from} has it; machine not recorded"
    models = "; ".join(f"{m.name} {m.dtype} on {m.device}, {m.threads} threads" for m in trace.header.models)
    return f"{trace.header.machine}; {models}; batch 1, recorded at detail '{trace.header.detail}'"


def _count(name: str, label: str, value: int, formula: str) -> Metric:
    return Metric(name=name, label=label, value=value, unit="count", kind="measured", formula=formula)


def _derived(name: str, label: str, value: float | None, unit: str, formula: str, about: str = "", terms: str = "") -> Metric:
    return Metric(name=name, label=label, value=value, unit=unit, kind="derived", formula=formula, conditions=about, terms=terms)


def _defined(name: str, value: float | None, known: Mapping[str, float | str | None], where: str = "") -> Metric:
    """A number of `DEFINITIONS`, its terms filled."""
    it = DEFINITIONS[name]
    return Metric(
        name=name, label=it.label, value=value, unit=it.unit, kind=it.kind, formula=it.formula, conditions=it.note or where, terms=fill(it.terms, known)
    )


def growth(trace: Trace) -> list[tuple[int, float]]:
    """(forwards so far, tokens so far) before the first step and after each one; empty where forwards were not recorded."""
    if "forwards" in trace.header.missing:
        return []
    start = len(trace.header.prompt_ids)
    spent = accumulate((sum(step.forwards.values()) for step in trace.steps), initial=0)
    return [(forwards, float(gained(trace, board[start:]))) for forwards, board in zip(spent, boards(trace), strict=True)]


def confidence_by_step(trace: Trace) -> list[tuple[int, float]]:
    """(forwards so far, mean probability of the tokens written) for each step that recorded probabilities; empty where forwards were not."""
    if "forwards" in trace.header.missing:
        return []
    points, forwards = [], 0
    for step in trace.steps:
        forwards += sum(step.forwards.values())
        known = [p for p in step.commits.probabilities if p is not None] if step.commits else []
        if known:
            points.append((forwards, sum(known) / len(known)))
    return points
