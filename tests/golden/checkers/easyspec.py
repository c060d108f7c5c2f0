"""Golden cases of EasySpec: groups of layers, and the times of a draft step and of a round that follow from them."""

from __future__ import annotations

from engines.methods.system.easyspec.fuzzy import groups_of, schedule

from .cases import Given, Values, kinds


def timed(given: Given) -> Values:
    """One exact calibration gives the first token of a round, the others come from fuzzy steps."""
    a, m, head = given["attn_ms"], given["mlp_ms"], given["head_ms"]
    first = groups_of(len(a), given["group_size"], given["exclude_first"], given["exclude_last"])
    serial = sum(a) + sum(m) + head
    fuzzy = max(block.end for block in schedule(a, m, first, given["group_sync_ms"])) + head
    return {
        "groups": [[i for i in first if first[i] == start] for start in sorted(set(first.values()))],
        "t_serial_ms": serial,
        "t_fuzzy_ms": fuzzy,
        "draft_step_speedup": serial / fuzzy,
        "t_iteration_ms": given["calibration_ms"] + (given["gamma"] - 1) * fuzzy + given["verify_ms"],
    }


kinds("easyspec", schedule=timed)
