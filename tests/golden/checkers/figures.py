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
    n, written = len(accepted), sum(accepted) + len(accepted)  # of rounds that end neither at an end nor at the limit
    got = {metric.name: metric.value for metric in acceptance.rates(sum(accepted), sum(nodes), written, n)}
    of_drafted = {metric.name: metric.value for metric in acceptance.rates(sum(accepted), sum(drafted), written, n)}
    got["acceptance_rate_of_drafted"] = of_drafted["acceptance_rate_of_drafted"]
    ratio = float(Fraction(given["draft_to_target_size_ratio"]))
    got["mbsu"] = acceptance.memory_bound_speedup(written / n, sum(given["draft_forwards_per_step"]) / n, ratio)
    return engines.differ("", got, case["expect"])
