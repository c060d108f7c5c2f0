"""Golden cases of SpecMemo: bytes of a Medusa tree by purpose, as the reference allocates them and lean."""

from __future__ import annotations

from engines.methods.system.specmemo.ledger import lean_bytes, reference_bytes

from .cases import Given, Values, kinds


def medusa(given: Given) -> Values:
    """Both ledgers, with the heads' own weights beside them."""
    d, V, K, b, B = (given[name] for name in ("hidden", "vocab", "draft_heads", "bytes_per_element", "batch"))
    kv_row = 2 * given["num_layers"] * B * given["kv_heads"] * (d // given["heads"]) * b
    params, same = K * (given["res_layers"] * (d * d + d) + d * V), {"kv_row": kv_row, "V": V, "b": b, "B": B, "K": K}
    T, n_max = given["tree_nodes"], given["max_position"]
    reference = reference_bytes(**same, T=T, n_max=n_max, P=given["leaf_paths"], D=given["path_len"])
    lean = lean_bytes(**same, T=T, n=given["capacity_tokens"])
    whole, small = sum(reference.values()), sum(lean.values())
    return {
        "kv_bytes_per_token": kv_row,
        "draft_head_params": params,
        "draft_head_bytes": params * b,
        "reference": reference,
        "reference_generation_bytes": whole,
        "lean": lean,
        "lean_generation_bytes": small,
        "saved_fraction": 1 - small / whole,
    }


kinds("specmemo_bytes", medusa_bytes=medusa)
