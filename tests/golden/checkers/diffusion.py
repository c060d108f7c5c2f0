"""Golden traces of the diffusion family: the official loops' decisions, forward by forward, on small trained stubs."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from engines.core.golden_cases import Case, NotCovered, checks, differ, loading
from engines.core.registry import get_method
from engines.core.trace import Step, Trace
from engines.driver.run import run
from engines.models.loading.zoo import load_model

from .cases import Given, Values

# official parameter name -> ours, where they differ
NAMES = {
    "gen_length": "max_new_tokens",
    "init_block_length": "block_length",
}
# official parameters that have one value here
FIXED = {"eps": 1e-3, "logits_eos_inf": False, "confidence_eos_eot_inf": False}
V2_TOP_P = 0.95


def decoded(slug: str, case: Case, data: Given, folder: Path, read: tuple[str, ...] = (), **extra: Any) -> Trace:
    """Run a case on its stub with the official parameters under our names; those in `read` the checker deals with.

    Whether the network's rows are shifted stands in the file, or where it does not, in the stub's folder. Raises
    NotCovered where a parameter is unknown to our method: without it another decoder would be checked.
    """
    stub = folder / "stubs" / case["stub"]
    model = load_model(str(stub), **loading(kind="masked", mask_id=data["mask_id"], shift=data.get("shift")))
    known = {param.name for param in get_method(slug).info.params}
    params = renamed({k: v for k, v in case["params"].items() if k not in read}, known, slug)
    return run(slug, model, case["prompt"], params={**params, **extra}, seed=case.get("rng_seed", 0), detail="light")


def renamed(given: Given, known: Collection[str], slug: str) -> Values:
    """Official parameters under our names, without those that are not set (None) or have the one value that we know.

    Raises NotCovered for a parameter that is none of `known`."""
    given = {name: value for name, value in given.items() if value is not None}
    ours = {NAMES.get(k, k): v for k, v in given.items() if k not in FIXED or v != FIXED[k]}
    if unknown := sorted(set(ours) - set(known)):
        raise NotCovered(f"{slug} has no parameter {', '.join(unknown)}")
    return ours


def mismatch(trace: Trace, case: Case, standing: Collection[int] = ()) -> str | None:
    """Compare forwards, every step's commits, the block (where given) and the final board. standing: positions that
    were written before the first forward there, and in our first step here."""
    expected, canvas = case["expected"], trace.header.canvas or 0
    if fault := differ("nfe", trace.totals.forwards, expected["nfe"]):
        return fault
    masks = [q for q in range(len(case["prompt"]), canvas) if q not in standing]
    for i, (step, want) in enumerate(zip(trace.steps, expected["steps"], strict=True)):
        wrote, end = written(step)
        wanted = [[q, token] for q, token, _ in want["set"]]
        if fault := differ(f"forward {i} commits", [list(pair) for pair in sorted(wrote.items())], wanted):
            return fault
        if "block" in want and (
            fault := differ(f"forward {i} block", block_of(step, want, masks, canvas), want["block"])
        ):
            return fault
        masks = [q for q in masks if q not in wrote and (end is None or q < end)]
    return differ("final", trace.header.prompt_ids + trace.output_ids, expected["final"])


def written(step: Step) -> tuple[dict[int, int], int | None]:
    """What a step wrote, position -> token, and where it cut the board."""
    pairs = list(zip(step.commits.positions, step.commits.tokens, strict=True)) if step.commits else []
    return {q: token for q, token in pairs if token >= 0}, next((q for q, token in pairs if token < 0), None)


def block_of(step: Step, want: Given, masks: list[int], canvas: int) -> list[int] | None:
    """The block [start, end) that holds the first of the masks before a step, which is what the files mean.

    The loop may still be in a block that has none left (more steps than tokens, constraints that fill it): then it
    lies whole lengths behind. Without any mask there is none; Dream's files go on to name the whole answer.
    """
    block = next(([s.start, s.end] for s in step.spans if s.kind == "block"), None)
    if block is None or not masks:
        return block if want["block"] else None
    start, end = block
    behind = (masks[0] - start) // (end - start) * (end - start)
    return [start + behind, min(end + behind, canvas)] if behind else block


@checks("llada")
def llada(case: Case, data: Given, folder: Path) -> str | None:
    """LLaDA's generate: low-confidence and random remasking, guidance, Gumbel noise."""
    return mismatch(decoded("llada", case, data, folder), case)


