"""What became of drafts: figures of a run that verifies draft trees."""

from collections.abc import Sequence

from engines import Step, Trace, Tree
from explorer.figures.calls import other_calls, target_role
from explorer.figures.definitions import DEFINITIONS
from explorer.figures.metric import Metric, derived, ratio

MAX_POSITIONS = 8  # draft positions that get a number of their own
RATE = DEFINITIONS["acceptance_rate_of_drafted"]
ABOUT = RATE.note
TAU, PER_STEP = "Block efficiency τ", "Accepted per step"


REPORTED: dict[str, tuple[str, ...]] = {  # what servers call it, in the facts of an answer
    "accepted": ("num_accepted_draft_tokens", "accepted drafts"),
    "drafted": ("num_draft_tokens", "proposed drafts (as reported)", "drafted tokens"),
    "rounds": ("num_spec_steps", "verifications"),
}
AS_REPORTED = "counted by the server, which reported it with its answer; nothing here could count it again"


def tree_metrics(trace: Trace) -> list[Metric]:
    """Acceptance figures of a run that verifies draft trees, or of a server's answer that reports its drafts; empty for
    any other."""
    trees = [step.tree for step in trace.steps if step.tree]
    if not trees:
        return reported(trace)
    accepted = [tree.why.count("accepted") for tree in trees]
    nodes = [len(tree.parents) - 1 for tree in trees]
    step_tokens = [_written(step, step.tree) for step in trace.steps if step.tree]
    return [*_rates(accepted, nodes, step_tokens), *_by_position(trees), *_bound(trace, step_tokens)]


def _written(step: Step, tree: Tree) -> int:
    """Tokens that a verification wrote: what it emitted, as far as there was room. Behind an accepted end mark, and
    behind a window that was all right (PEARL), these are the accepted ones alone."""
    room = sum(cause != "withdrawn" for cause in step.commits.causes) if step.commits else len(tree.emitted)
    return min(len(tree.emitted), room)


def _rates(accepted: Sequence[int], nodes: Sequence[int], step_tokens: Sequence[int]) -> list[Metric]:
    n, taken, drafted, tokens = len(accepted), sum(accepted), sum(nodes), sum(step_tokens)
    rows: list[tuple[str, str, float | None, str, str, str]] = [
        (
            "block_efficiency",
            TAU,
            block_efficiency(step_tokens),
            "tokens",
            "Σ written tokens ÷ verification steps",
            f"{tokens} ÷ {n}",
        ),
        (
            "mean_accepted_excluding_bonus",
            PER_STEP,
            mean_accepted(accepted),
            "tokens",
            "mean accepted nodes; the emitted token is not one",
            f"{taken} ÷ {n}",
        ),
        (
            "acceptance_rate_of_drafted",
            RATE.label,
            acceptance_rate(accepted, nodes),
            RATE.unit,
            RATE.formula,
            f"{taken} ÷ {drafted}",
        ),
        (
            "wasted_nodes",
            "Wasted nodes",
            wasted_nodes(accepted, nodes),
            "count",
            "Σ drafted nodes − Σ accepted nodes",
            f"{drafted} − {taken}",
        ),
        (
            "verified_rows_per_emitted_token",
            "Rows per token",
            rows_per_token(step_tokens, nodes),
            "ratio",
            "Σ drafted nodes ÷ Σ written tokens",
            f"{drafted} ÷ {tokens}",
        ),
    ]
    return [
        derived(name, label, value, unit, formula, ABOUT, terms) for name, label, value, unit, formula, terms in rows
    ]


def reported(trace: Trace) -> list[Metric]:
    """The figures that follow from what a server reported of its drafts, as far as it did."""
    if not trace.header.imported_from:
        return []
    facts = {name: value for step in trace.steps for name, value in step.facts.items()}
    accepted, drafted, rounds = (next((facts[key] for key in keys if key in facts), None) for keys in REPORTED.values())
    metrics = []
    if accepted is not None and rounds:
        value, terms = (accepted + rounds) / rounds, f"({accepted:.0f} + {rounds:.0f}) ÷ {rounds:.0f}"
        formula = "accepted drafts and one token more for each verification ÷ verifications"
        metrics.append(derived("block_efficiency", TAU, value, "tokens", formula, AS_REPORTED, terms))
        each, formula = f"{accepted:.0f} ÷ {rounds:.0f}", "accepted drafts ÷ verifications"
        name = "mean_accepted_excluding_bonus"
        metrics.append(derived(name, PER_STEP, accepted / rounds, "tokens", formula, AS_REPORTED, each))
    if accepted is not None and drafted:
        terms = f"{accepted:.0f} ÷ {drafted:.0f}"
        name, share = "acceptance_rate_of_drafted", accepted / drafted
        metrics.append(derived(name, RATE.label, share, RATE.unit, RATE.formula, AS_REPORTED, terms))
    return metrics


