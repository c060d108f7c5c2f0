"""Golden cases of LLaDA2.0 and LLaDA2.1: logits of boards, `generate` of both model files, sglang's LowConfidence,
JointThreshold and JointThresholdInDel, diffusers' LLaDA2Pipeline.

What each forward found, wrote and replaced is compared; forwards that only store finished blocks are ours alone, except
that sglang counts one that changes nothing at the end of a block."""

from pathlib import Path
from typing import Any

import engines
from engines.core.golden_cases import Case, NotCovered, checks, differ, loading
from engines.core.lazy import torch
from engines.core.trace import Step, Trace

from .cases import Given

CHANCE = 1e-3
LOGITS = 1e-4
NEVER = 1.01  # a threshold that nothing exceeds
ALGORITHMS = {"LowConfidence": "llada2", "JointThreshold": "llada21", "JointThresholdInDel": "llada22"}
OURS = {"gen_length": "max_new_tokens", "num_inference_steps": "steps"}


@checks("llada2", sections=("boards", "cases"))
def llada2(case: Case, data: Given, folder: Path) -> str | None:
    """A board or a decode, by the section and the engine that made it."""
    if case["section"] == "boards":
        return board(case, data, folder)
    engine = data.get("engine", "generate").split()[0]
    return {"generate": generate, "sglang": sglang, "diffusers": pipeline}[engine](case, data, folder)


def loaded(data: Given, folder: Path, size: int, eos: int | None = None) -> Any:
    """The checkpoint with blocks of this size, and this end mark or none."""
    own = {"kind": "block", "block_size": size, "mask_id": data["mask_id"], "dtype": "float32"}
    model = engines.load_model(folder / "checkpoint", **loading(**own))
    model.eos_ids = frozenset(() if eos is None else (eos,))
    return model


def board(case: Case, data: Given, folder: Path) -> str | None:
    """Logits of a whole board under the block mask; the mask's own are not compared, since it is never proposed."""
    from safetensors.torch import load_file

    ids = case.get("ids") or case["input_ids"]
    z = loaded(data, folder, case["block_length"])(torch.tensor(ids))
    wanted = load_file(folder / "logits.safetensors")[f"{case['id']}.logits"]
    z[:, data["mask_id"]] = wanted[:, data["mask_id"]]
    return differ("logits", z.tolist(), wanted.tolist(), LOGITS)


def decoded(slug: str, case: Case, model: Any, params: Given) -> Trace:
    """Run a case with the official parameters under our names."""
    if slug in ("llada21", "llada22"):
        params = {"eos_early_stop": False, **params}
    ours = {OURS.get(name, name): value for name, value in params.items() if value is not None}
    return engines.run(slug, model, case["prompt"], params=ours, seed=case.get("rng_seed", 0), detail="full")


