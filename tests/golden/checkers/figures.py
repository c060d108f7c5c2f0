"""Golden cases of the figures that are derived here and not in the engines: importing this registers their checker."""

from fractions import Fraction
from pathlib import Path

import engines
from explorer.figures import acceptance

from .cases import Given


@engines.checks("metrics")
def speculative_metrics(case: Given, data: Given, folder: Path) -> str | None:
    """The metric names of speculative decoding, from counts per step."""
    given = case["input"]
    accepted, drafted, nodes = given["accepted_per_step"], given["drafted_per_step"], given["verified_nodes_per_step"]
    written = [taken + 1 for taken in accepted]  # of rounds that end neither at an end mark nor at the last place
    ratio = float(Fraction(given["draft_to_target_size_ratio"]))
    got = {
        "mean_accepted_excluding_bonus": acceptance.mean_accepted(accepted),
        "block_efficiency": acceptance.block_efficiency(written),
        "acceptance_rate_of_drafted": acceptance.acceptance_rate(accepted, drafted),
        "mbsu": acceptance.memory_bound_speedup(written, given["draft_forwards_per_step"], ratio),
        "verified_rows_per_emitted_token": acceptance.rows_per_token(written, nodes),
        "wasted_nodes": acceptance.wasted_nodes(accepted, nodes),
    }
    return engines.differ("", got, case["expect"])
