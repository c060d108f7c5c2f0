"""Golden cases of Speculative MoE: bytes and local rate of given routes, the token table, and requests on devices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from engines.core.verify import Case, checks, differ
from engines.methods.system.speculative_moe import exchanges as ours

from .cases import Given, Values


def layer(route: Any, C: Any, given: Given) -> Values:
    """What is expected of one layer."""
    found = ours.exchange(np.array(route), np.array(given["home_device"]), np.array(C), given["devices"])
    sizes = given["hidden"], given["dispatch_bytes_per_element"], given["combine_bytes_per_element"]
    (out, back), (out_once, back_once) = found.bytes(*sizes, once=False), found.bytes(*sizes, once=True)
    return {
        "local_activation_rate": found.lar,
        "remote_activations": found.remote,
        "remote_device_visits": int(found.visits.sum()),
        "dispatch_bytes_no_dedup": out,
        "dispatch_bytes_dedup": out_once,
        "combine_bytes_no_dedup": back,
        "combine_bytes_dedup": back_once,
        "visits_matrix": found.visits.tolist(),
        "device_load": found.load.tolist(),
        "load_imbalance_max_over_mean": found.imbalance,
    }


def routes(given: Given) -> Values:
    """Layers as they are; then a table from the first half of the tokens in layer 0, used on the second half."""
    half, G = len(given["token_ids"]) // 2, given["devices"]
    tokens, home = np.array(given["token_ids"]), np.array(given["home_device"])
    first, C = np.array(given["routes"][0]), np.array(given["expert_device"][0])
    T = np.zeros((given["vocabulary"], len(C)), dtype=np.int64)
    np.add.at(T, (tokens[:half, None], first[:half]), 1)
    R = ours.token_table(T, C, G)
    at = np.where(R[tokens[half:]] == ours.NOWHERE, home[half:], R[tokens[half:]])
    return {
        "layers": [layer(r, c, given) for r, c in zip(given["routes"], given["expert_device"], strict=True)],
        "token_device_table": R.tolist(),
        "shuffled_device": at.tolist(),
        "local_rate_round_robin_second_half": ours.exchange(first[half:], home[half:], C, G).lar,
        "local_rate_shuffled_second_half": ours.exchange(first[half:], at, C, G).lar,
    }


@checks("moe_comm")
def check(case: Case, _: Given, __: Path) -> str | None:
    """Routes, or requests."""
    given = case["inputs"]
    if case.get("kind") == "request-schedule":
        device, scores = ours.schedule_requests(np.array(given["table"]), given["requests"], given["devices"])
        return differ("", {"device": device, "scores": scores}, case["expected"])
    return differ("", routes(given), case["expected"], 1e-9)
