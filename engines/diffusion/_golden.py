"""Golden traces of the diffusion family: the official loops' decisions, forward by forward, on small trained stubs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engines.core.events import Trace
from engines.core.golden import Case, NotCovered, checks, differ
from engines.core.run import run
from engines.models.zoo import load_model

# official parameter name -> ours; the official number of tokens is called differently from file to file
NAMES = {
    "gen_length": "max_new_tokens",
    "block_length": "block_length",
    "init_block_length": "block_length",
    "steps": "steps",
    "cfg_scale": "cfg_scale",
    "cache": "cache",
    "temperature": "temperature",
    "remasking": "remasking",
    "threshold": "threshold",
    "factor": "factor",
    "credit_alpha": "credit_alpha",
    "boost_gamma": "boost_gamma",
    "decay_beta": "decay_beta",
    "early_stop": "early_stop",
    "delimiter_threshold": "delimiter_threshold",
    "relaxed_threshold": "relaxed_threshold",
    "radius": "radius",
    "answer_start": "answer_start",
    "max_new_tokens": "max_new_tokens",
    "alg": "alg",
    "alg_temp": "alg_temp",
    "top_p": "top_p",
    "alg_p_threshold": "alg_p_threshold",
}


def decoded(slug: str, case: Case, data: Mapping[str, Any], folder: Path, drop: tuple[str, ...] = (), **extra: Any) -> Trace:
    """Run a case on its stub with the official parameters under our names."""
    stub = folder / "stubs" / case["stub"]
    model = load_model(str(stub), kind="masked", mask_id=data["mask_id"], shift=case["stub"] == "s")
    params = {NAMES[k]: v for k, v in case["params"].items() if k in NAMES and k not in drop}
    return run(slug, model, case["prompt"], params={**params, **extra}, seed=case.get("rng_seed", 0), detail="light")


def mismatch(trace: Trace, case: Case) -> str | None:
    """Compare forwards, every step's commits, the block (where given) and the final board."""
    expected = case["expected"]
    if fault := differ("nfe", trace.totals.forwards, expected["nfe"]):
        return fault
    for i, (step, want) in enumerate(zip(trace.steps, expected["steps"], strict=True)):
        pairs = sorted((q, token) for q, token in zip(step.commits.positions, step.commits.tokens, strict=True) if token >= 0) if step.commits else []
        if fault := differ(f"forward {i} commits", [list(pair) for pair in pairs], [[q, token] for q, token, _ in want["set"]]):
            return fault
        block = next(([s.start, s.end] for s in step.spans if s.kind == "block"), None)
        if want.get("block") and (fault := differ(f"forward {i} block", block, want["block"])):
            return fault
    return differ("final", trace.header.prompt_ids + trace.output_ids, expected["final"])


@checks("llada")
def llada(case: Case, data: Mapping[str, Any], folder: Path) -> str | None:
    """LLaDA's generate: low-confidence and random remasking, guidance, Gumbel noise."""
    return mismatch(decoded("llada", case, data, folder), case)


@checks("fast_dllm_v1", "fast_dllm_v1_cache")
def fast_dllm_v1(case: Case, data: Mapping[str, Any], folder: Path) -> str | None:
    """Threshold and factor, and the fixed schedule where neither is given, with and without a cache; what every forward of a cached file fed."""
    slug = "threshold" if "threshold" in case["params"] else "factor" if "factor" in case["params"] else "llada"
    trace = decoded(slug, case, data, folder, drop=() if slug == "llada" else ("steps",))
    whole = [0, trace.header.canvas]
    for i, (step, want) in enumerate(zip(trace.steps, case["expected"]["steps"], strict=False)):
        fed = next(([s.start, s.end] for s in step.spans if s.kind == "fed"), whole)
        if "fed" in want and (fault := differ(f"forward {i} fed", [*fed, step.tokens_fed], [*want["fed"], want["fed"][1] - want["fed"][0]])):
            return fault
    return mismatch(trace, case)


@checks("credit", "dinfer_threshold")
def credit(case: Case, data: Mapping[str, Any], folder: Path) -> str | None:
    """dInfer's credit decoder, and its plain threshold decoder, which is the same without credit."""
    plain = {} if "credit_alpha" in case["params"] else {"credit_alpha": 0.0}
    return mismatch(decoded("creditdecoding", case, data, folder, **plain), case)


@checks("adablock")
def adablock(case: Case, data: Mapping[str, Any], folder: Path) -> str | None:
    """AdaBlock's loop without cache, and the block lengths it reports."""
    never = case["params"]["delimiter_threshold"] > 1
    ids = ",".join(str(i) for i in case["params"]["delimiter_ids"])
    extra = {"delimiter_ids": ids, **({"delimiter_threshold": 1.01} if never else {})}
    trace = decoded("adablock", case, data, folder, drop=("delimiter_threshold",) if never else (), **extra)
    blocks = [(s.start, s.end) for step in trace.steps for s in step.spans if s.kind == "block"]
    starts = sorted(set(blocks))
    want = case["expected"].get("extra", {})
    return (
        mismatch(trace, case)
        or differ("block_lengths", [b - a for a, b in starts], want.get("block_lengths", [b - a for a, b in starts]))
        or differ("nfe_per_block", [blocks.count(s) for s in starts], want.get("nfe_per_block", [blocks.count(s) for s in starts]))
    )


@checks("localleap")
def localleap(case: Case, data: Mapping[str, Any], folder: Path) -> str | None:
    """LocalLeap's loop; `steps` is only checked for divisibility there."""
    return mismatch(decoded("localleap", case, data, folder, drop=("steps",)), case)