@checks("fast_dllm_v1", "fast_dllm_v1_cache")
def fast_dllm_v1(case: Case, data: Given, folder: Path) -> str | None:
    """Threshold and factor, and the fixed schedule where neither is given, with and without a cache; what every forward
    of a cached file fed."""
    slug = next((name for name in ("threshold", "factor") if case["params"].get(name) is not None), "llada")
    trace = decoded(slug, case, data, folder, read=() if slug == "llada" else ("steps",))
    whole = [0, trace.header.canvas]
    for i, (step, want) in enumerate(zip(trace.steps, case["expected"]["steps"], strict=False)):
        fed = next(([s.start, s.end] for s in step.spans if s.kind == "fed"), whole)
        if "fed" in want and (
            fault := differ(
                f"forward {i} fed", [*fed, step.tokens_fed], [*want["fed"], want["fed"][1] - want["fed"][0]]
            )
        ):
            return fault
    return mismatch(trace, case)


@checks("credit", "dinfer_threshold")
def credit(case: Case, data: Given, folder: Path) -> str | None:
    """dInfer's credit decoder, and its plain threshold decoder, which is the same without credit."""
    plain: dict[str, Any] = {} if "credit_alpha" in case["params"] else {"credit_alpha": 0.0}
    return mismatch(decoded("creditdecoding", case, data, folder, **plain), case)


@checks("adablock")
def adablock(case: Case, data: Given, folder: Path) -> str | None:
    """AdaBlock's loop without cache, and the block lengths it reports."""
    never = case["params"]["delimiter_threshold"] > 1
    ids = ",".join(str(i) for i in case["params"]["delimiter_ids"])
    extra = {"delimiter_ids": ids, **({"delimiter_threshold": 1.01} if never else {})}
    read = ("delimiter_ids", "delimiter_threshold") if never else ("delimiter_ids",)
    trace = decoded("adablock", case, data, folder, read, **extra)
    blocks = [(s.start, s.end) for step in trace.steps for s in step.spans if s.kind == "block"]
    starts = sorted(set(blocks))
    want = case["expected"].get("extra", {})
    return (
        mismatch(trace, case)
        or differ("block_lengths", [b - a for a, b in starts], want.get("block_lengths", [b - a for a, b in starts]))
        or differ(
            "nfe_per_block",
            [blocks.count(s) for s in starts],
            want.get("nfe_per_block", [blocks.count(s) for s in starts]),
        )
    )


@checks("localleap")
def localleap(case: Case, data: Given, folder: Path) -> str | None:
    """LocalLeap's loop; `steps` is only checked for divisibility there."""
    return mismatch(decoded("localleap", case, data, folder, ("steps",)), case)


@checks("learn2pd")
def learn2pd(case: Case, data: Given, folder: Path) -> str | None:
    """Learn2PD's three loops (filter, EoTP, both) and where the board was cut. `steps` is the canvas there, so one
    token per forward is planned."""
    p = case["params"]
    if p["steps"] != p["gen_length"]:
        raise NotCovered("learn2pd plans one token per forward")
    chosen = (
        {"filter": str(folder / "stubs" / f"filter_{p['filter']}.safetensors"), "accept_thres": p["accept_thres"]}
        if "filter" in p
        else {"accept_thres": 1.0}
    )
    read = ("steps", "variant", "filter", "accept_thres")
    trace = decoded("learn2pd", case, data, folder, read, eotp="eotp" in p["variant"], **chosen)
    ends = [written(step)[1] for step in trace.steps]
    steps, L = [], len(case["prompt"]) + p["gen_length"]
    for want in case["expected"]["steps"]:  # the block's planned end stands there, even where a cut ends it earlier
        steps.append({**want, "block": [want["block"][0], min(want["block"][1], L)]} if want.get("block") else want)
        L = want.get("length", L)
    wanted = [want.get("length") for want in steps]
    return mismatch(trace, {**case, "expected": {**case["expected"], "steps": steps}}) or differ("cuts", ends, wanted)


@checks("prophet")
def prophet(case: Case, data: Given, folder: Path) -> str | None:
    """Prophet's early exit and the step it reports. Constraints stand in the canvas before the first forward there, and
    in our first step's commits."""
    p = case["params"]
    bars: dict[str, Any] = {f"bar_{phase}": bar for phase, bar in (p.get("early_exit_thresholds") or {}).items()}
    read = ("constraints", "early_exit_thresholds")
    trace = decoded("prophet", case, data, folder, read, constraints=pinned(p.get("constraints")), **bars)
    leap = next((step.index + 1 for step in trace.steps if step.choice and step.choice.chosen == "all-in"), None)
    want = case["expected"]["extra"]["exit"]["exit_decision_step"]
    return with_pins(trace, case, p.get("constraints")) or differ("exit", leap, want)