def generate(case: Case, data: Given, folder: Path) -> str | None:
    """`generate` of the model files of 2.0 and 2.1."""
    p = dict(case["params"])
    model = loaded(data, folder, p.pop("block_length"), p.pop("eos_id", data["eos_id"]))
    schedule = min(p.pop("steps"), p["gen_length"] // p.pop("minimal_topk", 1))
    if case["version"] == "2.1":
        return compared(decoded("llada21", case, model, p), case, model)
    early = p.pop("eos_early_stop", False)
    return compared(decoded("llada2", case, model, p | {"steps": schedule}), case, model, early)


def pipeline(case: Case, data: Given, folder: Path) -> str | None:
    """diffusers' pipeline, whose budget of forwards without masks is one more, and which ends at an end mark."""
    model = loaded(data, folder, case["params"]["block_length"], case["params"].get("eos_id", data["eos_id"]))
    return compared(as_pipeline(case, model, eos_early_stop=True), case, model)


def as_pipeline(case: Case, model: Any, **more: Any) -> Trace:
    """Our run of a case of diffusers' pipeline."""
    p = {"max_post_steps": 16, **more, **case["params"]}
    for name in ("block_length", "eos_id"):
        p.pop(name, None)
    p["num_inference_steps"] = min(p["num_inference_steps"], p["gen_length"] // p.pop("minimal_topk", 1))
    editing = p.get("editing_threshold")
    p["editing_threshold"] = editing if editing is not None and editing > 0 else NEVER
    p["max_post_steps"] = p["max_post_steps"] + 1 if p["editing_threshold"] != NEVER else 1
    return decoded("llada21", case, model, p)


def compared(trace: Trace, case: Case, model: Any, early: bool = False) -> str | None:
    """Number of forwards, what each wrote and replaced, the board at the end and the answer. early: up to the forward
    that writes an end mark and has everything before the first one written, where `eos_early_stop` ends; ours goes
    on."""
    expected, steps = case["expected"], forwards(trace)
    x, P = trace.header.prompt_ids + trace.output_ids, len(case["prompt"])
    if early:
        steps, x = until_an_end(steps, [*trace.header.prompt_ids, *[model.mask_id] * len(trace.output_ids)], P, model)
    if fault := differ("nfe", len(steps), expected["nfe"]):
        return fault
    for i, (step, want) in enumerate(zip(steps, expected["steps"], strict=True)):
        said = {"block": block(step), "written": pairs(step, False), "edited": pairs(step, True)}
        told = {
            "block": want["block"],
            "written": sorted(w[:2] for w in want["written"]),
            "edited": sorted([w[0], w[-2] if len(w) > 2 else w[1]] for w in want["edited"]),
        }
        if fault := differ(f"forward {i}", said, told):
            return fault
        plain = (
            case["params"].get("temperature", 0) == 0
        )  # else the files hold another distribution's than the drawn one
        if plain and any(isinstance(w[-1], float) for w in want["written"] + want["edited"]):
            both = sorted([w[0], w[-1]] for w in want["written"] + want["edited"])
            if fault := differ(f"forward {i} p", chances(step), both, CHANCE):
                return fault
    if "canvas" in expected and (fault := differ("canvas", x[: len(expected["canvas"])], expected["canvas"])):
        return fault
    answer = x[P : P + case["params"]["gen_length"]]
    ends = [i for i, token in enumerate(answer) if token in model.eos_ids]
    return differ("answer", answer[: ends[0] + 1] if ends else answer, expected["answer"])


def until_an_end(steps: list[Step], x: list[int], P: int, model: Any) -> tuple[list[Step], list[int]]:
    """The steps up to the first that writes an end mark and leaves no mask before the answer's first one, and the board
    that it leaves."""
    for number, step in enumerate(steps, 1):
        for position, token in pairs(step, False):
            x[position] = token
        known = x[P : x.index(model.mask_id)] if model.mask_id in x else x[P:]
        if any(token in model.eos_ids for _, token in pairs(step, False)) and model.eos_ids.intersection(known):
            return steps[:number], x
    return steps, x


def sglang(case: Case, data: Given, folder: Path) -> str | None:
    """sglang's algorithms: the block before and after each forward."""
    algorithm, p, size = case["algorithm"], dict(case["algorithm_config"]), case["block_size"]
    if algorithm not in ALGORITHMS:
        raise NotCovered(f"{algorithm} is not implemented")
    model, slug = loaded(data, folder, size), ALGORITHMS[algorithm]
    first = len(case["prompt"]) // size
    params: dict[str, Any] = {
        "threshold": p["threshold"],
        "gen_length": (first + case["blocks"]) * size - len(case["prompt"]),
    }
    if slug == "llada2":
        params |= {"steps": size}
    else:
        params |= {"editing_threshold": p["edit_threshold"], "max_post_steps": p["max_post_edit_steps"]}
    if slug == "llada21":
        params |= {"penalty": p.get("penalty_lambda", 0.0)}
    if slug == "llada22":
        params |= {name: case[name] for name in ("delete_token_id", "split_token_id")}
    trace = decoded(slug, case, model, params)
    return differ("steps", with_last_looks(trace, case), case["expected"]["steps"]) or differ(
        "canvas", trace.header.prompt_ids + trace.output_ids, case["expected"]["canvas"]
    )


def with_last_looks(trace: Trace, case: Case) -> list[dict[str, Any]]:
    """Each forward with its block before and after it. Where our block ends with a forward that changes it, sglang
    makes one more that does not, in which the engine keeps its keys and values."""
    x, found = list(trace.header.prompt_ids), []
    mask = trace.header.mask_id
    x += [mask] * (trace.header.canvas or 0)
    steps = forwards(trace)
    for i, step in enumerate(steps):
        a, b = block(step)
        before = x[a:b]
        if step.commits:
            step.commits.shift(x, lambda: mask)
        for position, token in [*pairs(step, False), *pairs(step, True)]:
            x[position] = token
        found.append({"block": [a, b], "before": before, "after": x[a:b]})
        if x[a:b] != before and (i + 1 == len(steps) or block(steps[i + 1]) != [a, b]):
            found.append({"block": [a, b], "before": x[a:b], "after": x[a:b]})
    return found


def forwards(trace: Trace) -> list[Step]:
    """The steps of forwards that look at the open block."""
    return [step for step in trace.steps if any(span.kind == "block" for span in step.spans)]


def block(step: Step) -> list[int]:
    return next([span.start, span.end] for span in step.spans if span.kind == "block")


def pairs(step: Step, edited: bool) -> list[list[int]]:
    """What a step wrote on masks, or put in the place of tokens: [position, token], rising."""
    c = step.commits
    rows = zip(c.positions, c.tokens, c.causes, strict=True) if c else ()
    return sorted([position, token] for position, token, cause in rows if (cause == "changed") == edited)


def chances(step: Step) -> list[list[Any]]:
    """The probability of each token that a step wrote, by position."""
    c = step.commits
    return sorted([p, chance] for p, chance in zip(c.positions, c.probabilities, strict=True)) if c else []
