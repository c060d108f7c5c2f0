"""Golden cases of what a system costs: EasySpec's groups and times, SpecMemo's bytes, Mirror-SD's steps, RAPID's
transfer, Scylla's log-linear fit and the arithmetic of speculative decoding."""

from engines.core.lazy import torch
from engines.core.sampling import accept_probability, residual
from engines.methods.speculative.rapid.transfer import Transfer
from engines.methods.system.easyspec.fuzzy import groups_of, schedule
from engines.methods.system.mirror_sd.rounds import channel, internal_steps, overlap, reused
from engines.methods.system.specmemo.plan import lean_bytes, reference_bytes
from engines.studies.scaling_laws import loglinear, miss

from .cases import Given, Values, chain, float64, kinds, walked


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


def medusa_bytes_of(given: Given) -> Values:
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


kinds("specmemo_bytes", medusa_bytes=medusa_bytes_of)


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
    return {"reuse": reused(given["tree_paths"], [*given["accepted_prefix"], given["correction"]]) is not None}


def steps(given: Given) -> Values:
    return {"draft_steps": internal_steps(given["gamma"], given["tokens_per_step"])}


kinds("mirror_sd", overlap=mass, accept=accept, reuse=reuse, ss_steps=steps)


def transfer(given: Given) -> Values:
    """One position with all that follows from it."""
    z, z_draft = (float64(given[name]) for name in ("target_logits", "draft_logits"))
    one = Transfer.of(z, z_draft.softmax(-1), given["eta"], given["alpha"])
    chances = [accept_probability(one.p_hat, one.q, token) for token in range(len(z))]
    return {
        "p": one.p.tolist(),
        "q": one.q.tolist(),
        "mask": one.mask.tolist(),
        "transferred_logits": one.z_hat.tolist(),
        "p_hat": one.p_hat.tolist(),
        "accept_prob": chances,
        "accepted": given["u"] <= chances[given["draft_token"]],
        "residual": one.residual.tolist(),
        "expected_accept": float(torch.minimum(one.q, one.p_hat).sum()),
        "one_step_output_law": one.output.tolist(),
        "tv_output_vs_target": one.shift,
        "tv_output_vs_p_hat": float((one.output - one.p_hat).abs().sum() / 2),
    }


kinds("rapid", transfer=transfer)


def fit(given: Given) -> Values:
    """Slope per decade, what it explains and predicts, also for its own last point."""
    line = loglinear(given["x"], given["y"])
    return {
        "slope_per_decade": line.slope,
        "intercept": line.intercept,
        "r2": line.r2,
        "prediction": line.at(given["predict_at"]),
        "loo_last_prediction": miss("log-linear", given["x"], given["y"]) + given["y"][-1],
    }


def acceptance(given: Given) -> Values:
    """The sum of minima, and what is left after a refusal."""
    p, q = (float64(given[name]) for name in "pq")
    accept, left = float(torch.minimum(p, q).sum()), residual(p, q)
    return {
        "accept": accept,
        "tvd": float((p - q).abs().sum() / 2),
        "residual": None if left is None else left.tolist(),
    }


def measured(given: Given) -> Values:
    kept, gamma = given["accepted_per_step"], given["gamma"]
    tau = sum(kept) / len(kept) + 1
    return {
        "acceptance_rate": sum(kept) / (gamma * len(kept)),
        "block_efficiency": tau,
        "memory_bound_speedup": tau / (gamma * given["param_ratio"] + 1),
    }


kinds("loglinear_fit", "sd_arithmetic", fit=fit, acceptance=acceptance, measured=measured)