def pinned(given: Mapping[str, int] | None) -> str:
    """Tokens at offsets of the answer as our parameter says it."""
    return "|".join(f"{offset}:#{token}" for offset, token in (given or {}).items())


def with_pins(trace: Trace, case: Case, given: Mapping[str, int] | None) -> str | None:
    """`mismatch`, where tokens stand in the canvas before the first forward there, and in our first step's commits."""
    pins = {len(case["prompt"]) + int(offset): token for offset, token in (given or {}).items()}
    first, *rest = case["expected"]["steps"]
    steps = [{**first, "set": sorted([*first["set"], *([q, token, None] for q, token in pins.items())])}, *rest]
    expected = {**case["expected"], "steps": steps}
    return mismatch(trace, {**case, "expected": expected}, pins)


@checks("dream")
def dream(case: Case, data: Given, folder: Path) -> str | None:
    """Dream's loop with its four orders, and the rule that Fast-dLLM adds to it."""
    if (case["params"].get("cache") or "none") != "none":
        raise NotCovered("with a cache our rule holds from a block's first forward on")
    if case["params"].get("alg") == "confidence_threshold":
        return mismatch(decoded("dream-threshold", case, data, folder, ("alg",)), case)
    return mismatch(decoded("dream", case, data, folder), case)


@checks("dparallel", "dparallel_dream")
def dparallel(case: Case, data: Given, folder: Path) -> str | None:
    """dParallel's loops for LLaDA and Dream; `steps` and the name of the order do not matter where a threshold is
    given."""
    if case["params"].get("threshold") is None:
        raise NotCovered("dparallel needs a threshold")
    return mismatch(decoded("dparallel", case, data, folder, ("steps", "alg")), case)


@checks("dimple")
def dimple(case: Case, data: Given, folder: Path) -> str | None:
    """Dimple's `dim` pipeline and its structure priors."""
    p = case["params"]
    if p["decoding_pipeline"] != "dim":
        raise NotCovered(f"the pipeline {p['decoding_pipeline']} is not dim")
    prior, read = p.get("structure_prior"), ("decoding_pipeline", "structure_prior")
    return with_pins(decoded("dimple", case, data, folder, read, structure_prior=pinned(prior)), case, prior)


@checks("fast_dllm_v2")
def fast_dllm_v2(case: Case, data: Given, folder: Path) -> str | None:
    """Fast-dLLM v2's generate: what every forward fed and wrote. The forward that stores the last block for nothing is
    not made by us, and a prompt of one block, which is out of sight there, is not covered."""
    prompt, expected = case["prompt"], case["expected"]
    trace = decoded_v2(case, data, folder)
    wanted = expected["steps"][:-1] if expected["steps"][-1]["kind"] == "store" else expected["steps"]
    if fault := differ("nfe", trace.totals.forwards, len(wanted)):
        return fault
    for i, (step, want) in enumerate(zip(trace.steps, wanted, strict=True)):
        wrote = [list(pair) for pair in sorted(written(step)[0].items())]
        pairs = [[q, token] for q, token, _ in want["set"]]
        if i == len(wanted) - 1 or all(q < len(expected["final"]) for q, _ in pairs):
            wrote = [[q, token] for q, token in wrote if q < len(expected["final"])]  # it ends at the first end mark
        span = next([s.start, s.end] for s in step.spans if s.kind == "fed")
        if fault := differ(f"forward {i} commits", wrote, pairs) or differ(f"forward {i} fed", span, want["fed"]):
            return fault
    final = prompt + trace.output_ids[: len(expected["final"]) - len(prompt)]
    return differ("final", final, expected["final"][: len(final)])


def decoded_v2(case: Case, data: Given, folder: Path) -> Trace:
    """`decoded` for block diffusion. Official blocks are counted from the start of the prompt's last block."""
    p, prompt = dict(case["params"]), case["prompt"]
    size, tokens = p.pop("block_size"), p.pop("max_new_tokens")
    if len(prompt) == size:
        raise NotCovered("a prompt of one block is stored here and out of sight there")
    if p.get("top_p") == V2_TOP_P:
        del p["top_p"]
    known = ("small_block_size", "threshold", "use_block_cache", "temperature")
    params = renamed(p, known, "fast-dllm-v2")
    stub = str(folder / "stubs" / case["stub"])
    own = {"kind": "block", "mask_id": data["mask_id"], "block_size": size, "shift": data.get("shift")}
    model = load_model(stub, **loading(**own))
    canvas = (len(prompt) // size + tokens // size) * size - len(prompt)
    params = {**params, "max_new_tokens": canvas}
    return run("fast-dllm-v2", model, prompt, params=params, seed=case.get("rng_seed", 0), detail="light")
