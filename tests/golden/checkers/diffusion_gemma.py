"""Golden cases of DiffusionGemma: transformers' `generate` and the three schedulers of diffusers, step by step, with
the draws of the same generator."""

import copy
from pathlib import Path
from typing import Any

import engines
from engines.core.golden_cases import Case, NotCovered, checks, differ, loading
from engines.driver.run import Run
from engines.methods.diffusion import block_refinement, discrete_ddim, entropy_bound

from .cases import Given, Values

METHODS = {
    "generate": entropy_bound.decode,
    "entropy_bound": entropy_bound.decode,
    "block_refinement": block_refinement.decode,
    "discrete_ddim": discrete_ddim.decode,
}
OURS = {"gen_length": "max_new_tokens", "num_inference_steps": "max_denoising_steps"}
BESIDE = {"eos_token_id", "scheduler", "scheduler_config"}
STEP = {  # of a step in the data -> a field of our record; draws are below
    "canvas": "before",
    "after": "after",
    "argmax": "argmax",
    "noise": "noise",
    "temperature": "temperature",
    "mean_entropy": "mean_entropy",
    "stop": "stop",
}
PLACES = {"accepted": "accepted", "committed": "accepted", "edited": "edited"}  # within the canvas
ROWS = {"entropy": "entropies", "sampled_prob": "chances"}
ABOUT = {"block", "start", "cur_step", "step", "kind", "self_conditioned", "draws", "sampled"}
CLOSE = 1e-3


@checks("diffusion_gemma")
def diffusion_gemma(case: Case, data: Given, folder: Path) -> str | None:
    """One run: its text, its decoder forwards, and each step of it."""
    given = dict(case["params"])
    scheduler = given.get("scheduler", "generate")
    if scheduler not in METHODS:
        raise NotCovered(f"the scheduler {scheduler}")
    model: Any = copy.copy(engines.load_model(folder / "checkpoint", **loading(dtype="float32")))
    ends = given.get("eos_token_id", 1)
    model.eos_ids = frozenset(ends if isinstance(ends, list) else [ends])
    run = Run(METHODS[scheduler], {"model": model}, case["prompt"], params=_params(given), seed=case["rng_seed"])
    steps = [step for step in run if step.records["canvas"]["kind"] != "drawn"]
    wanted = case["expected"]
    forwards = sum(sum(step.forwards.values()) for step in steps)
    got = {"sequence": [*case["prompt"], *run.end().output_ids], "nfe": forwards, "steps": len(steps)}
    expected = {"sequence": wanted["sequence"], "nfe": wanted["nfe"], "steps": len(wanted["steps"])}
    if wrong := differ("run", got, expected):
        return wrong
    found = (_mismatch(f"steps[{i}]", *pair) for i, pair in enumerate(zip(steps, wanted["steps"], strict=True)))
    return next(filter(None, found), None)


def _params(given: Given) -> Values:
    """The parameters of a case under our names."""
    flat = {**given, **given.get("scheduler_config", {})}
    params = {OURS.get(key, key): value for key, value in flat.items() if key not in BESIDE}
    if given.get("scheduler") == "entropy_bound":
        params["answer"] = "canvas"
        params.pop("temperature")  # the pipeline does not pass it on
    if params.get("confidence_threshold", 0) is None:  # no adaptive stop
        params["confidence_threshold"] = 0.0
    return params


def _mismatch(name: str, step: Any, wanted: Given) -> str | None:
    """The first thing of a step that is not as the data say."""
    record, own = step.records["canvas"], {"temperature": 0.0, "mean_entropy": 0.0, "stop": False}
    start = record["start"]
    if unknown := wanted.keys() - STEP.keys() - PLACES.keys() - ROWS.keys() - ABOUT:
        return f"{name} holds '{min(unknown)}', which no check here reads"
    if wanted.get("kind", "denoise") != record["kind"]:
        return f"{name} is of the kind {record['kind']}, expected {wanted['kind']}"
    got = {key: record.get(field, own.get(field)) for key, field in {**STEP, **ROWS}.items()}
    got |= {key: [place - start for place in record.get(field, [])] for key, field in PLACES.items()}
    draws = _draws(record)
    return differ(name, got, {key: wanted[key] for key in wanted if key in got}, CLOSE) or differ(
        f"{name}.draws", draws, wanted.get("draws", draws)[-len(draws) :]
    )


def _draws(record: Given) -> list[list[Any]]:
    """The last draws of a step in their order, numbers as the data round them. Tokens of the model are drawn before
    them, and count only where they are taken: these stand in `after`."""
    if record["kind"] == "correct":
        anew = [record["after"][place - record["start"]] for place in record["accepted"]]
        return [["rand", [round(u, 9) for u in record["uniform"]]], ["multinomial", anew]]
    routes = [["multinomial", record["routes"]]] if "routes" in record else []
    return [*routes, ["randint", record["noise"]]]
