"""Golden cases of Step-3: cost of a token, prices, identities of throughput and network, the pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple
from pathlib import Path
from typing import Any

from engines.core.verify import Case, NotCovered, checks, differ
from engines.studies._decode_costs import DEVICES, Device, Pipeline, Shape, least_sparsity, price, stage_seconds

from .cases import Given, Values


def token_cost(given: Given) -> Values:
    """Bytes, operations and prices of one token."""
    shape, n, element = Shape(**given["config"]), given["context"], given["kv_bytes_per_element"]
    prices = {name: price(shape, device, n, element) for name, device in DEVICES.items()}
    return {
        "kv_bytes": shape.kv_bytes(n, element),
        "attention_flops": shape.attention_flops(n),
        "linear_flops": shape.linear_flops,
        "ffn_flops": shape.ffn_flops,
        "attention_intensity_flops_per_kv_byte": shape.attention_flops(n) / shape.kv_bytes(n, element),
        "usd_per_million_tokens": {
            name: {"attention": one.attention, "ffn": one.ffn, "bound": one.bound} for name, one in prices.items()
        },
    }


def throughput(given: Given) -> dict[str, float]:
    """batch / (GPUs x seconds), solved for the step and at 50 ms."""
    batch, gpus = given["batch"], given["gpus"]
    return {
        "implied_step_ms": 1e3 * batch / (gpus * given["tokens_per_gpu_per_second"]),
        "at_50ms": batch / (gpus * 0.05),
    }


def scaling(given: Given) -> dict[str, float]:
    """More attention servers for longer texts: the same tokens from more GPUs."""
    return {"new_tgs": given["base_tgs"] * sum(given["base"]) / sum(given["new"])}


def budget(given: Given) -> dict[str, float]:
    """The time of a stage, or of a microbatch on a link."""
    if "tpot_ms" in given:
        return {"stage_us": 1e6 * stage_seconds(given["tpot_ms"] / 1e3, given["layers"], given["stages"])}
    bits = 8 * given["tokens_per_gpu"] * given["hidden"] * given["bytes_per_element"]
    return {"us": bits / (given["gbit_per_s"] * 1e3)}


def sparsity(given: Given) -> dict[str, float]:
    """The smallest sparsity that each device's network allows."""
    found = {}
    for name, flops in given["flops"].items():
        device = Device(0, flops, given["bandwidth"][name], given["net_bytes_per_s"][name])
        found[name] = least_sparsity(device, given["hidden"], given["layers"], given["tpot_s"], given["stages"])
    return found


def pipeline(given: Given) -> Values:
    """The step, both servers' busy share and the first two layers' times."""
    made = Pipeline(**given)
    return {
        "step_time": made.step,
        "attention_busy_fraction": made.busy(made.attention),
        "ffn_busy_fraction": made.busy(made.ffn),
        "starts_of_first_two_layers": [list(astuple(stage)) for stage in made.stages() if stage.layer < 2],
    }


@checks("step3")
def check(case: Case, _: Given, __: Path) -> str | None:
    """One case, by its kind, to the six digits that the file has."""
    if case["kind"] not in KINDS:
        raise NotCovered
    return differ("", _rounded(KINDS[case["kind"]](case["inputs"])), _rounded(case["expected"]))


KINDS = {
    "per-token-cost": token_cost, "throughput": throughput, "scaling": scaling, "budget": budget, "sparsity": sparsity,
    "afd-pipeline": pipeline,
}  # fmt: skip


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _rounded(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(one) for one in value]
    return value if isinstance(value, (str, bool)) else float(f"{value:.6g}")
