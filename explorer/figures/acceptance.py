"""What became of drafts: figures of a run that verifies draft trees."""

from collections.abc import Sequence

from engines import Step, Trace, Tree
from explorer.figures.calls import other_calls, target_role
from explorer.figures.definitions import DEFINITIONS
from explorer.figures.metric import Metric, derived, quotient, ratio

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


def drafts(trace: Trace) -> tuple[int, int]:
    """Accepted and drafted nodes of all trees of a run."""
    trees = [step.tree for step in trace.steps if step.tree]
    return sum(tree.why.count("accepted") for tree in trees), sum(len(tree.parents) - 1 for tree in trees)


def tree_metrics(trace: Trace) -> list[Metric]:
    """Acceptance figures of a run that verifies draft trees, or of a server's answer that reports its drafts; empty for
    any other."""
    trees = [step.tree for step in trace.steps if step.tree]
    if not trees:
        return reported(trace)
    accepted, drafted = drafts(trace)
    tokens = sum(_written(step, step.tree) for step in trace.steps if step.tree)
    n = len(trees)
    return [*rates(accepted, drafted, tokens, n), *_by_position(trees), *_bound(trace, tokens, n)]


def _written(step: Step, tree: Tree) -> int:
    """Tokens that a verification wrote: what it emitted, as far as there was room. Behind an accepted end mark, and
    behind a window that was all right (PEARL), these are the accepted ones alone."""
    room = sum(cause != "withdrawn" for cause in step.commits.causes) if step.commits else len(tree.emitted)
    return min(len(tree.emitted), room)


def rates(accepted: int, drafted: int, tokens: int, n: int) -> list[Metric]:
    """What n verifications of so many drafted nodes came to: nodes accepted, and tokens written, their own among them.
    τ of plain decoding is 1."""
    mean, rows = "mean accepted nodes; the emitted token is not one", "Σ drafted nodes ÷ Σ written tokens"
    wasted, terms = "Σ drafted nodes − Σ accepted nodes", f"{drafted} − {accepted}"
    return [
        quotient("block_efficiency", TAU, "tokens", "Σ written tokens ÷ verification steps", tokens, n, ABOUT),
        quotient("mean_accepted_excluding_bonus", PER_STEP, "tokens", mean, accepted, n, ABOUT),
        quotient("acceptance_rate_of_drafted", RATE.label, RATE.unit, RATE.formula, accepted, drafted, ABOUT),
        derived("wasted_nodes", "Wasted nodes", drafted - accepted, "count", wasted, ABOUT, terms),
        quotient("verified_rows_per_emitted_token", "Rows per token", "ratio", rows, drafted, tokens, ABOUT),
    ]


def reported(trace: Trace) -> list[Metric]:
    """The figures that follow from what a server reported of its drafts, as far as it did."""
    if not trace.header.imported_from:
        return []
    facts = {name: value for step in trace.steps for name, value in step.facts.items()}
    counts = (next((round(facts[key]) for key in keys if key in facts), None) for keys in REPORTED.values())
    (accepted, drafted, rounds), metrics = counts, list[Metric]()
    if accepted is not None and rounds:
        value, terms = (accepted + rounds) / rounds, f"({accepted} + {rounds}) ÷ {rounds}"
        formula = "accepted drafts and one token more for each verification ÷ verifications"
        metrics.append(derived("block_efficiency", TAU, value, "tokens", formula, AS_REPORTED, terms))
        name, formula = "mean_accepted_excluding_bonus", "accepted drafts ÷ verifications"
        metrics.append(quotient(name, PER_STEP, "tokens", formula, accepted, rounds, AS_REPORTED))
    if accepted is not None and drafted:
        name = "acceptance_rate_of_drafted"
        metrics.append(quotient(name, RATE.label, RATE.unit, RATE.formula, accepted, drafted, AS_REPORTED))
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
    about = f"{ABOUT}; in a tree any sibling counts; a position after a refusal counts as drafted and not accepted"
    return [
        quotient(f"acceptance_at_{n}", f"Acceptance, draft position {n}", "share", formula, yes, of, about)
        for n, (yes, of) in enumerate(by_position(trees)[:MAX_POSITIONS], 1)
    ]


def _bound(trace: Trace, tokens: int, n: int) -> list[Metric]:
    """The memory-bound speed-up of a run whose draft and target have known sizes."""
    target = target_role(trace)
    sizes = {record.role: record.parameters for record in trace.header.models}
    share = ratio(sizes.get("draft", 0), sizes.get(target, 0))
    if not share:
        return []
    drafts = sum(other_calls(step, target) for step in trace.steps if step.tree)
    value = memory_bound_speedup(tokens / n, drafts / n, share)
    formula = "τ ÷ (1 + c · draft calls per step), c = draft parameters ÷ target parameters"
    about = "a model of cost, not a time: only reading the weights counts"
    terms = f"{tokens} ÷ {n} ÷ (1 + {share:.3f} × {drafts} ÷ {n})"
    return [derived("mbsu", "Memory-bound speed-up", value, "times", formula, about, terms, "modelled")]


def memory_bound_speedup(tau: float, drafts: float, size_ratio: float) -> float:
    """τ ÷ (1 + c · draft forwards per step) with c = draft size ÷ target size."""
    return tau / (1 + size_ratio * drafts)