@checks("learn2pd")
def learn2pd(case: Case, data: Mapping[str, Any], folder: Path) -> str | None:
    """Learn2PD's three loops (filter, EoTP, both) and where the board was cut. `steps` is the canvas there, so one token per forward is planned."""
    p = case["params"]
    assert p["steps"] == p["gen_length"]
    chosen = (
        {"filter": str(folder / "stubs" / f"filter_{p['filter']}.safetensors"), "accept_thres": p["accept_thres"]} if "filter" in p else {"accept_thres": 1.0}
    )
    trace = decoded("learn2pd", case, data, folder, drop=("steps",), eotp="eotp" in p["variant"], **chosen)
    ends = [next((q for q, token in zip(s.commits.positions, s.commits.tokens, strict=True) if token < 0), None) if s.commits else None for s in trace.steps]
    steps, L = [], len(case["prompt"]) + p["gen_length"]
    for want in case["expected"]["steps"]:  # the block's planned end stands there, behind the board's own where a cut ends it earlier
        steps.append({**want, "block": [want["block"][0], min(want["block"][1], L)]})
        L = want.get("length", L)
    wanted = [want.get("length") for want in steps]
    return mismatch(trace, {**case, "expected": {**case["expected"], "steps": steps}}) or differ("cuts", ends, wanted)


@checks("prophet")
def prophet(case: Case, data: Mapping[str, Any], folder: Path) -> str | None:
    """Prophet's early exit and the step it reports. Constraints stand in the canvas before the first forward there, and in our first step's commits."""
    given = {int(offset): token for offset, token in case["params"].get("constraints", {}).items()}
    bars = {f"bar_{phase}": bar for phase, bar in case["params"].get("early_exit_thresholds", {}).items()}
    constraints = "|".join(f"{offset}:#{token}" for offset, token in given.items())
    trace = decoded("prophet", case, data, folder, constraints=constraints, **bars)
    written = {len(case["prompt"]) + offset: token for offset, token in given.items()}
    first, *rest = case["expected"]["steps"]
    steps = [{**first, "set": sorted([*first["set"], *([q, token, None] for q, token in written.items())])}, *rest]
    leap = next((step.index + 1 for step in trace.steps if step.choice and step.choice.chosen == "all-in"), None)
    want = case["expected"]["extra"]["exit"]["exit_decision_step"]
    return mismatch(trace, {**case, "expected": {**case["expected"], "steps": steps}}) or differ("exit", leap, want)


@checks("dream")
def dream(case: Case, data: Mapping[str, Any], folder: Path) -> str | None:
    """Dream's loop with its four orders, and the rule that Fast-dLLM adds to it."""
    if case["params"]["alg"] == "confidence_threshold":
        return mismatch(decoded("dream-threshold", case, data, folder, drop=("alg",)), case)
    return mismatch(decoded("dream", case, data, folder), case)


@checks("dparallel", "dparallel_dream")
def dparallel(case: Case, data: Mapping[str, Any], folder: Path) -> str | None:
    """dParallel's loops for LLaDA and Dream; `steps` and the name of the order do not matter where a threshold is given."""
    return mismatch(decoded("dparallel", case, data, folder, drop=("steps", "alg")), case)


@checks("dimple")
def dimple(case: Case, data: Mapping[str, Any], folder: Path) -> str | None:
    """Dimple's `dim` pipeline. Priors stand in the canvas before the first forward there, and in our first step's commits."""
    if case["params"]["decoding_pipeline"] != "dim":
        raise NotCovered
    given = {int(offset): token for offset, token in case["params"].get("structure_prior", {}).items()}
    trace = decoded("dimple", case, data, folder, structure_prior="|".join(f"{offset}:#{token}" for offset, token in given.items()))
    first, *rest = case["expected"]["steps"]
    steps = [{**first, "set": sorted([*first["set"], *([len(case["prompt"]) + offset, token, None] for offset, token in given.items())])}, *rest]
    return mismatch(trace, {**case, "expected": {**case["expected"], "steps": steps}})


@checks("fast_dllm_v2")
def fast_dllm_v2(case: Case, data: Mapping[str, Any], folder: Path) -> str | None:
    """Fast-dLLM v2's generate: what every forward fed and wrote. The forward that stores the last block for nothing is not made by us."""
    p, prompt, expected = case["params"], case["prompt"], case["expected"]
    model = load_model(str(folder / "stubs" / case["stub"]), kind="block", mask_id=data["mask_id"])
    size = p["block_size"]
    params = {k: v for k, v in p.items() if k in ("small_block_size", "threshold", "use_block_cache")}
    canvas = (len(prompt) // size + p["max_new_tokens"] // size) * size - len(prompt)
    trace = run("fast-dllm-v2", model, prompt, params={**params, "max_new_tokens": canvas}, detail="light")
    wanted = expected["steps"][:-1] if expected["steps"][-1]["kind"] == "store" else expected["steps"]
    if fault := differ("nfe", trace.totals.forwards, len(wanted)):
        return fault
    for i, (step, want) in enumerate(zip(trace.steps, wanted, strict=True)):
        pairs = sorted(zip(step.commits.positions, step.commits.tokens, strict=True)) if step.commits else []
        if fault := differ(f"forward {i} commits", [list(pair) for pair in pairs], [[q, token] for q, token, _ in want["set"]]):
            return fault
        if fault := differ(f"forward {i} fed", next([s.start, s.end] for s in step.spans if s.kind == "fed"), want["fed"]):
            return fault
    final = prompt + trace.output_ids[: len(expected["final"]) - len(prompt)]
    return differ("final", final, expected["final"][: len(final)])