def by_position(trees: Sequence[Tree]) -> list[tuple[int, int]]:
    """For draft position 1, 2, ... (depth below the root): (steps that accepted a token there, steps that drafted one
    there)."""
    counts: list[tuple[int, int]] = []
    for tree in trees:
        depths = [0] * len(tree.parents)
        for row, parent in enumerate(tree.parents):
            depths[row] = depths[parent] + 1 if parent >= 0 else 0
        taken = {depth for depth, fate in zip(depths, tree.why, strict=True) if fate == "accepted"}
        counts += [(0, 0)] * (max(depths) - len(counts))
        for depth in range(1, max(depths) + 1):
            yes, of = counts[depth - 1]
            counts[depth - 1] = (yes + (depth in taken), of + 1)
    return counts


def _by_position(trees: Sequence[Tree]) -> list[Metric]:
    formula = "steps that accepted a token at this position of the draft ÷ steps that drafted one there"
    return [
        derived(
            f"acceptance_at_{place}",
            f"Acceptance, draft position {place}",
            ratio(yes, of),
            "share",
            formula,
            f"{ABOUT}; in a tree any sibling counts; a position after a refusal counts as drafted and not accepted",
            f"{yes} ÷ {of}",
        )
        for place, (yes, of) in enumerate(by_position(trees)[:MAX_POSITIONS], 1)
    ]


def _bound(trace: Trace, step_tokens: Sequence[int]) -> list[Metric]:
    """The memory-bound speed-up of a run whose draft and target have known sizes."""
    target, n = target_role(trace), len(step_tokens)
    sizes = {record.role: record.parameters for record in trace.header.models}
    share = ratio(sizes.get("draft", 0), sizes.get(target, 0))
    if not share:
        return []
    drafts = [other_calls(step, target) for step in trace.steps if step.tree]
    value = memory_bound_speedup(step_tokens, drafts, share)
    formula = "τ ÷ (1 + c · draft calls per step), c = draft parameters ÷ target parameters"
    about = "a model of cost, not a time: only reading the weights counts"
    terms = f"{sum(step_tokens)} ÷ {n} ÷ (1 + {share:.3f} × {sum(drafts)} ÷ {n})"
    return [derived("mbsu", "Memory-bound speed-up", value, "times", formula, about, terms, "modelled")]


def mean_accepted(accepted: Sequence[int]) -> float | None:
    """Mean of accepted drafts per verification step, the emitted token left out."""
    return ratio(sum(accepted), len(accepted))


def block_efficiency(step_tokens: Sequence[int]) -> float | None:
    """τ: mean of the tokens that a verification writes, accepted and its own; 1 is plain decoding."""
    return ratio(sum(step_tokens), len(step_tokens))


def acceptance_rate(accepted: Sequence[int], drafted: Sequence[int]) -> float | None:
    """Σ accepted ÷ Σ drafted."""
    return ratio(sum(accepted), sum(drafted))


def memory_bound_speedup(step_tokens: Sequence[int], draft_forwards: Sequence[int], size_ratio: float) -> float | None:
    """τ ÷ (1 + c · draft forwards per step) with c = draft size ÷ target size."""
    tau = block_efficiency(step_tokens)
    return None if tau is None else tau / (1 + size_ratio * sum(draft_forwards) / len(draft_forwards))


def rows_per_token(step_tokens: Sequence[int], nodes: Sequence[int]) -> float | None:
    """Verified nodes per written token."""
    return ratio(sum(nodes), sum(step_tokens))


def wasted_nodes(accepted: Sequence[int], nodes: Sequence[int]) -> int:
    """Verified nodes that were not accepted."""
    return sum(nodes) - sum(accepted)
