"""Golden cases of Mirror-SD: times of a step, channel and overlap, accepted prefix, reuse, internal steps."""

from __future__ import annotations

from pathlib import Path

from engines.core.verify import Case, checks
from engines.methods.system.mirror_sd.rounds import Latency, channel, internal_steps, overlap, reused

from .cases import Given, Values, by_kind, chain, float64, walked

SLACK = 1e-9  # a draft that ends with the upper layers is hidden


def latency(given: Given) -> Values:
    """Equations 5, 10 and 14."""
    times, at = given["layer_ms"], given["exit_layer"]
    step = Latency(sum(times[:at]), sum(times[at:]), given["draft_step_ms"], given["rv_ee_ms"], given["rv_fv_ms"])
    return {
        "t_target_prefix_ms": step.prefix,
        "overlap_budget_ms": step.budget,
        "t_target_ms": step.target,
        "t_draft_gen_ms": step.draft,
        "t_sd_ms": step.serial,
        "t_mirror_ms": step.mirror,
        "draft_hidden": step.exposed <= SLACK,
        "saved_ms": step.serial - step.mirror,
        "speedup": step.serial / step.mirror,
        "exposed_draft_ms": step.exposed,
        "relative_draft_overhead": step.exposed / step.draft,
    }


def mass(given: Given) -> Values:
    """Equations 7 and 9."""
    q, z = (float64([given[name]]) for name in ("final_logits", "exit_logits"))
    tokens, chances = channel(z, given["kappa"])
    omega = float(overlap(q.softmax(-1), tokens))
    return {
        "channel_tokens": tokens[0].tolist(),
        "channel_logprobs": chances[0].tolist(),
        "omega": omega,
        "fallback_upper_bound": 1 - omega,
    }


def accept(given: Given) -> Values:
    """Equations 3 and 11, on first choices: the target's tokens behind each of the window's rows."""
    d, y = given["draft"], given["target"]
    found = walked([*y, 0], chain([0, *d]))
    A = len(found.path) - 1
    missed = len(d) > A
    return {
        "accepted": A,
        "correction_index": A + 1 if missed else None,
        "correction": found.emitted if missed else None,
    }


def reuse(given: Given) -> Values:
    """Section 3.1."""
    return {"reuse": reused(given["tree_paths"], [*given["accepted_prefix"], given["correction"]]) is not None}


def steps(given: Given) -> Values:
    """Counted directly."""
    return {"draft_steps": internal_steps(given["gamma"], given["tokens_per_step"])}


@checks("mirror_sd")
def check(case: Case, _: Given, __: Path) -> str | None:
    """The kinds of case in the file."""
    kinds = {"latency": latency, "overlap": mass, "accept": accept, "reuse": reuse, "ss_steps": steps}
    return by_kind(kinds, case)
